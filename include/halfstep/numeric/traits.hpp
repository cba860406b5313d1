#pragma once

#include <concepts>
#include <cstdint>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/float16.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/round_to_odd.hpp>
#include <limits>
#include <string_view>

namespace halfstep {

/// What generic code asks of a number type. The limits are given in `arithmetic_type`, the type that code
/// computes in: float, or double for double. They are exact there, and such constants can be used on the GPU
/// as they are.
///
///     float row_max = -numeric_traits<T>::largest;
///
/// The 16-bit types also give to_float and from_float (to nearest even), which CUDA's types offer under no
/// common name. Only types known here have traits: asking for another's does not compile, where
/// std::numeric_limits would answer 0.
template <class T>
struct numeric_traits;

template <>
struct numeric_traits<float> {
  using arithmetic_type = float;
  static constexpr std::string_view name = "float32";
  static constexpr bool is_16bit = false;
  static constexpr int significant_bits = 24;
  static constexpr float largest = 0x1.fffffep+127f;
  static constexpr float smallest_normal = 0x1p-126f;
  static constexpr float smallest_subnormal = 0x1p-149f;
  static constexpr float epsilon = 0x1p-23f;
};

template <>
struct numeric_traits<double> {
  using arithmetic_type = double;
  static constexpr std::string_view name = "float64";
  static constexpr bool is_16bit = false;
  static constexpr int significant_bits = 53;
  static constexpr double largest = 0x1.fffffffffffffp+1023;
  static constexpr double smallest_normal = 0x1p-1022;
  static constexpr double smallest_subnormal = 0x1p-1074;
  static constexpr double epsilon = 0x1p-52;
};

template <>
struct numeric_traits<float16> {
  using arithmetic_type = float;
  static constexpr std::string_view name = "float16";
  static constexpr bool is_16bit = true;
  static constexpr int significant_bits = 11;
  static constexpr float largest = 65504.0f;
  static constexpr float smallest_normal = 0x1p-14f;
  static constexpr float smallest_subnormal = 0x1p-24f;
  static constexpr float epsilon = 0x1p-10f;
  HALFSTEP_HOST_DEVICE static constexpr float to_float(float16 value) noexcept {
    return static_cast<float>(value);
  }
  HALFSTEP_HOST_DEVICE static constexpr float16 from_float(float value) noexcept { return float16(value); }
};

template <>
struct numeric_traits<bfloat16> {
  using arithmetic_type = float;
  static constexpr std::string_view name = "bfloat16";
  static constexpr bool is_16bit = true;
  static constexpr int significant_bits = 8;
  static constexpr float largest = 0x1.fep+127f;
  static constexpr float smallest_normal = 0x1p-126f;
  static constexpr float smallest_subnormal = 0x1p-133f;
  static constexpr float epsilon = 0x1p-7f;
  HALFSTEP_HOST_DEVICE static constexpr float to_float(bfloat16 value) noexcept {
    return static_cast<float>(value);
  }
  HALFSTEP_HOST_DEVICE static constexpr bfloat16 from_float(float value) noexcept { return bfloat16(value); }
};

/// A number type that models are stored or computed in.
template <class T>
concept FloatingType = requires {
  numeric_traits<T>::largest;
};

template <class T>
concept SixteenBitType = FloatingType<T> && numeric_traits<T>::is_16bit;

template <FloatingType T>
inline constexpr bool is_16bit = numeric_traits<T>::is_16bit;

/// `value` as a To: exact where To holds all values of From, else rounded once to nearest even. Between two
/// 16-bit types too, because float holds both.
template <FloatingType To, FloatingType From>
HALFSTEP_HOST_DEVICE constexpr To convert_to(From value) noexcept {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (is_16bit<From>) {
    return convert_to<To>(numeric_traits<From>::to_float(value));
  } else if constexpr (is_16bit<To> && std::same_as<From, double>) {
    return numeric_traits<To>::from_float(detail::round_to_odd(value));
  } else if constexpr (is_16bit<To>) {
    return numeric_traits<To>::from_float(value);
  } else {
    return static_cast<To>(value);
  }
}

/// Neither infinite nor NaN, by the exponent bits: also true under -ffast-math, which deletes std::isfinite
/// and x - x.
HALFSTEP_HOST_DEVICE constexpr bool is_finite(float value) noexcept {
  return (detail::bits_of(value) & 0x7f800000u) != 0x7f800000u;
}
HALFSTEP_HOST_DEVICE constexpr bool is_finite(double value) noexcept {
  return (detail::bits_of(value) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}
HALFSTEP_HOST_DEVICE constexpr bool is_finite(float16 value) noexcept {
  return (value.bits() & 0x7c00u) != 0x7c00u;
}
HALFSTEP_HOST_DEVICE constexpr bool is_finite(bfloat16 value) noexcept {
  return (value.bits() & 0x7f80u) != 0x7f80u;
}

HALFSTEP_HOST_DEVICE constexpr bool is_nan(float value) noexcept {
  return (detail::bits_of(value) & 0x7fffffffu) > 0x7f800000u;
}
HALFSTEP_HOST_DEVICE constexpr bool is_nan(double value) noexcept {
  return (detail::bits_of(value) & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}
HALFSTEP_HOST_DEVICE constexpr bool is_nan(float16 value) noexcept {
  return (value.bits() & 0x7fffu) > 0x7c00u;
}
HALFSTEP_HOST_DEVICE constexpr bool is_nan(bfloat16 value) noexcept {
  return (value.bits() & 0x7fffu) > 0x7f80u;
}

}  // namespace halfstep
