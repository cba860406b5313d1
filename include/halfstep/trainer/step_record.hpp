#pragma once

#include <cstdint>
#include <limits>

#include <halfstep/compute/chunks.hpp>
#include <halfstep/optim/update_pass.hpp>
#include <halfstep/scaling/decide.hpp>
#include <halfstep/scaling/measure.hpp>
#include <halfstep/scaling/unscale.hpp>

namespace halfstep {

/// What has come together in the open window.
struct WindowTotals {
  double loss_sum = 0;            ///< over valid samples
  std::int64_t valid_count = 0;   ///< valid samples, tokens or elements
  std::int64_t micro_batches = 0;
  double normalizer = 0;          ///< see scaling/unscale.hpp; 0 until a micro-batch had a valid sample
  float seed = 0;                 ///< what the backward pass of this window starts from
  float inverse_scale = 1;        ///< turns the gradients of the window so far into true ones
  /// Of clipping by hand. A norm to clip to that waits for gradients that are finite: asked for while they are not.
  float clip_norm = std::numeric_limits<float>::infinity();
  float clip_coefficient = 1;
  float clip_value = std::numeric_limits<float>::infinity();
};

/// The last window that was skipped for a gradient that is not finite: which attempt, where, at which scale.
struct LastOverflow {
  std::int64_t attempt = 0;  ///< 0 where there was none
  std::int64_t parameter = -1;
  std::int64_t index = -1;
  float scale = 0;
};

/// All that a step decides and remembers, in device memory: the passes read it there, the host when it asks.
template <class Coefficients>
struct StepRecord {
  StepState state;
  WindowTotals window;  ///< the open one
  WindowTotals decided;  ///< the one that `facts` and `decision` are about
  GradientFacts facts;
  StepDecision decision;
  LastOverflow last_overflow;
  UpdateFacts<Coefficients> update;
};

namespace detail {

/// What unscales a window of these totals at this scale.
HALFSTEP_HOST_DEVICE inline float inverse_scale_of(const WindowTotals& window, float scale) {
  return inverse_scale(scale, window.normalizer == 0 ? 1.0 : window.normalizer, window.valid_count);
}

/// Takes a micro-batch's loss into the window and fixes what its backward pass starts from. One without a valid
/// sample counts nothing, whatever its loss says.
template <class Record>
struct AddMicroBatch {
  Record* record;
  const float* loss_sum;
  std::int64_t valid_count;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t) const {
    WindowTotals& window = record->window;
    const float scale = record->state.scaler.scale;
    window.micro_batches += 1;
    if (valid_count == 0) return;
    window.loss_sum += static_cast<double>(*loss_sum);
    window.valid_count += valid_count;
    if (window.normalizer == 0) {
      window.normalizer = window_normalizer(valid_count);
      window.seed = loss_seed(scale, window.normalizer);
    }
    window.inverse_scale = inverse_scale_of(window, scale);
  }
};

template <class Record>
struct ClearWindow {
  Record* record;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t) const { record->window = WindowTotals{}; }
};

template <class Record>
struct JoinMeasurements {
  Record* record;
  const MeasurePartial* partials;
  const compute::SegmentChunk* chunks;
  std::int64_t count;
  bool has_gradients;

  void operator()(std::int64_t) const {
    record->facts = join_partials(partials, chunks, count, has_gradients, is_finite(record->window.loss_sum));
  }

  std::int64_t team_tasks() const { return 1; }
  std::int64_t team_width() const { return compute::chunk_size; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t) const {
    const MeasurePartial joined = join_partials_of(team, partials, count);
    if (!team.leads()) return;
    const std::int64_t bad_chunk = joined.first_non_finite;
    GradientFacts facts;
    facts.has_gradients = has_gradients;
    facts.loss_finite = is_finite(record->window.loss_sum);
    facts.sum_of_squares = joined.sum_of_squares;
    facts.gradients_finite = bad_chunk < 0;
    if (bad_chunk >= 0) {
      facts.first_bad_parameter = chunks[bad_chunk].segment;
      facts.first_bad_index = partials[bad_chunk].first_non_finite;
    }
    record->facts = facts;
  }
};

/// Decides the step and computes what the update needs. State, counters and schedule move here and nowhere else, and
/// the window ends.
template <class Record, class Policy, class Optimizer>
struct DecideStep {
  JoinMeasurements<Record> measurements;
  bool are_joined;
  Record* record;
  Optimizer optimizer;
  float max_norm;
  float max_value;

  void operator()(std::int64_t) const {
    if (!are_joined) measurements(0);
    decide_step();
  }

  std::int64_t team_tasks() const { return 1; }
  std::int64_t team_width() const { return compute::chunk_size; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t) const {
    if (!are_joined) measurements.run(team, 0);
    if (team.leads()) decide_step();
  }

 private:
  HALFSTEP_HOST_DEVICE void decide_step() const {
    constexpr auto scaler = Policy::scaler;
    const StepState before = record->state;
    const WindowTotals window = record->window;
    const float norm_limit = window.clip_norm < max_norm ? window.clip_norm : max_norm;
    StepDecision decision = decide<typename Policy::on_skip>(scaler, before, record->facts, norm_limit);
    decision.learning_rate = static_cast<float>(optimizer.learning_rate(before.schedule_position));
    auto& update = record->update;
    update.apply = decision.outcome == Outcome::applied;
    if (update.apply) decision.clip_coefficient *= window.clip_coefficient;
    update.inverse_scale = window.inverse_scale;
    update.clip_coefficient = decision.clip_coefficient;
    update.clip_value = window.clip_value < max_value ? window.clip_value : max_value;
    if (update.apply) {
      update.coefficients = optimizer.coefficients(decision.learning_rate, decision.next.update_number);
    }
    if (decision.skip_cause == SkipCause::gradient) {
      record->last_overflow = {decision.next.attempts, record->facts.first_bad_parameter,
                               record->facts.first_bad_index, decision.scale_used};
    }
    record->decision = decision;
    record->state = decision.next;
    record->decided = window;
    record->window = WindowTotals{};
  }
};

}  // namespace detail

}  // namespace halfstep
