#pragma once

#include <cstdint>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/scaling/clip.hpp>
#include <halfstep/scaling/on_skip.hpp>
#include <halfstep/scaling/outcome.hpp>
#include <halfstep/scaling/scalers.hpp>
#include <halfstep/scaling/square_root.hpp>
#include <halfstep/scaling/step_state.hpp>

namespace halfstep {

namespace detail {

struct Verdict {
  Outcome outcome;
  SkipCause cause;
};

/// A window without gradients comes first: there is nothing to apply, and nothing to blame. A bad loss comes
/// before bad gradients: it made them.
HALFSTEP_HOST_DEVICE constexpr Verdict judge(const GradientFacts& facts) {
  if (!facts.has_gradients) return {Outcome::no_gradients, SkipCause::none};
  if (!facts.loss_finite) return {Outcome::skipped, SkipCause::loss};
  if (!facts.gradients_finite) return {Outcome::skipped, SkipCause::gradient};
  return {Outcome::applied, SkipCause::none};
}

/// The counters after a window; the scaler's state is copied as it is.
template <OnSkipRule OnSkip>
HALFSTEP_HOST_DEVICE constexpr StepState count_window(const StepState& before, Outcome outcome) {
  StepState next = before;
  ++next.attempts;
  if (outcome == Outcome::applied) {
    ++next.update_number;
    ++next.schedule_position;
    next.skipped_in_a_row = 0;
  } else if (outcome == Outcome::skipped) {
    ++next.skipped;
    ++next.skipped_in_a_row;
    next.schedule_position += OnSkip::positions_on_skip;
  } else {
    ++next.empty;
  }
  return next;
}

}  // namespace detail

/// The whole law of a step: from the state before a window and the facts measured on its gradients to what is
/// done and the state after. Pure; the same on host, on device and at compile time.
///
/// Requires: scaler and max_norm accepted by validate and validate_clip; facts.sum_of_squares finite if
/// facts.gradients_finite. Ensures: next.update_number + next.skipped + next.empty == next.attempts if it
/// held before. The learning rate is left to the caller, who has the schedule:
/// schedule(before.schedule_position).
template <OnSkipRule OnSkip, Scaler S>
HALFSTEP_HOST_DEVICE constexpr StepDecision decide(const S& scaler, const StepState& before,
                                                   const GradientFacts& facts, float max_norm) {
  const detail::Verdict verdict = detail::judge(facts);
  const ScalerStep scaler_step = scaler.after(before.scaler, verdict.outcome, verdict.cause);

  StepDecision decision;
  decision.outcome = verdict.outcome;
  decision.skip_cause = verdict.cause;
  decision.scale_change = scaler_step.change;
  decision.scale_used = before.scaler.scale;
  decision.next = detail::count_window<OnSkip>(before, verdict.outcome);
  decision.next.scaler = scaler_step.next;
  if (facts.has_gradients) decision.gradient_norm = detail::square_root(facts.sum_of_squares);
  if (verdict.outcome == Outcome::applied) {
    decision.clip_coefficient = clip_coefficient(decision.gradient_norm, max_norm);
  }
  return decision;
}

}  // namespace halfstep
