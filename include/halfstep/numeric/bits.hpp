#pragma once

#include <cstdint>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep::detail {

/// Zero, but not to the compiler's knowledge where it might reason from "no operand is NaN or infinite".
/// Under -ffast-math clang (17 and newer) deletes even tests of the exponent bits; bits XORed with this zero
/// it does not recognise as a number's any more. g++ leaves tests of bits alone, and would not vectorise a
/// loop with the asm in it.
HALFSTEP_HOST_DEVICE constexpr std::uint64_t opaque_zero() noexcept {
  std::uint64_t zero = 0;
#if defined(__clang__) && __FINITE_MATH_ONLY__
  if (!__builtin_is_constant_evaluated()) asm("" : "+r"(zero));
#endif
  return zero;
}

/// The bits of a number that may be NaN or infinite.
HALFSTEP_HOST_DEVICE constexpr std::uint32_t bits_of(float value) noexcept {
  return __builtin_bit_cast(std::uint32_t, value) ^ static_cast<std::uint32_t>(opaque_zero());
}
HALFSTEP_HOST_DEVICE constexpr std::uint64_t bits_of(double value) noexcept {
  return __builtin_bit_cast(std::uint64_t, value) ^ opaque_zero();
}

/// The float of these bits, NaN and infinities included.
HALFSTEP_HOST_DEVICE constexpr float float_of(std::uint32_t bits) noexcept {
  return __builtin_bit_cast(float, bits);
}

/// All ones where `a < b`, else zero; `a` and `b` below 2^31. A mask rather than `?:` because compilers turn
/// the latter into branches, move the arithmetic of one side into them, and then no longer vectorise the loop
/// around.
HALFSTEP_HOST_DEVICE constexpr std::uint32_t mask_if_less(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::uint32_t>((static_cast<std::int32_t>(a) - static_cast<std::int32_t>(b)) >> 31);
}

/// `where_set` where the mask is all ones, `elsewhere` where it is zero.
HALFSTEP_HOST_DEVICE constexpr std::uint32_t select(std::uint32_t mask, std::uint32_t where_set,
                                                    std::uint32_t elsewhere) noexcept {
  return elsewhere ^ ((elsewhere ^ where_set) & mask);
}

}  // namespace halfstep::detail
