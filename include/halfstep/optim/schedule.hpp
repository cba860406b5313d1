#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/option_fault.hpp>
#include <type_traits>

namespace halfstep {

/// A learning rate for every position: any callable of the position, 0 for the first update. It is copied to
/// where the optimizer runs, hence trivially copyable: a struct of numbers or a lambda that captures numbers
/// will do.
template <class S>
concept LearningRateSchedule = std::is_trivially_copyable_v<S> &&
    requires(const S schedule, std::int64_t position) {
  { schedule(position) } -> std::convertible_to<float>;
};

namespace detail {

/// A number stands for a constant schedule, anything else for itself.
template <class Rate, class Constant>
using ScheduleFor = std::conditional_t<std::is_convertible_v<Rate, double>, Constant, Rate>;

}  // namespace detail

enum class ScheduleKind : std::int32_t {
  constant,
  warmup_constant,
  warmup_linear,
  warmup_cosine,
  step_decay,
  exponential,
  one_cycle,
  inverse_square_root,
};

/// A closed-form schedule as a small value that host and device evaluate alike, in double, rounded once. Made
/// by the functions below; a plain number converts into a constant schedule.
///
/// Warm-up rises from 0 at position 0 to the peak at position `warmup`: peak * position / warmup, as in
/// Hugging Face's get_*_schedule_with_warmup and optax's warmup_*_schedule with init_value 0, so that a run
/// moved over from either keeps its numbers. (The first update of a warmed-up run therefore has rate 0: it
/// fills the moments and moves no weight.) `length` counts all positions, warm-up included, as in both. From
/// position `length` on the rate stays at `floor`.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double peak = 0;    ///< the highest rate; the first one where there is no warm-up
  double floor = 0;   ///< the rate that it ends at
  double start = 0;   ///< one_cycle: the rate that it begins at
  double factor = 1;  ///< step_decay, exponential: gamma; one_cycle: the share of positions that rise
  std::int64_t warmup = 0;
  std::int64_t length = 0;  ///< positions in all; step_decay: positions between two decays

  constexpr Schedule() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a schedule, .learning_rate = 1e-3f.
  HALFSTEP_HOST_DEVICE constexpr Schedule(double rate) : peak(rate) {}

  /// Requires: position >= 0.
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t position) const {
    return static_cast<float>(rate(static_cast<double>(position)));
  }

  constexpr detail::OptionFault fault() const;

  /// Throws ConfigurationError that names the schedule, the number at fault and what is allowed.
  void validate() const;

 private:
  HALFSTEP_HOST_DEVICE double rate(double position) const;
  HALFSTEP_HOST_DEVICE double progress_after_warmup(double position) const;
  HALFSTEP_HOST_DEVICE double one_cycle_rate(double position) const;
};

/// The same rate throughout.
constexpr Schedule constant(double rate) { return Schedule{rate}; }

/// Warm-up, then the peak for ever.
constexpr Schedule warmup_constant(double peak, std::int64_t warmup) {
  Schedule schedule{peak};
  schedule.kind = ScheduleKind::warmup_constant;
  schedule.warmup = warmup;
  return schedule;
}

/// Warm-up, then a straight line to the floor at `length`. Without warm-up, PyTorch's LinearLR(1, floor /
/// peak, length).
constexpr Schedule warmup_linear(double peak, std::int64_t warmup, std::int64_t length, double floor = 0) {
  Schedule schedule = warmup_constant(peak, warmup);
  schedule.kind = ScheduleKind::warmup_linear;
  schedule.length = length;
  schedule.floor = floor;
  return schedule;
}

/// Warm-up, then half a cosine to the floor at `length`. Without warm-up, PyTorch's CosineAnnealingLR(length,
/// floor) up to `length`, where that one would turn back up.
constexpr Schedule warmup_cosine(double peak, std::int64_t warmup, std::int64_t length, double floor = 0) {
  Schedule schedule = warmup_linear(peak, warmup, length, floor);
  schedule.kind = ScheduleKind::warmup_cosine;
  return schedule;
}

/// rate * gamma^floor(position / step_size): PyTorch's StepLR.
constexpr Schedule step_decay(double rate, std::int64_t step_size, double gamma = 0.1) {
  Schedule schedule{rate};
  schedule.kind = ScheduleKind::step_decay;
  schedule.length = step_size;
  schedule.factor = gamma;
  return schedule;
}

/// rate * gamma^position: PyTorch's ExponentialLR.
constexpr Schedule exponential(double rate, double gamma) {
  Schedule schedule{rate};
  schedule.kind = ScheduleKind::exponential;
  schedule.factor = gamma;
  return schedule;
}

/// From peak / div_factor up to the peak over the first `pct_start` of the positions, then down to
/// peak / div_factor / final_div_factor at the last, both along half a cosine: PyTorch's OneCycleLR with its
/// default strategy and two phases. Past the end, where PyTorch raises an error, it stays.
constexpr Schedule one_cycle(double peak, std::int64_t total_steps, double pct_start = 0.3,
                             double div_factor = 25, double final_div_factor = 1e4) {
  Schedule schedule{peak};
  schedule.kind = ScheduleKind::one_cycle;
  schedule.length = total_steps;
  schedule.factor = pct_start;
  schedule.start = peak / div_factor;
  schedule.floor = schedule.start / final_div_factor;
  return schedule;
}

/// Warm-up, then peak * sqrt(warmup / position): Hugging Face's get_inverse_sqrt_schedule. Without warm-up,
/// like there, peak / sqrt(1 + position / 10000).
constexpr Schedule inverse_square_root(double peak, std::int64_t warmup) {
  Schedule schedule = warmup_constant(peak, warmup);
  schedule.kind = ScheduleKind::inverse_square_root;
  return schedule;
}

constexpr const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::constant:
      return "constant";
    case ScheduleKind::warmup_constant:
      return "warmup_constant";
    case ScheduleKind::warmup_linear:
      return "warmup_linear";
    case ScheduleKind::warmup_cosine:
      return "warmup_cosine";
    case ScheduleKind::step_decay:
      return "step_decay";
    case ScheduleKind::exponential:
      return "exponential";
    case ScheduleKind::one_cycle:
      return "one_cycle";
    case ScheduleKind::inverse_square_root:
      return "inverse_square_root";
  }
  return "?";
}

}  // namespace halfstep

#include <halfstep/optim/schedule_rates.hpp>
