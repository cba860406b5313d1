#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <halfstep/numeric/traits.hpp>

namespace halfstep::test {

/// How far a result may be from the exact one: absolute + relative * |expected|.
struct Tolerance {
  double absolute;
  double relative;

  /// For a sum of `terms` terms: their roundings are independent, so errors grow with the square root.
  Tolerance over(std::int64_t terms) const {
    const double factor = std::sqrt(static_cast<double>(terms));
    return {absolute * factor, relative * factor};
  }
  double at(double expected) const { return absolute + relative * std::fabs(expected); }
};

/// A handful of float roundings (unit 6e-8).
inline constexpr Tolerance float_tolerance{1e-6, 5e-6};
/// One rounding to 11 significant bits (4.9e-4), and what cancellation leaves near zero.
inline constexpr Tolerance float16_tolerance{1e-5, 1e-3};
/// One rounding to 8 significant bits (3.9e-3), likewise.
inline constexpr Tolerance bfloat16_tolerance{1e-5, 1e-2};

template <class T>
inline constexpr Tolerance tolerance_of = float_tolerance;
template <>
inline constexpr Tolerance tolerance_of<float16> = float16_tolerance;
template <>
inline constexpr Tolerance tolerance_of<bfloat16> = bfloat16_tolerance;

/// Checks every element of a range of numbers against the exact values.
template <class Actual, class Expected>
void check_close(const Actual& actual, const Expected& expected, Tolerance tolerance) {
  BOOST_TEST_REQUIRE(std::size(actual) == std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const auto a = static_cast<double>(actual[i]);
    const auto e = static_cast<double>(expected[i]);
    BOOST_TEST((std::fabs(a - e) <= tolerance.at(e)), "element " << i << ": " << a << " instead of " << e);
  }
}

}  // namespace halfstep::test
