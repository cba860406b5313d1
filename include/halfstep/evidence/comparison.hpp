#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <halfstep/data/loader.hpp>
#include <halfstep/evidence/step_report.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfstep {

/// What became of one training run under one policy.
struct PolicyRun {
  std::string policy;
  bool computes_in_float = false;
  std::vector<StepReport> steps;
  std::vector<std::int64_t> samples;  ///< of each step's batch, those that its loss ignored too
  std::vector<double> seconds;        ///< of each step; NaN for one that stopped training, which is not timed
  std::string stopped;                ///< why training ended early; empty if it did not
  StepState state;
  MemoryUse memory;  ///< when training ended

  /// On the validation set, in its order.
  double validation_loss = 0;
  double validation_accuracy = 0;
  std::vector<std::int32_t> predictions;
  std::vector<std::int32_t> labels;
  std::vector<float> logits;
  std::int64_t classes = 0;

  double final_loss = 0;  ///< mean over what the losses of the last epoch's applied windows counted
  /// Samples of all timed steps, skipped ones too, over their time.
  double samples_per_second = 0;
  /// Medians over steps of each kind; NaN where there was none, and for a long tail that training stopped in.
  /// The short batch is the last of an epoch.
  double step_seconds = 0;
  double short_step_seconds = 0;
  double long_tail_seconds = 0;
  std::int64_t short_batch = 0;  ///< samples of the short batch
};

/// How a run's answers differ from the reference's.
struct PolicyDifference {
  std::int64_t flips = 0;       ///< validation samples with another label
  std::int64_t near_flips = 0;  ///< of these, where the reference itself hardly preferred its label
  /// For each flip, how much larger the reference's logit of its own label is than that of the other,
  /// ascending; those that are no number come last.
  std::vector<float> margins;
  double largest_logit_difference = 0;
  double mean_logit_difference = 0;
  double loss_increase = 0;  ///< of the validation loss, relative
};

struct Comparison {
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;
  std::int64_t batch_size = 0;
  double margin_tolerance = 0;
  std::vector<PolicyRun> runs;
  /// Position of the run that the others are held against, -1 if none computes in float; and a difference for
  /// each run.
  std::int64_t reference = -1;
  std::vector<PolicyDifference> differences;
};

template <class Model, class Optimizer>
struct ComparisonOptions {
  Model model = {};
  Optimizer optimizer = {};
  BasicTrainerOptions<DefaultDevice> trainer = {};
  std::int64_t epochs = 1;
  std::int64_t batch_size = 32;  ///< samples an update: the production batch
  /// Training samples that make up the batch that is costlier than most: the longest sequences, say. Timed
  /// after training; none, and nothing is timed.
  std::vector<std::int64_t> long_tail = {};
  /// A flip where the reference's two logits are no farther apart than this is counted apart.
  double margin_tolerance = 0.05;
  /// Told of every step: a progress bar, a log.
  std::function<void(const std::string& policy, const StepReport& report)> progress = nullptr;
};

namespace detail {

inline double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Function>
double seconds_of(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline std::int32_t most_likely(const float* logits, std::int64_t classes) {
  return static_cast<std::int32_t>(std::max_element(logits, logits + classes) - logits);
}

template <class Trainer, class Dataset>
void validate(Trainer& trainer, const Dataset& validation, PolicyRun& run) {
  const auto batch = validation.all();
  const Tensor<const float> logits = trainer.predict(batch.features);
  run.classes = logits.columns();
  run.logits.assign(logits.begin(), logits.end());
  std::int64_t correct = 0;
  for (std::int64_t row = 0; row < logits.rows(); ++row) {
    run.predictions.push_back(most_likely(logits.data() + row * run.classes, run.classes));
    run.labels.push_back(static_cast<std::int32_t>(batch.labels[row]));
    correct += run.predictions.back() == run.labels.back();
  }
  run.validation_accuracy = static_cast<double>(correct) / static_cast<double>(logits.rows());
  run.validation_loss = trainer.evaluate(batch).loss();
}

inline void summarise(PolicyRun& run, std::int64_t batch_size, std::int64_t steps_of_epoch) {
  std::vector<double> full, rest;
  double seconds = 0, loss = 0;
  std::int64_t samples = 0, applied = 0;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const StepReport& step = run.steps[i];
    if (is_finite(run.seconds[i])) {
      seconds += run.seconds[i];
      samples += run.samples[i];
      (run.samples[i] == batch_size ? full : rest).push_back(run.seconds[i]);
    }
    if (run.samples[i] < batch_size) run.short_batch = run.samples[i];
    if (step.applied() && i + static_cast<std::size_t>(steps_of_epoch) >= run.steps.size()) {
      loss += step.loss * static_cast<double>(step.valid_count);
      applied += step.valid_count;
    }
  }
  run.samples_per_second = static_cast<double>(samples) / seconds;
  run.step_seconds = median(std::move(full));
  run.short_step_seconds = median(std::move(rest));
  run.final_loss = loss / static_cast<double>(applied);
}

/// The time of a step on these samples, NaN if the policy stops training there. What the steps do to the
/// weights no longer matters.
template <class Trainer, class Dataset>
double long_tail_seconds(Trainer& trainer, const Dataset& training, const std::vector<std::int64_t>& tail) {
  constexpr int repeats = 21;
  typename Dataset::Batch batch;
  training.load(tail, batch);
  std::vector<double> seconds;
  try {
    for (int i = 0; i < repeats; ++i) {
      seconds.push_back(seconds_of([&] { trainer.accumulate(batch), trainer.update(); }));
    }
  } catch (const TrainingStopped&) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return median(std::move(seconds));
}

}  // namespace detail

/// Trains under one policy and measures. `data` has `training` and `validation`, datasets as ArrayDataset is:
/// `all()`, batches with `features` and `labels`, tensors whose first extent counts samples. The model's
/// `forward` takes features and gives logits. A run that the policy stops is kept as far as it came.
template <class Policy, class Model, class Optimizer, class Data>
PolicyRun train_under(const Data& data, const ComparisonOptions<Model, Optimizer>& options) {
  Trainer<Model, Optimizer, Policy> trainer(options.model, options.optimizer, options.trainer);
  Loader loader(data.training, {.batch_size = options.batch_size}, Shuffled(options.trainer.seed));
  PolicyRun run;
  run.policy = Policy::name;
  run.computes_in_float =
      std::is_same_v<typename Policy::compute_type, float> && !uses_tensor_float32<Policy>;
  try {
    for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
      for (const auto& batch : loader) {
        StepReport report;
        run.samples.push_back(batch.features.shape()[0]);
        run.seconds.push_back(detail::seconds_of([&] { report = trainer.step(batch).report(); }));
        if (options.progress) options.progress(run.policy, report);
        run.steps.push_back(std::move(report));
      }
    }
  } catch (const TrainingStopped& stop) {
    run.stopped = stop.what();
    run.steps.push_back(stop.report);
    run.seconds.resize(run.steps.size(), std::numeric_limits<double>::quiet_NaN());
  }
  run.state = trainer.state();
  run.memory = trainer.memory();
  detail::summarise(run, options.batch_size, loader.batches_per_epoch());
  detail::validate(trainer, data.validation, run);
  const bool timed = !options.long_tail.empty() && run.stopped.empty();
  run.long_tail_seconds = timed ? detail::long_tail_seconds(trainer, data.training, options.long_tail)
                                : std::numeric_limits<double>::quiet_NaN();
  return run;
}

/// Holds a run's answers on the validation set against those of another.
inline PolicyDifference difference_between(const PolicyRun& run, const PolicyRun& reference,
                                           double margin_tolerance) {
  PolicyDifference result;
  double sum = 0;
  for (std::size_t i = 0; i < run.logits.size(); ++i) {
    const double one =
        std::fabs(static_cast<double>(run.logits[i]) - static_cast<double>(reference.logits[i]));
    sum += one;
    // One that is no number is the largest there is: nothing is greater than NaN.
    if (one > result.largest_logit_difference || !is_finite(one)) result.largest_logit_difference = one;
  }
  result.mean_logit_difference = sum / static_cast<double>(run.logits.size());
  for (std::size_t row = 0; row < run.predictions.size(); ++row) {
    const std::int32_t chosen = run.predictions[row], own = reference.predictions[row];
    if (chosen == own) continue;
    const float* logits = reference.logits.data() + row * static_cast<std::size_t>(reference.classes);
    const float margin = logits[own] - logits[chosen];
    ++result.flips;
    result.margins.push_back(margin);
    if (static_cast<double>(margin) <= margin_tolerance) ++result.near_flips;
  }
  // Those that are no number come last: `<` alone does not order them.
  std::sort(result.margins.begin(), result.margins.end(),
            [](float a, float b) { return !is_nan(a) && (is_nan(b) || a < b); });
  result.loss_increase = run.validation_loss / reference.validation_loss - 1;
  return result;
}

/// Puts runs side by side; the first that computes in float is what the others are held against.
template <class Model, class Optimizer>
Comparison compare_runs(std::vector<PolicyRun> runs, const ComparisonOptions<Model, Optimizer>& options) {
  Comparison comparison;
  comparison.seed = options.trainer.seed;
  comparison.epochs = options.epochs;
  comparison.batch_size = options.batch_size;
  comparison.margin_tolerance = options.margin_tolerance;
  comparison.runs = std::move(runs);
  const auto& all = comparison.runs;
  const auto found =
      std::find_if(all.begin(), all.end(), [](const PolicyRun& run) { return run.computes_in_float; });
  if (found == all.end()) return comparison;
  comparison.reference = found - all.begin();
  for (const PolicyRun& run : all)
    comparison.differences.push_back(difference_between(run, *found, options.margin_tolerance));
  return comparison;
}

/// Trains the same model from the same seed on the same samples in the same order under each policy, one
/// after the other, and holds the answers on the frozen validation set against those of the policy that
/// computes in float.
///
///     const Comparison comparison = compare_policies<Mlp, AdamW, Float32Policy, BFloat16Policy>(
///         digits, {.optimizer = AdamW{.learning_rate = constant(1e-3f)}, .epochs = 10, .batch_size = 64});
template <class Model, class Optimizer, class... Policies, class Data>
Comparison compare_policies(const Data& data, const ComparisonOptions<Model, Optimizer>& options) {
  std::vector<PolicyRun> runs;
  (runs.push_back(train_under<Policies>(data, options)), ...);
  return compare_runs(std::move(runs), options);
}

}  // namespace halfstep
