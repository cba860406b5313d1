#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/numeric/traits.hpp>
#include <limits>
#include <string>
#include <tuple>

BOOST_AUTO_TEST_SUITE(traits_tests)

using namespace halfstep;

namespace {

using Types = std::tuple<float, double, float16, bfloat16>;

static_assert(FloatingType<float> && FloatingType<double> && FloatingType<float16> && FloatingType<bfloat16>);
static_assert(!FloatingType<int> && !FloatingType<long double> && !FloatingType<std::uint16_t>);
static_assert(SixteenBitType<float16> && SixteenBitType<bfloat16> && !SixteenBitType<float> &&
              !is_16bit<double>);
static_assert(is_finite(1.0f) && !is_finite(std::numeric_limits<float>::infinity()));
static_assert(is_nan(std::numeric_limits<double>::quiet_NaN()) &&
              !is_nan(std::numeric_limits<double>::infinity()));
static_assert(convert_to<bfloat16>(float16(1.5f)) == bfloat16(1.5f) &&
              convert_to<double>(float16(0.1f)) < 0.1);
static_assert(convert_to<float16>(65519.99999999).bits() == 0x7bff, "rounded once");

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(the_traits_agree_with_numeric_limits, T, Types) {
  using Traits = numeric_traits<T>;
  using Limits = std::numeric_limits<T>;
  using A = typename Traits::arithmetic_type;
  static_assert(Limits::is_specialized);
  BOOST_TEST(Traits::largest == static_cast<A>((Limits::max)()));
  BOOST_TEST(Traits::smallest_normal == static_cast<A>((Limits::min)()));
  BOOST_TEST(Traits::smallest_subnormal == static_cast<A>(Limits::denorm_min()));
  BOOST_TEST(Traits::epsilon == static_cast<A>(Limits::epsilon()));
  BOOST_TEST(Traits::significant_bits == Limits::digits);
  BOOST_TEST(Traits::is_16bit == (sizeof(T) == 2));
}

BOOST_AUTO_TEST_CASE(each_type_has_its_name) {
  const std::string names =
      std::string(numeric_traits<float>::name) + " " + std::string(numeric_traits<double>::name) + " " +
      std::string(numeric_traits<float16>::name) + " " + std::string(numeric_traits<bfloat16>::name);
  BOOST_TEST(names == "float32 float64 float16 bfloat16");
}

BOOST_AUTO_TEST_CASE(finite_and_nan_are_told_for_every_16_bit_pattern) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    const auto sixteen_bits = float16::from_bits(static_cast<std::uint16_t>(bits));
    const auto brain = bfloat16::from_bits(static_cast<std::uint16_t>(bits));
    const float half_value = static_cast<float>(sixteen_bits);
    const float brain_value = static_cast<float>(brain);
    BOOST_TEST_REQUIRE(is_finite(sixteen_bits) == std::isfinite(half_value));
    BOOST_TEST_REQUIRE(is_finite(half_value) == std::isfinite(half_value));
    BOOST_TEST_REQUIRE(is_nan(sixteen_bits) == std::isnan(half_value));
    BOOST_TEST_REQUIRE(is_nan(half_value) == std::isnan(half_value));
    BOOST_TEST_REQUIRE(is_finite(brain) == std::isfinite(brain_value));
    BOOST_TEST_REQUIRE(is_nan(brain) == std::isnan(brain_value));
    BOOST_TEST_REQUIRE(is_finite(static_cast<double>(brain_value)) == std::isfinite(brain_value));
    BOOST_TEST_REQUIRE(is_nan(static_cast<double>(brain_value)) == std::isnan(brain_value));
  }
}

BOOST_AUTO_TEST_CASE(sixteen_bit_traits_convert_from_and_to_float) {
  BOOST_TEST(numeric_traits<float16>::to_float(numeric_traits<float16>::from_float(1.0f / 3)) == 0x1.554p-2f);
  BOOST_TEST(numeric_traits<bfloat16>::to_float(numeric_traits<bfloat16>::from_float(1.0f / 3)) ==
             0x1.56p-2f);
}

BOOST_AUTO_TEST_SUITE_END()
