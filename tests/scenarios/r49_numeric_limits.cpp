#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/numeric/traits.hpp>
#include <limits>
#include <tuple>
#include <vector>

BOOST_AUTO_TEST_SUITE(r49_numeric_limits_tests)

// std::numeric_limits of a type that has not specialised it answers 0: a maximum that starts from -max() is
// then never below 0, and masks and clamps are silently 0.

using namespace halfstep;

namespace {

using StorageTypes = std::tuple<float, float16, bfloat16>;

/// Generic code as it is written for float, by the traits.
template <FloatingType T>
float row_maximum(const std::vector<T>& row) {
  float maximum = -numeric_traits<T>::largest;
  for (const T x : row) maximum = (std::max)(maximum, convert_to<float>(x));
  return maximum;
}

/// The same by std::numeric_limits, as code from elsewhere will have it.
template <FloatingType T>
float row_maximum_by_limits(const std::vector<T>& row) {
  static_assert(std::numeric_limits<T>::is_specialized);
  auto maximum = convert_to<float>(std::numeric_limits<T>::lowest());
  for (const T x : row) maximum = (std::max)(maximum, convert_to<float>(x));
  return maximum;
}

template <FloatingType T>
float absolute_maximum(const std::vector<T>& values) {
  float maximum = 0;
  for (const T x : values) maximum = (std::max)(maximum, std::abs(convert_to<float>(x)));
  return (std::min)(maximum, convert_to<float>((std::numeric_limits<T>::max)()));
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(the_maximum_of_a_row_of_negative_numbers_is_negative, T, StorageTypes) {
  const std::vector<T> row{convert_to<T>(-3.0f), convert_to<T>(-1.0f)};
  BOOST_TEST(row_maximum(row) == -1.0f);
  BOOST_TEST(row_maximum_by_limits(row) == -1.0f);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_absolute_maximum_is_not_clamped_to_zero, T, StorageTypes) {
  const std::vector<T> values{convert_to<T>(-5.0f), convert_to<T>(-2.0f)};
  BOOST_TEST(absolute_maximum(values) == 5.0f);
}

BOOST_AUTO_TEST_CASE(the_largest_finite_numbers_are_those_of_the_formats) {
  BOOST_TEST(numeric_traits<float16>::largest == 65504.0f);
  BOOST_TEST(numeric_traits<bfloat16>::largest == 3.3895314e38f);
  BOOST_TEST(numeric_traits<float>::largest == 3.4028235e38f);
}

BOOST_AUTO_TEST_SUITE_END()
