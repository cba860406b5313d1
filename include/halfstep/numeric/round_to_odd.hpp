#pragma once

#include <cstdint>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep::detail {

/// `value` as a float, rounded to odd: truncated, with the last bit set where anything was lost. Rounding the
/// result to a format of 22 bits or fewer gives what one rounding of `value` itself gives (Boldo and
/// Melquiond 2008), so a double reaches float16 and bfloat16 without a double rounding. In integers, because
/// compilers may take the difference between a double and its float for nothing, or refuse an overflow in a
/// constant.
HALFSTEP_HOST_DEVICE constexpr float round_to_odd(double value) noexcept {
  const std::uint64_t bits = bits_of(value);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000u;
  const std::uint64_t magnitude = bits & 0x7fffffffffffffffu;
  if (magnitude > 0x7ff0000000000000u) return float_of(0x7fffffffu);
  if (magnitude == 0x7ff0000000000000u) return float_of(sign | 0x7f800000u);
  if (magnitude >= 0x47f0000000000000u)
    return float_of(sign | 0x7f7fffffu);  // 2^128 and more: the largest, odd

  constexpr int smallest_normal = 897;  // the biased exponent of 2^-126
  const int exponent = static_cast<int>(magnitude >> 52);
  const bool is_normal = exponent >= smallest_normal;
  const std::uint64_t significand = (magnitude & 0xfffffffffffffu) | 0x10000000000000u;
  const int excess = is_normal ? 29 : 29 + smallest_normal - exponent;
  const int shift = excess < 63 ? excess : 63;
  const std::uint64_t dropped = significand & ((std::uint64_t{1} << shift) - 1);
  const auto kept = static_cast<std::uint32_t>(significand >> shift) | (dropped != 0 ? 1u : 0u);
  // The leading one of a normal significand adds 1 to the exponent.
  const std::uint32_t biased = is_normal ? static_cast<std::uint32_t>(exponent - smallest_normal) << 23 : 0u;
  return float_of(sign | (magnitude == 0 ? 0u : biased + kept));
}

}  // namespace halfstep::detail
