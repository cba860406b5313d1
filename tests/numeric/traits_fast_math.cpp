#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/numeric/traits.hpp>
#include <vector>

using namespace halfstep;

static_assert(__FINITE_MATH_ONLY__ == 1, "this file is to be compiled with -ffast-math");

BOOST_AUTO_TEST_SUITE(traits_fast_math_tests)

namespace {

/// From bit patterns, because under -ffast-math an expression has no NaN to give.
std::vector<float> floats(const std::vector<std::uint32_t>& bits) {
  std::vector<float> result(bits.size());
  std::memcpy(result.data(), bits.data(), bits.size() * sizeof(float));
  return result;
}

__attribute__((noinline)) bool is_finite_parameter(float x) { return is_finite(x); }
__attribute__((noinline)) bool is_nan_parameter(float x) { return is_nan(x); }
__attribute__((noinline)) bool is_finite_parameter(double x) { return is_finite(x); }
__attribute__((noinline)) bool is_nan_parameter(double x) { return is_nan(x); }

/// The shape of the unscale pass: the tested number is computed right there, by arithmetic that "cannot be
/// NaN".
__attribute__((noinline)) int count_non_finite(const float* values, float factor, int n) {
  int count = 0;
#if defined(_OPENMP)
#pragma omp simd reduction(+ : count)
#endif
  for (int i = 0; i < n; ++i) {
    const float product = values[i] * factor;
    count += is_finite(product) ? 0 : 1;
  }
  return count;
}

constexpr std::uint32_t infinity = 0x7f800000, minus_infinity = 0xff800000, quiet = 0x7fc00000,
                        signaling = 0x7f800001, negative_nan = 0xffffffff, one = 0x3f800000,
                        largest = 0x7f7fffff;

}  // namespace

BOOST_AUTO_TEST_CASE(a_parameter_that_is_infinite_or_nan_is_seen_under_fast_math) {
  for (const float x : floats({infinity, minus_infinity})) {
    BOOST_TEST(!is_finite_parameter(x));
    BOOST_TEST(!is_nan_parameter(x));
    BOOST_TEST(!is_finite_parameter(static_cast<double>(x)));
    BOOST_TEST(!is_nan_parameter(static_cast<double>(x)));
  }
  for (const float x : floats({quiet, signaling, negative_nan})) {
    BOOST_TEST(!is_finite_parameter(x));
    BOOST_TEST(is_nan_parameter(x));
    BOOST_TEST(!is_finite_parameter(static_cast<double>(x)));
    BOOST_TEST(is_nan_parameter(static_cast<double>(x)));
  }
  for (const float x : floats({0, one, largest, 1})) {
    BOOST_TEST(is_finite_parameter(x));
    BOOST_TEST(!is_nan_parameter(x));
  }
}

BOOST_AUTO_TEST_CASE(products_that_overflow_or_are_nan_are_counted_under_fast_math) {
  std::vector<float> values = floats({infinity, quiet, largest, one, minus_infinity, signaling});
  BOOST_TEST(count_non_finite(values.data(), 2.0f, 6) == 5);
  BOOST_TEST(count_non_finite(values.data(), 0.5f, 6) == 4);
  values.assign(1000, 1.0f);
  values[7] = values[999] = floats({quiet})[0];
  BOOST_TEST(count_non_finite(values.data(), 2.0f, 1000) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
