#pragma once

#include <concepts>
#include <cstdint>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/round_to_odd.hpp>
#include <limits>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#endif

namespace halfstep {

/// bfloat16: the upper half of a float, 1 sign, 8 exponent and 7 fraction bits. A storage type: bits and
/// explicit conversions, no arithmetic.
///
/// Conversion down rounds to nearest, ties to even, in one rounding from float, double and integers up to
/// 2^53; subnormals are kept. Conversion up is exact. Any NaN becomes the one canonical NaN of the target
/// (0x7fff; 0x7fffffff as float). The host code has no branches and no loops, so that loops over arrays of
/// these types vectorise.
class bfloat16 {
 public:
  bfloat16() = default;

  HALFSTEP_HOST_DEVICE explicit constexpr bfloat16(float value) noexcept : bits_(round(value)) {}
  HALFSTEP_HOST_DEVICE explicit constexpr bfloat16(double value) noexcept
      : bits_(round(detail::round_to_odd(value))) {}
  template <std::integral Integer>
  HALFSTEP_HOST_DEVICE explicit constexpr bfloat16(Integer value) noexcept
      : bfloat16(static_cast<double>(value)) {}

  HALFSTEP_HOST_DEVICE static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 result{};
    result.bits_ = bits;
    return result;
  }
  HALFSTEP_HOST_DEVICE constexpr std::uint16_t bits() const noexcept { return bits_; }

  HALFSTEP_HOST_DEVICE explicit constexpr operator float() const noexcept { return widen(bits_); }
  HALFSTEP_HOST_DEVICE explicit constexpr operator double() const noexcept {
    return static_cast<double>(widen(bits_));
  }

  /// Compares values: -0 equals 0 and NaN equals nothing.
  HALFSTEP_HOST_DEVICE friend constexpr bool operator==(bfloat16 a, bfloat16 b) noexcept {
    const auto both_zero = ((a.bits_ | b.bits_) & 0x7fffu) == 0;
    return both_zero || (a.bits_ == b.bits_ && (a.bits_ & 0x7fffu) <= 0x7f80u);
  }

 private:
  HALFSTEP_HOST_DEVICE static constexpr std::uint16_t round(float value) noexcept;
  HALFSTEP_HOST_DEVICE static constexpr float widen(std::uint16_t bits) noexcept;

  std::uint16_t bits_;
};

static_assert(sizeof(bfloat16) == 2);

HALFSTEP_HOST_DEVICE constexpr std::uint16_t bfloat16::round(float value) noexcept {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return __bfloat16_as_ushort(__float2bfloat16_rn(value));
#endif
  const std::uint32_t bits = detail::bits_of(value);
  // Half of the dropped range is added, less one where the kept part is even; a carry runs into the exponent,
  // as it should, up to infinity.
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t is_nan = detail::mask_if_less(0x7f800000u, bits & 0x7fffffffu);
  return static_cast<std::uint16_t>(detail::select(is_nan, 0x7fffu, rounded));
}

HALFSTEP_HOST_DEVICE constexpr float bfloat16::widen(std::uint16_t bits) noexcept {
  // On the GPU too: CUDA's own conversion is this shift, without the canonical NaN.
  const std::uint32_t is_nan = detail::mask_if_less(0x7f80u, bits & 0x7fffu);
  const std::uint32_t number = static_cast<std::uint32_t>(bits) << 16;
  return detail::float_of(detail::select(is_nan, 0x7fffffffu, number));
}

}  // namespace halfstep

template <>
class std::numeric_limits<halfstep::bfloat16> {
  using T = halfstep::bfloat16;

 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = false;
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr bool is_iec559 = true;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr int digits = 8;
  static constexpr int digits10 = 2;
  static constexpr int max_digits10 = 4;
  static constexpr int radix = 2;
  static constexpr int min_exponent = -125;
  static constexpr int min_exponent10 = -37;
  static constexpr int max_exponent = 128;
  static constexpr int max_exponent10 = 38;
  static constexpr bool traps = false;
  static constexpr bool tinyness_before = false;

  HALFSTEP_HOST_DEVICE static constexpr T(min)() noexcept { return T::from_bits(0x0080); }
  HALFSTEP_HOST_DEVICE static constexpr T(max)() noexcept { return T::from_bits(0x7f7f); }
  HALFSTEP_HOST_DEVICE static constexpr T lowest() noexcept { return T::from_bits(0xff7f); }
  HALFSTEP_HOST_DEVICE static constexpr T epsilon() noexcept { return T::from_bits(0x3c00); }
  HALFSTEP_HOST_DEVICE static constexpr T round_error() noexcept { return T::from_bits(0x3f00); }
  HALFSTEP_HOST_DEVICE static constexpr T infinity() noexcept { return T::from_bits(0x7f80); }
  HALFSTEP_HOST_DEVICE static constexpr T quiet_NaN() noexcept { return T::from_bits(0x7fff); }
  HALFSTEP_HOST_DEVICE static constexpr T signaling_NaN() noexcept { return T::from_bits(0); }
  HALFSTEP_HOST_DEVICE static constexpr T denorm_min() noexcept { return T::from_bits(0x0001); }
};
