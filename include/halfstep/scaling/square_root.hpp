#pragma once

#include <cmath>
#include <cstdint>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/option_fault.hpp>

namespace halfstep::detail {

/// Newton's iteration for the compiler, which may not call sqrt in a constant expression. Within one unit in
/// the last place of the exact root, and exact where the root is a small integer.
HALFSTEP_HOST_DEVICE constexpr double newton_square_root(double value) {
  if (!(value > 0) || !has_finite_bits(value)) return value;
  // Half the exponent: within a factor of 1.5 of the root.
  double root =
      __builtin_bit_cast(double, (__builtin_bit_cast(std::uint64_t, value) >> 1) + (0x3ffull << 51));
  for (int iteration = 0; iteration < 8; ++iteration) root = 0.5 * (root + value / root);
  return root;
}

/// Square root in double, on host, device and in constant expressions.
HALFSTEP_HOST_DEVICE constexpr double square_root(double value) {
  if (__builtin_is_constant_evaluated()) return newton_square_root(value);
  return std::sqrt(value);
}

}  // namespace halfstep::detail
