#pragma once

#include <cstdint>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/option_fault.hpp>

namespace halfstep {

/// What unscaled gradients of this norm are multiplied by so that their norm is at most max_norm:
/// min(1, max_norm / (norm + 1e-6)), the formula of torch.nn.utils.clip_grad_norm_, in double and rounded
/// once. An infinite max_norm measures only: exactly 1. Requires: norm finite and not negative, max_norm
/// accepted by validate_clip.
HALFSTEP_HOST_DEVICE constexpr float clip_coefficient(double norm, float max_norm) {
  if (!detail::has_finite_bits(max_norm)) return 1.0f;
  const double coefficient = static_cast<double>(max_norm) / (norm + 1e-6);
  return coefficient < 1.0 ? static_cast<float>(coefficient) : 1.0f;
}

/// One unscaled gradient, brought into [-limit, limit]. An infinite limit changes nothing.
HALFSTEP_HOST_DEVICE constexpr float clip_value(float gradient, float limit) {
  const float below = gradient > limit ? limit : gradient;
  return below < -limit ? -limit : below;
}

namespace detail {

/// Infinity is the one non-finite threshold that means something.
constexpr bool is_clip_threshold(float threshold) {
  const bool is_nan =
      !has_finite_bits(threshold) && (bits_of(threshold) & 0x007fffffu) != 0;
  return !is_nan && (__builtin_bit_cast(std::uint32_t, threshold) >> 31) == 0 && threshold != 0.0f;
}

constexpr OptionFault clip_fault(float max_norm, float max_value) {
  constexpr const char* rule =
      "a clipping threshold must be greater than 0; infinity measures and leaves the gradients as they are";
  if (!is_clip_threshold(max_norm)) return {"clip_norm", max_norm, rule};
  if (!is_clip_threshold(max_value)) return {"clip_value", max_value, rule};
  return {};
}

}  // namespace detail

/// Throws ConfigurationError for a threshold that is negative (it would turn every gradient round), NaN, or
/// zero. Zero is refused and not guessed at: in one library it erases the gradients, in another it turns
/// clipping off.
inline void validate_clip(float max_norm, float max_value) {
  detail::throw_if_fault("clipping", detail::clip_fault(max_norm, max_value));
}

}  // namespace halfstep
