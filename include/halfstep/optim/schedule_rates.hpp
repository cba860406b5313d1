#pragma once

// The bodies of Schedule.

#include <cmath>
#include <cstdint>
#include <halfstep/optim/schedule.hpp>
#include <string>
#include <type_traits>

namespace halfstep {

namespace detail {

/// Half a cosine wave from `from` at progress 0 to `to` at progress 1.
HALFSTEP_HOST_DEVICE inline double along_cosine(double from, double to, double progress) {
  constexpr double pi = 3.14159265358979323846;
  return to + (from - to) * 0.5 * (1.0 + std::cos(pi * progress));
}

constexpr bool is_rate(double rate) { return is_finite_as_float(rate) && rate >= 0; }

}  // namespace detail

HALFSTEP_HOST_DEVICE inline double Schedule::rate(double position) const {
  const double rising = static_cast<double>(warmup);
  if (position < rising) return peak * (position / rising);
  switch (kind) {
    case ScheduleKind::constant:
    case ScheduleKind::warmup_constant:
      return peak;
    case ScheduleKind::warmup_linear:
      return floor + (peak - floor) * (1.0 - progress_after_warmup(position));
    case ScheduleKind::warmup_cosine:
      return detail::along_cosine(peak, floor, progress_after_warmup(position));
    case ScheduleKind::step_decay:
      return peak * std::pow(factor, std::floor(position / static_cast<double>(length)));
    case ScheduleKind::exponential:
      return peak * std::pow(factor, position);
    case ScheduleKind::one_cycle:
      return one_cycle_rate(position);
    case ScheduleKind::inverse_square_root:
      return warmup > 0 ? peak * std::sqrt(rising / position) : peak / std::sqrt(1.0 + position / 10000.0);
  }
  return peak;
}

/// 0 where the warm-up ends, 1 from `length` on.
HALFSTEP_HOST_DEVICE inline double Schedule::progress_after_warmup(double position) const {
  const double falling = static_cast<double>(length - warmup);
  const double progress = (position - static_cast<double>(warmup)) / falling;
  return progress < 1.0 ? progress : 1.0;
}

HALFSTEP_HOST_DEVICE inline double Schedule::one_cycle_rate(double position) const {
  // PyTorch places the top at pct_start * total_steps - 1 and the end at total_steps - 1, fractions included.
  const double top = factor * static_cast<double>(length) - 1.0;
  const double end = static_cast<double>(length) - 1.0;
  if (position <= top) return top > 0 ? detail::along_cosine(start, peak, position / top) : peak;
  if (position >= end) return floor;
  return detail::along_cosine(peak, floor, (position - top) / (end - top));
}

constexpr detail::OptionFault Schedule::fault() const {
  constexpr const char* rate_rule = "a learning rate must be finite and not negative";
  const bool decays_to_length = kind == ScheduleKind::warmup_linear || kind == ScheduleKind::warmup_cosine;
  if (!detail::is_rate(peak))
    return {kind == ScheduleKind::constant ? "learning_rate" : "peak", peak, rate_rule};
  const bool cycles = kind == ScheduleKind::one_cycle;
  if (!detail::is_rate(start)) return {"peak / div_factor", start, rate_rule};
  if (!detail::is_rate(floor)) {
    return {cycles ? "peak / div_factor / final_div_factor" : "floor", floor, rate_rule};
  }
  if (warmup < 0) return {"warmup", static_cast<double>(warmup), "it must not be negative"};
  if (decays_to_length && length <= warmup) {
    return {"length", static_cast<double>(length),
            "the length counts the warm-up too and must be greater (warmup_constant stays at the peak)",
            "warmup", static_cast<double>(warmup)};
  }
  if (decays_to_length && floor > peak)
    return {"floor", floor, "it must not be above the peak", "peak", peak};
  if (kind == ScheduleKind::step_decay && length < 1) {
    return {"step_size", static_cast<double>(length), "it must be at least 1"};
  }
  if (cycles && length < 1) {
    return {"total_steps", static_cast<double>(length), "it must be at least 1"};
  }
  if (cycles && !(detail::is_rate(factor) && factor <= 1)) {
    return {"pct_start", factor, "it must be between 0 and 1"};
  }
  if ((kind == ScheduleKind::step_decay || kind == ScheduleKind::exponential) &&
      !(detail::is_rate(factor) && factor > 0)) {
    return {"gamma", factor, "it must be finite and greater than 0"};
  }
  return {};
}

inline void Schedule::validate() const {
  detail::throw_if_fault((std::string("schedule ") + name_of(kind)).c_str(), fault());
}

namespace detail {

/// What an optimizer starts with where no learning rate is named: 1e-3, as PyTorch's optimizers; a schedule
/// of the user's is made from nothing if that is possible, and must be named otherwise.
template <LearningRateSchedule S>
constexpr S default_learning_rate() {
  if constexpr (std::is_convertible_v<double, S>) {
    return 1e-3;
  } else if constexpr (std::is_default_constructible_v<S>) {
    return S{};
  } else {
    // Not a static_assert: it would fire wherever a library asks whether the optimizer has a default
    // constructor.
    throw ConfigurationError("no learning_rate was named, and this type of schedule has no default");
  }
}

/// Validates a Schedule; of a callable of the user's it can only ask the first rate.
template <LearningRateSchedule S>
void validate_schedule(const char* optimizer, const S& schedule) {
  if constexpr (requires { schedule.validate(); }) {
    schedule.validate();
  } else {
    const double first = static_cast<double>(static_cast<float>(schedule(std::int64_t{0})));
    if (is_rate(first)) return;
    throw_if_fault(optimizer, {"learning_rate(0)", first, "a learning rate must be finite and not negative"});
  }
}

}  // namespace detail

}  // namespace halfstep
