#pragma once

#include <cstdint>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep::detail {

/// `value` as a float, rounded to odd: truncated, with the last bit set where anything was lost. Rounding the
/// result to a format of 22 bits or fewer gives what one rounding of `value` itself gives (Boldo and
/// Melquiond 2008), so a double reaches float16 and bfloat16 without a double rounding.
HALFSTEP_HOST_DEVICE constexpr float round_to_odd(double value) noexcept {
  const float nearest = static_cast<float>(value);
  const auto bits = __builtin_bit_cast(std::uint32_t, nearest);
  const auto back = __builtin_bit_cast(std::uint64_t, static_cast<double>(nearest));
  const auto asked = __builtin_bit_cast(std::uint64_t, value);
  const bool too_large = (back << 1) > (asked << 1);  // in magnitude
  const bool inexact = back != asked;
  return __builtin_bit_cast(float, (bits - (too_large ? 1u : 0u)) | (inexact ? 1u : 0u));
}

}  // namespace halfstep::detail
