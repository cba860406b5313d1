#pragma once

#include <concepts>
#include <cstdint>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/option_fault.hpp>
#include <halfstep/scaling/outcome.hpp>
#include <type_traits>

namespace halfstep {

/// No loss scale is ever set lower than this by an option: with it, the gradient of a mean over up to 2^62
/// samples still starts at a normal float, and 1/scale is far from infinity.
inline constexpr float smallest_loss_scale = 0x1p-64f;
inline constexpr float largest_loss_scale = 0x1.fffffep127f;

/// Everything about a scaler that changes from window to window. A checkpoint holds all three, or the scale's
/// path would depend on when one happened to save.
struct ScalerState {
  float scale = 1;
  std::int32_t growth_tracker = 0;  ///< applied windows since the last growth or the last non-finite gradient
  std::int32_t hysteresis_left = 1;  ///< the scale is lowered by the non-finite gradient that finds 1 here

  friend constexpr bool operator==(const ScalerState&, const ScalerState&) = default;
};

struct ScalerStep {
  ScalerState next;
  ScaleChange change = ScaleChange::unchanged;
};

/// The loss is not scaled; gradients are checked all the same. For types with float's exponent range.
struct NoScaler {
  static constexpr const char* name = "NoScaler";
  static constexpr bool scales = false;

  constexpr ScalerState first_state() const { return {}; }
  HALFSTEP_HOST_DEVICE constexpr ScalerStep after(const ScalerState& state, Outcome, SkipCause) const {
    return {state, ScaleChange::unchanged};
  }
  constexpr detail::OptionFault fault() const { return {}; }
};

/// One scale for the whole run.
struct StaticScaler {
  static constexpr const char* name = "StaticScaler";
  static constexpr bool scales = true;

  float scale = 65536;

  constexpr ScalerState first_state() const { return {scale, 0, 1}; }
  HALFSTEP_HOST_DEVICE constexpr ScalerStep after(const ScalerState& state, Outcome, SkipCause) const {
    return {state, ScaleChange::unchanged};
  }
  constexpr detail::OptionFault fault() const;
};

/// Keeps the scale as high as the gradients allow: lowered when one is not finite, raised after an interval
/// of windows without such an event. Defaults and arithmetic are those of PyTorch's GradScaler (the product
/// of scale and factor is rounded to float once, from double; growth only if that is finite), with bounds and
/// hysteresis.
///
/// The default minimum is far below 1 on purpose: where the true gradients themselves pass 65504, only a
/// scale under 1 brings them into float16.
///
/// Hysteresis n lets n - 1 non-finite gradients pass before the scale is lowered. It is used up across
/// windows, not in a row, and is filled up again when a growth interval completes, whether or not the scale
/// could grow. Until then every further non-finite gradient lowers the scale. This is the rule of
/// Megatron-LM's DynamicGradScaler and of DeepSpeed's DynamicLossScaler (consecutive_hysteresis = false).
struct DynamicScaler {
  static constexpr const char* name = "DynamicScaler";
  static constexpr bool scales = true;

  float initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int32_t growth_interval = 2000;
  std::int32_t hysteresis = 1;
  float minimum_scale = 0x1p-16f;
  float maximum_scale = largest_loss_scale;

  constexpr ScalerState first_state() const { return {initial_scale, 0, hysteresis}; }

  /// The state after a window. Only an applied window and a non-finite gradient teach anything about the
  /// scale: a window without gradients and a non-finite loss leave the state as it is.
  HALFSTEP_HOST_DEVICE constexpr ScalerStep after(const ScalerState& state, Outcome outcome,
                                                  SkipCause cause) const {
    if (outcome == Outcome::applied) return after_applied(state);
    if (outcome == Outcome::skipped && cause == SkipCause::gradient) return after_overflow(state);
    return {state, ScaleChange::unchanged};
  }

  constexpr detail::OptionFault fault() const;

 private:
  HALFSTEP_HOST_DEVICE constexpr ScalerStep after_applied(const ScalerState& state) const {
    // >= and not ==: the interval may have been shortened since the state was saved.
    if (state.growth_tracker + 1 < growth_interval) {
      return {{state.scale, state.growth_tracker + 1, state.hysteresis_left}, ScaleChange::unchanged};
    }
    const float scale = grown(state.scale);
    return {{scale, 0, hysteresis}, scale > state.scale ? ScaleChange::grown : ScaleChange::at_maximum};
  }

  HALFSTEP_HOST_DEVICE constexpr ScalerStep after_overflow(const ScalerState& state) const {
    if (state.hysteresis_left > 1) {
      return {{state.scale, 0, state.hysteresis_left - 1}, ScaleChange::held_by_hysteresis};
    }
    const float scale = backed_off(state.scale);
    return {{scale, 0, state.hysteresis_left},
            scale < state.scale ? ScaleChange::backed_off : ScaleChange::at_minimum};
  }

  /// Never lower than it was: a scale above the maximum (saved under other options) stays until it overflows.
  HALFSTEP_HOST_DEVICE constexpr float grown(float scale) const {
    // From here upward a double rounds to an infinite float: halfway between the largest float and 2^128.
    constexpr double rounds_to_infinity = 0x1.ffffffp127;
    const double product = static_cast<double>(scale) * growth_factor;
    if (!(product < rounds_to_infinity)) return scale;
    const float rounded = static_cast<float>(product);
    const float capped = rounded < maximum_scale ? rounded : maximum_scale;
    return capped > scale ? capped : scale;
  }

  /// Never higher than it was: a scale under the minimum (saved under other options) is not raised by an
  /// overflow.
  HALFSTEP_HOST_DEVICE constexpr float backed_off(float scale) const {
    const float product = static_cast<float>(static_cast<double>(scale) * backoff_factor);
    const float floored = product > minimum_scale ? product : minimum_scale;
    return floored < scale ? floored : scale;
  }
};

/// A scaler is a small value: options that do not change, and two pure functions on ScalerState that host and
/// device run alike. One of your own needs the same members.
template <class S>
concept Scaler = std::is_trivially_copyable_v<S> &&
    requires(const S scaler, const ScalerState state, Outcome outcome, SkipCause cause) {
  { scaler.first_state() } -> std::same_as<ScalerState>;
  { scaler.after(state, outcome, cause) } -> std::same_as<ScalerStep>;
  { scaler.fault() } -> std::same_as<detail::OptionFault>;
  { S::scales } -> std::convertible_to<bool>;
  { S::name } -> std::convertible_to<const char*>;
};

template <Scaler S>
constexpr ScalerState initial_state(const S& scaler) {
  return scaler.first_state();
}

/// Whether every option is one that a run can live with; for static_assert on a policy's scaler.
template <Scaler S>
constexpr bool is_valid(const S& scaler) {
  return !scaler.fault();
}

/// Throws ConfigurationError that names the first option at fault, its value and what is allowed.
template <Scaler S>
void validate(const S& scaler) {
  detail::throw_if_fault(S::name, scaler.fault());
}

namespace detail {

constexpr bool is_loss_scale(float scale) {
  return has_finite_bits(scale) && scale >= smallest_loss_scale && scale <= largest_loss_scale;
}

inline constexpr const char* loss_scale_rule = "a loss scale is finite and at least 2^-64";

}  // namespace detail

constexpr detail::OptionFault StaticScaler::fault() const {
  if (!detail::is_loss_scale(scale)) return {"scale", scale, detail::loss_scale_rule};
  return {};
}

constexpr detail::OptionFault DynamicScaler::fault() const {
  using detail::is_finite_as_float;
  if (!detail::is_loss_scale(initial_scale)) return {"initial_scale", initial_scale, detail::loss_scale_rule};
  if (!is_finite_as_float(growth_factor) || growth_factor <= 1) {
    return {"growth_factor", growth_factor, "it must be finite and greater than 1"};
  }
  if (!is_finite_as_float(backoff_factor) || backoff_factor <= 0 || backoff_factor >= 1) {
    return {"backoff_factor", backoff_factor, "it must be greater than 0 and less than 1"};
  }
  if (growth_interval < 1) {
    return {"growth_interval", static_cast<double>(growth_interval), "it must be at least 1 window"};
  }
  if (hysteresis < 1) {
    return {"hysteresis", static_cast<double>(hysteresis),
            "it must be at least 1, which lowers the scale at the first non-finite gradient"};
  }
  if (!detail::is_loss_scale(minimum_scale)) return {"minimum_scale", minimum_scale, detail::loss_scale_rule};
  if (!detail::is_loss_scale(maximum_scale)) return {"maximum_scale", maximum_scale, detail::loss_scale_rule};
  if (minimum_scale > maximum_scale) {
    return {"minimum_scale", minimum_scale, "the minimum must not be above the maximum", "maximum_scale",
            maximum_scale};
  }
  if (initial_scale < minimum_scale) {
    return {"initial_scale", initial_scale, "the initial scale must not be below the minimum",
            "minimum_scale", minimum_scale};
  }
  if (initial_scale > maximum_scale) {
    return {"initial_scale", initial_scale, "the initial scale must not be above the maximum",
            "maximum_scale", maximum_scale};
  }
  return {};
}

}  // namespace halfstep
