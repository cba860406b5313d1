#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <halfstep/error.hpp>
#include <halfstep/scaling/step_state.hpp>

namespace halfstep {

struct Diagnosis;

/// Where a non-finite number was first found; an empty name where none was.
struct FirstNonFinite {
  std::string tensor;
  std::int64_t index = -1;
};

/// What one update attempt did, and what it left behind.
struct StepReport {
  Outcome outcome = Outcome::no_gradients;
  SkipCause skip_cause = SkipCause::none;
  /// Mean loss over the window's valid samples; NaN where the window had none.
  double loss = 0;
  /// Euclidean norm of all gradients, unscaled and before clipping.
  double gradient_norm = 0;
  float clip_coefficient = 1;
  /// The loss scale of this window, that of the next, and why they differ or not.
  float scale = 1;
  float next_scale = 1;
  ScaleChange scale_change = ScaleChange::unchanged;
  /// The rate of this window, used if it was applied.
  float learning_rate = 0;
  /// Counters after this window: applied updates, attempts, windows skipped for a non-finite number, those of them
  /// in a row, windows without gradients, and the schedule's next position.
  std::int64_t update_number = 0;
  std::int64_t attempts = 0;
  std::int64_t skipped = 0;
  std::int64_t skipped_in_a_row = 0;
  std::int64_t empty = 0;
  std::int64_t schedule_position = 0;
  /// Of this window: micro-batches, and valid samples or tokens in them.
  std::int64_t micro_batches = 0;
  std::int64_t valid_count = 0;
  FirstNonFinite first_non_finite;
  /// Of a skipped window, after Trainer::diagnose_skips; else null.
  std::shared_ptr<const Diagnosis> diagnosis;

  bool applied() const { return outcome == Outcome::applied; }
};

/// Training cannot go on: as many windows in a row were skipped as the policy allows. The trainer is as the last
/// skip left it and may be used further; `report` is that skip's.
struct TrainingStopped : Error {
  TrainingStopped(const std::string& message, StepReport last) : Error(message), report(std::move(last)) {}
  StepReport report;
};

}  // namespace halfstep
