#include <boost/test/unit_test.hpp>
#include <halfstep/numeric/option_fault.hpp>
#include <limits>
#include <string>

BOOST_AUTO_TEST_SUITE(option_fault_tests)

using namespace halfstep;
using detail::describe_number;
using detail::OptionFault;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

static_assert(detail::has_finite_bits(0.0) && detail::has_finite_bits(1e308) &&
              detail::has_finite_bits(5e-324));
static_assert(!detail::has_finite_bits(infinity) && !detail::has_finite_bits(-infinity));
static_assert(!detail::has_finite_bits(nan_value));
static_assert(detail::is_finite_as_float(3.4e38) && !detail::is_finite_as_float(-3.5e38));
static_assert(!OptionFault{} && OptionFault{"rate", 1, "no"});

BOOST_AUTO_TEST_CASE(numbers_read_as_they_were_written) {
  BOOST_TEST(describe_number(0.1f) == "0.1");
  BOOST_TEST(describe_number(0.1) == "0.1");
  BOOST_TEST(describe_number(-65536) == "-65536");
  BOOST_TEST(describe_number(infinity) == "infinity");
  BOOST_TEST(describe_number(-infinity) == "-infinity");
  BOOST_TEST(describe_number(nan_value) == "NaN");
}

BOOST_AUTO_TEST_CASE(a_fault_throws_with_owner_option_value_and_rule) {
  detail::throw_if_fault("Thing", OptionFault{});
  const auto says = [](const char* text) {
    return [text](const ConfigurationError& e) { return e.what() == std::string(text); };
  };
  BOOST_CHECK_EXCEPTION(detail::throw_if_fault("Thing", {"size", -1, "it must be positive"}),
                        ConfigurationError, says("Thing: size is -1; it must be positive."));
  BOOST_CHECK_EXCEPTION(detail::throw_if_fault("Thing", {"low", 2, "low must be under high", "high", 1}),
                        ConfigurationError, says("Thing: low is 2 and high is 1; low must be under high."));
}

BOOST_AUTO_TEST_SUITE_END()
