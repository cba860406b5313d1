#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <halfstep/numeric/math.hpp>
#include <halfstep/numeric/traits.hpp>
#include <vector>

namespace math = halfstep::math;

static_assert(__FINITE_MATH_ONLY__ == 1, "this file is to be compiled with -ffast-math");

BOOST_AUTO_TEST_SUITE(math_fast_math_tests)

namespace {

std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return bits;
}
float float_of(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

constexpr std::uint32_t infinity = 0x7f800000, minus_infinity = 0xff800000, quiet_nan = 0x7fc00000,
                        sign = 0x80000000, one = 0x3f800000;

using Function = float (*)(float);

std::uint32_t result(Function function, std::uint32_t argument) {
  return bits_of(function(float_of(argument)));
}

bool gives_nan(Function function, std::uint32_t argument) {
  return (result(function, argument) & 0x7fffffffu) > infinity;
}

/// Over arguments in [-limit, limit]; fast mathematics may reorder sums, which costs a unit or two.
double largest_error(Function function, double (*exact)(double), float lowest, float highest) {
  double largest = 0;
  for (int i = 0; i <= 200000; ++i) {
    const float x = lowest + (highest - lowest) * static_cast<float>(i) / 200000.0f;
    const double wanted = exact(static_cast<double>(x));
    const double unit = std::ldexp(1.0, (std::max)(std::ilogb(wanted), -126) - 23);
    largest = (std::max)(largest, std::fabs(static_cast<double>(function(x)) - wanted) / unit);
  }
  return largest;
}

constexpr double units_allowed = 4;

}  // namespace

BOOST_AUTO_TEST_CASE(special_values_are_right_under_fast_math) {
  BOOST_TEST(result(math::exp, infinity) == infinity);
  BOOST_TEST(result(math::exp, minus_infinity) == 0u);
  BOOST_TEST(result(math::log, infinity) == infinity);
  BOOST_TEST(result(math::log, 0) == minus_infinity);
  BOOST_TEST(result(math::tanh, infinity) == one);
  BOOST_TEST(result(math::tanh, minus_infinity) == (one | sign));
  BOOST_TEST(result(math::erf, infinity) == one);
  BOOST_TEST(result(math::erf, minus_infinity) == (one | sign));
  for (const Function function : {math::exp, math::log, math::tanh, math::erf})
    BOOST_TEST(gives_nan(function, quiet_nan));
  BOOST_TEST(gives_nan(math::log, minus_infinity));
  BOOST_TEST(gives_nan(math::log, one | sign));
}

BOOST_AUTO_TEST_CASE(the_functions_are_within_four_units_under_fast_math) {
  BOOST_TEST(largest_error(
                 math::exp, [](double x) { return std::exp(x); }, -87.0f, 88.7f) < units_allowed);
  BOOST_TEST(largest_error(
                 math::log, [](double x) { return std::log(x); }, 1e-4f, 100.0f) < units_allowed);
  BOOST_TEST(largest_error(
                 math::tanh, [](double x) { return std::tanh(x); }, -10.0f, 10.1f) < units_allowed);
  BOOST_TEST(largest_error(
                 math::erf, [](double x) { return std::erf(x); }, -5.0f, 5.1f) < units_allowed);
}

BOOST_AUTO_TEST_SUITE_END()
