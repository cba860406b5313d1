#pragma once

#include <cstdint>
#include <halfstep/scaling/outcome.hpp>
#include <halfstep/scaling/scalers.hpp>

namespace halfstep {

/// All that a step carries over to the next besides weights and moments. It lives in device memory; a
/// checkpoint holds every field. Always: update_number + skipped + empty == attempts.
struct StepState {
  ScalerState scaler;
  std::int64_t update_number = 0;      ///< applied windows; Adam's t of the last update
  std::int64_t attempts = 0;           ///< windows closed, whatever became of them
  std::int64_t skipped = 0;            ///< windows not applied because something was not finite
  std::int64_t skipped_in_a_row = 0;   ///< of these, since the last applied window
  std::int64_t empty = 0;              ///< windows in which no parameter had a gradient
  std::int64_t schedule_position = 0;  ///< where the schedule is read for the next update

  friend constexpr bool operator==(const StepState&, const StepState&) = default;
};

/// The state of a run that has not begun.
template <Scaler S>
constexpr StepState initial_step_state(const S& scaler) {
  StepState state;
  state.scaler = initial_state(scaler);
  return state;
}

/// What one read of a window's gradients says, all of it about the unscaled values.
struct GradientFacts {
  bool has_gradients = false;
  bool gradients_finite = true;
  bool loss_finite = true;
  double sum_of_squares = 0;  ///< finite whenever every gradient is
  std::int64_t first_bad_parameter = -1;
  std::int64_t first_bad_index = -1;
};

/// What is to be done with a window, and the state after it.
struct StepDecision {
  Outcome outcome = Outcome::no_gradients;
  SkipCause skip_cause = SkipCause::none;
  ScaleChange scale_change = ScaleChange::unchanged;
  double gradient_norm =
      0;  ///< of the unscaled gradients, before clipping; not finite where a gradient is not
  float clip_coefficient = 1;  ///< what the update multiplies the gradients by; 1 where there is no update
  float scale_used = 1;        ///< the loss scale of this window; next.scaler.scale is the next one's
  float learning_rate =
      0;  ///< that of the schedule position before the window; filled in by whoever has the schedule
  StepState next;
};

}  // namespace halfstep
