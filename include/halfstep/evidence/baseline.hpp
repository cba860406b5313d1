#pragma once

#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/evidence/tensor_sketch.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/scaling/unscale.hpp>
#include <halfstep/trainer.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfstep {

/// One window of a recorded run. Gradients are unscaled and before clipping, weights are those after the
/// update; one sketch a parameter, in the order of `Baseline::parameters`.
struct BaselineStep {
  Outcome outcome = Outcome::no_gradients;
  double loss = 0;
  double gradient_norm = 0;
  std::int64_t update_number = 0;
  std::vector<TensorSketch> gradients;
  std::vector<TensorSketch> weights;
};

/// A short training run as numbers, for another policy, device or version to be held against. Kept as JSON by
/// evidence/baseline_file.hpp.
struct Baseline {
  std::string policy;
  std::string optimizer;
  std::uint64_t seed = 0;
  std::vector<std::string> parameters;  ///< names with shapes
  std::vector<TensorSketch> first_weights;
  std::vector<BaselineStep> steps;
  /// For each batch what the trained model says of it, if the recording asked for it.
  std::vector<std::vector<float>> predictions;
};

/// What a baseline records of a model's output: nothing, unless a callable is given in its place that takes
/// trainer and batch: `[](auto& trainer, const Batch& batch) { return trainer.predict(batch.inputs); }`.
struct NoPredictions {
  template <class Trainer, class Batch>
  Tensor<const float> operator()(Trainer&, const Batch&) const {
    return {};
  }
};

namespace detail {

template <class Trainer>
struct TrainerTypes;
template <class M, class O, class P, class D>
struct TrainerTypes<Trainer<M, O, P, D>> {
  using Optimizer = O;
  using Policy = P;
};

template <class Core, class View>
TensorSketch sketch_on(Core& core, const View& tensor, float factor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.size()));
  core.device().download(values.data(), tensor.data(), values.size() * sizeof(float));
  return sketch_of(values, factor);
}

template <class Trainer>
Baseline describe_run(const Trainer& trainer) {
  auto& core = TrainerAccess::core(trainer);
  Baseline run;
  run.policy = TrainerTypes<Trainer>::Policy::name;
  run.optimizer = TrainerTypes<Trainer>::Optimizer::name;
  run.seed = core.seed();
  for (const ParameterInfo& info : trainer.parameters()) {
    const auto index = static_cast<int>(run.parameters.size());
    run.parameters.push_back(info.name + " " + info.shape.text());
    run.first_weights.push_back(sketch_on(core, core.store().master(index), 1.0f));
  }
  return run;
}

template <class Trainer>
void require_fresh(const Trainer& trainer, const char* call) {
  const auto record = TrainerAccess::core(trainer).record();
  if (record.state.attempts != 0 || record.window.micro_batches != 0) {
    throw ConfigurationError(std::string(call) + ": this trainer has taken " +
                             std::to_string(record.state.attempts) +
                             " steps; a baseline begins with the first values of a fresh one");
  }
}

/// One window, with a look at the gradients between their computation and their use. Nothing but a look: the
/// step is that of `step(batch)`, bit for bit.
template <class Trainer, class Batch>
BaselineStep step_and_record(Trainer& trainer, const Batch& batch, StepReport& report) {
  auto& core = TrainerAccess::core(trainer);
  trainer.accumulate(batch);
  BaselineStep step;
  const auto record = core.record();
  const double normalizer = record.window.normalizer == 0 ? 1.0 : record.window.normalizer;
  const float factor = inverse_scale(record.state.scaler.scale, normalizer, record.window.valid_count);
  const auto count = static_cast<int>(trainer.parameters().size());
  for (int i = 0; i < count; ++i) {
    const bool has = core.store().has_gradient()[static_cast<std::size_t>(i)] != 0;
    step.gradients.push_back(has ? sketch_on(core, core.store().gradient(i), factor) : TensorSketch{});
  }
  report = trainer.update().report();
  step.outcome = report.outcome;
  step.loss = report.loss;
  step.gradient_norm = report.gradient_norm;
  step.update_number = report.update_number;
  for (int i = 0; i < count; ++i) step.weights.push_back(sketch_on(core, core.store().master(i), 1.0f));
  return step;
}

inline std::vector<float> copy_of(const Tensor<const float>& tensor) {
  return {tensor.begin(), tensor.end()};
}

inline void require_finite(const BaselineStep& step, const StepReport& report, std::size_t number) {
  if (step.outcome == Outcome::applied && is_finite(step.loss) && is_finite(step.gradient_norm)) return;
  std::string message = "record_baseline: window " + std::to_string(number) + " was " +
                        name_of(step.outcome) + " with loss " + std::to_string(step.loss) +
                        " and gradient norm " + std::to_string(step.gradient_norm);
  if (!report.first_non_finite.tensor.empty()) {
    message += ", first not finite in \"" + report.first_non_finite.tensor + "\"[" +
               std::to_string(report.first_non_finite.index) + "]";
  }
  throw Error(message +
              "; a baseline is what others are held against, so every window must be finite and applied: "
              "look at the batches, the first values and the learning rate");
}

}  // namespace detail

/// Trains a fresh trainer on each of the batches once, in their order, and keeps what every window came to.
/// The trainer computes in float: a baseline is the answer that other policies are held against. Take few and
/// small batches; repeat one to take several steps on it.
///
/// Throws ConfigurationError for a trainer that has trained already and for no batches, Error for a window
/// that is not applied or not finite, naming it and the first bad tensor; the trainer has then trained up to
/// there.
template <class Trainer, class Batches, class Predict = NoPredictions>
Baseline record_baseline(Trainer& trainer, const Batches& batches, const Predict& predict = {}) {
  using Policy = typename detail::TrainerTypes<Trainer>::Policy;
  static_assert(std::is_same_v<typename Policy::compute_type, float> && !uses_tensor_float32<Policy>,
                "halfstep: a baseline is recorded in full precision; give record_baseline a trainer under "
                "Float32Policy");
  detail::require_fresh(trainer, "record_baseline");
  Baseline baseline = detail::describe_run(trainer);
  for (const auto& batch : batches) {
    StepReport report;
    baseline.steps.push_back(detail::step_and_record(trainer, batch, report));
    detail::require_finite(baseline.steps.back(), report, baseline.steps.size());
  }
  if (baseline.steps.empty())
    throw ConfigurationError("record_baseline: no batches were given; give at least one");
  for (const auto& batch : batches) {
    auto prediction = detail::copy_of(predict(trainer, batch));
    if (prediction.empty()) break;
    for (const float value : prediction) {
      if (!is_finite(value))
        throw Error("record_baseline: the trained model predicts a number that is not finite");
    }
    baseline.predictions.push_back(std::move(prediction));
  }
  return baseline;
}

}  // namespace halfstep
