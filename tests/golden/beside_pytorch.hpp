#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <halfstep/numeric/traits.hpp>
#include <string>
#include <vector>

#include "golden/golden.hpp"
#include "support/each_policy.hpp"
#include "support/tape.hpp"

namespace halfstep::test {

/// One rounding to T, as a share of the number.
template <class T>
inline constexpr double rounding = 0x1p-24;
template <>
inline constexpr double rounding<float16> = 0x1p-11;
template <>
inline constexpr double rounding<bfloat16> = 0x1p-8;
/// Half of the smallest number that T has.
template <class T>
inline constexpr double smallest_rounding = 0;
template <>
inline constexpr double smallest_rounding<float16> = 0x1p-25;

/// |ours - theirs| <= roundings * (share * |theirs| + least)
inline void check_near(const std::string& name, const std::vector<float>& ours, const std::vector<float>& theirs,
                       double roundings, double share, double least) {
  BOOST_TEST_REQUIRE(ours.size() == theirs.size());
  double furthest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double a = static_cast<double>(ours[i]), b = static_cast<double>(theirs[i]);
    const double bound = share * std::abs(b) + least;
    if (a == b) continue;
    furthest = (std::max)(furthest, std::abs(a - b) / bound);
    BOOST_TEST(std::abs(a - b) <= roundings * bound, name << "[" << i << "] is " << a << ", not " << b);
  }
  if (furthest > 0) BOOST_TEST_MESSAGE(name << ": " << furthest << " of " << roundings << " roundings");
}

/// What PyTorch computed in a policy's types, in a file whose names are <policy>.<operation>.<tensor>.
template <class Policy>
struct Golden {
  using T = typename Policy::compute_type;
  GoldenFile file;

  std::string name(const std::string& operation, const std::string& tensor) const {
    return std::string(Policy::name) + "." + operation + "." + tensor;
  }
  std::vector<float> values(const std::string& operation, const std::string& tensor) const {
    return file.read(name(operation, tensor)).values;
  }
  float number(const std::string& operation, const std::string& tensor) const {
    return file.number(name(operation, tensor));
  }
  Watched<T> input(const std::string& operation) const {
    const auto x = file.read(name(operation, "x"));
    return {x.shape, x.values};
  }
  /// |ours - PyTorch's| <= roundings * (one rounding of the number to the type it is stored in) + absolute.
  template <class Stored = T>
  void compare(const std::string& operation, const std::string& tensor, const std::vector<float>& ours,
               double roundings, double absolute = 0) const {
    check_near(name(operation, tensor), ours, values(operation, tensor), roundings, rounding<Stored>,
               (std::max)(smallest_rounding<Stored>, absolute / roundings));
  }
};

// Both compute in float and round once: where a float ends up near the middle between two numbers of T, they
// may take neighbours, which are two roundings apart. In float32 the functions themselves differ by a few
// units.
template <class T>
inline constexpr double neighbours = 2.01;
template <>
inline constexpr double neighbours<float> = 8;

// A sum of float products in another order: roundings of float relative to the largest terms.
inline constexpr double sum_order = 1e-6;

}  // namespace halfstep::test
