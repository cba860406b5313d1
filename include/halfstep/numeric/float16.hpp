#pragma once

#include <concepts>
#include <cstdint>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/round_to_odd.hpp>
#include <limits>

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

namespace halfstep {

/// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits. A storage type: bits and explicit conversions,
/// no arithmetic.
///
/// Conversion down rounds to nearest, ties to even, in one rounding from float, double and integers up to
/// 2^53; values of magnitude 65520 and more become infinite; subnormals are kept. Conversion up is exact. Any
/// NaN becomes the one canonical NaN of the target (0x7fff; 0x7fffffff as float), as CUDA's hardware
/// conversions do. The host code has no branches and no loops, so that loops over arrays of these types
/// vectorise.
class float16 {
 public:
  float16() = default;

  HALFSTEP_HOST_DEVICE explicit constexpr float16(float value) noexcept : bits_(round(value)) {}
  HALFSTEP_HOST_DEVICE explicit constexpr float16(double value) noexcept
      : bits_(round(detail::round_to_odd(value))) {}
  template <std::integral Integer>
  HALFSTEP_HOST_DEVICE explicit constexpr float16(Integer value) noexcept
      : float16(static_cast<double>(value)) {}

  HALFSTEP_HOST_DEVICE static constexpr float16 from_bits(std::uint16_t bits) noexcept {
    float16 result{};
    result.bits_ = bits;
    return result;
  }
  HALFSTEP_HOST_DEVICE constexpr std::uint16_t bits() const noexcept { return bits_; }

  HALFSTEP_HOST_DEVICE explicit constexpr operator float() const noexcept { return widen(bits_); }
  HALFSTEP_HOST_DEVICE explicit constexpr operator double() const noexcept {
    return static_cast<double>(widen(bits_));
  }

  /// Compares values: -0 equals 0 and NaN equals nothing.
  HALFSTEP_HOST_DEVICE friend constexpr bool operator==(float16 a, float16 b) noexcept {
    const auto both_zero = ((a.bits_ | b.bits_) & 0x7fffu) == 0;
    return both_zero || (a.bits_ == b.bits_ && (a.bits_ & 0x7fffu) <= 0x7c00u);
  }

 private:
  HALFSTEP_HOST_DEVICE static constexpr std::uint16_t round(float value) noexcept;
  HALFSTEP_HOST_DEVICE static constexpr float widen(std::uint16_t bits) noexcept;

  std::uint16_t bits_;
};

static_assert(sizeof(float16) == 2);

HALFSTEP_HOST_DEVICE constexpr std::uint16_t float16::round(float value) noexcept {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return __half_as_ushort(__float2half_rn(value));
#endif
  const std::uint32_t bits = detail::bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;

  // Exponent re-biased from 127 to 15; half of the dropped range is added, less one where the kept part is
  // even.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // In [0.5, 1) one unit in the last place of a float is 2^-24, the spacing of the subnormals: the addition
  // rounds.
  const float shifted = detail::float_of(magnitude) + 0.5f;
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000u;

  const std::uint32_t below_normal = detail::mask_if_less(magnitude, 0x38800000u);  // 2^-14
  const std::uint32_t in_range = detail::mask_if_less(magnitude, 0x477ff000u);  // 65520 rounds to infinity
  const std::uint32_t is_nan = detail::mask_if_less(0x7f800000u, magnitude);
  const std::uint32_t finite = detail::select(below_normal, subnormal, normal);
  const std::uint32_t number = detail::select(in_range, finite, 0x7c00u) | sign;
  return static_cast<std::uint16_t>(detail::select(is_nan, 0x7fffu, number));
}

HALFSTEP_HOST_DEVICE constexpr float float16::widen(std::uint16_t bits) noexcept {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return __half2float(__ushort_as_half(bits));
#endif
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;

  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const float scaled = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const auto subnormal = __builtin_bit_cast(std::uint32_t, scaled);

  const std::uint32_t below_normal = detail::mask_if_less(magnitude, 0x0400u);
  const std::uint32_t is_finite = detail::mask_if_less(magnitude, 0x7c00u);
  const std::uint32_t is_nan = detail::mask_if_less(0x7c00u, magnitude);
  const std::uint32_t finite = detail::select(below_normal, subnormal, normal);
  const std::uint32_t number = detail::select(is_finite, finite, 0x7f800000u) | sign;
  return detail::float_of(detail::select(is_nan, 0x7fffffffu, number));
}

}  // namespace halfstep

template <>
class std::numeric_limits<halfstep::float16> {
  using T = halfstep::float16;

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
  static constexpr int digits = 11;
  static constexpr int digits10 = 3;
  static constexpr int max_digits10 = 5;
  static constexpr int radix = 2;
  static constexpr int min_exponent = -13;
  static constexpr int min_exponent10 = -4;
  static constexpr int max_exponent = 16;
  static constexpr int max_exponent10 = 4;
  static constexpr bool traps = false;
  static constexpr bool tinyness_before = false;

  HALFSTEP_HOST_DEVICE static constexpr T(min)() noexcept { return T::from_bits(0x0400); }
  HALFSTEP_HOST_DEVICE static constexpr T(max)() noexcept { return T::from_bits(0x7bff); }
  HALFSTEP_HOST_DEVICE static constexpr T lowest() noexcept { return T::from_bits(0xfbff); }
  HALFSTEP_HOST_DEVICE static constexpr T epsilon() noexcept { return T::from_bits(0x1400); }
  HALFSTEP_HOST_DEVICE static constexpr T round_error() noexcept { return T::from_bits(0x3800); }
  HALFSTEP_HOST_DEVICE static constexpr T infinity() noexcept { return T::from_bits(0x7c00); }
  HALFSTEP_HOST_DEVICE static constexpr T quiet_NaN() noexcept { return T::from_bits(0x7fff); }
  HALFSTEP_HOST_DEVICE static constexpr T signaling_NaN() noexcept { return T::from_bits(0); }
  HALFSTEP_HOST_DEVICE static constexpr T denorm_min() noexcept { return T::from_bits(0x0001); }
};
