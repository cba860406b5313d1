#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <halfstep/evidence/baseline.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfstep {

/// How far a run may be from its baseline, relative to the size of what is compared: a loss, the norm of a
/// tensor. A gradient counts as no smaller than 1/128 of the whole gradient, weights as no smaller than the
/// way that they went.
struct BaselineTolerance {
  double loss = 0;
  double gradients = 0;
  double weights = 0;
  double predictions = 0;

  /// Everything the same, bit for bit.
  static constexpr BaselineTolerance exact() { return {}; }
  /// For a model that computes in T, over the few steps of a baseline, in roundings of T (half its epsilon).
  /// A gradient is a chain of some roundings, as predictions are; the loss is summed in float; weights start
  /// alike and move by a part of themselves. A network of two layers was found within 0.05, 1.5, 0.3 and 1.1.
  template <class T>
  static constexpr BaselineTolerance of() {
    constexpr double rounding = static_cast<double>(numeric_traits<T>::epsilon) / 2;
    return {rounding, 8 * rounding, 2 * rounding, 8 * rounding};
  }
};

/// The first place where a run left its baseline.
struct Divergence {
  std::int64_t step = 0;  ///< from 1; 0 where nothing diverged
  std::string quantity;   ///< outcome, loss, gradient, gradient norm, weights, prediction, update number
  std::string
      tensor;  ///< the worst one, where the quantity has tensors; of an outcome the first non-finite one
  double expected = 0;  ///< a tensor's norm
  double found = 0;
  double difference = 0;  ///< relative
  double tolerance = 0;

  explicit operator bool() const { return step != 0; }
  std::string text() const;
};

struct BaselineComparison {
  Divergence first;
  /// The run that was compared, up to the first divergence.
  Baseline run;
  std::int64_t skips = 0;
  /// The largest relative differences that were seen, the diverging one included.
  BaselineTolerance largest;
};

struct BaselineOptions {
  BaselineTolerance tolerance;
  /// Windows that may be skipped on the way, each tried again with the same batch: a dynamic loss scale that
  /// begins too high is no fault. (With dropout, another try has other random numbers.)
  std::int64_t skips_allowed = 0;
};

inline std::string Divergence::text() const {
  if (step == 0) return "no divergence";
  std::string message = "step " + std::to_string(step) + ": " + quantity;
  if (!tensor.empty()) message += " of \"" + tensor + "\"";
  if (quantity == "outcome") return message + ": a window that the baseline applied was not";
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, " is %.4g instead of %.4g; relative difference %.3g, allowed %.3g",
                found, expected, difference, tolerance);
  return message + numbers;
}

namespace detail {

/// Follows a run along its baseline until it leaves it.
class BaselineFollower {
 public:
  BaselineFollower(const Baseline& baseline, const BaselineOptions& options, BaselineComparison& result)
      : baseline_(baseline), options_(options), result_(result) {}

  bool diverged() const { return result_.first.step != 0; }

  void follow(const BaselineStep& found, const StepReport& report) {
    const std::size_t index = result_.run.steps.size();
    const BaselineStep& expected = baseline_.steps[index];
    result_.run.steps.push_back(found);
    step_ = static_cast<std::int64_t>(index) + 1;
    if (found.outcome != expected.outcome) {
      return diverge({step_, "outcome", report.first_non_finite.tensor});
    }
    number("loss", expected.loss, found.loss, options_.tolerance.loss, result_.largest.loss);
    // A tensor much smaller than the whole gradient is what cancellation left: its last digits are noise.
    const auto whole = [&](std::size_t) { return expected.gradient_norm * smallest_share; };
    tensors("gradient", expected.gradients, found.gradients, whole, options_.tolerance.gradients,
            result_.largest.gradients);
    number("gradient norm", expected.gradient_norm, found.gradient_norm, options_.tolerance.gradients,
           result_.largest.gradients);
    // A weight that training brings close to zero has digits only down to those of the way that it went.
    const auto way = [&](std::size_t i) { return distance(expected.weights[i], baseline_.first_weights[i]); };
    tensors("weights", expected.weights, found.weights, way, options_.tolerance.weights,
            result_.largest.weights);
    number("update number", static_cast<double>(expected.update_number),
           static_cast<double>(found.update_number), 0, ignored_);
  }

  /// Throws ConfigurationError for a prediction of another size than the baseline's.
  void follow(const std::vector<float>& prediction, std::size_t batch) {
    const std::vector<float>& expected = baseline_.predictions[batch];
    if (prediction.size() != expected.size()) {
      throw ConfigurationError("compare_to_baseline: for batch " + std::to_string(batch + 1) +
                               " the baseline predicts " + std::to_string(expected.size()) +
                               " numbers, this trainer " + std::to_string(prediction.size()) +
                               "; give the callable that the baseline was recorded with, and its batches");
    }
    double squares = 0, differences = 0, found = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double e = static_cast<double>(expected[i]);
      const double f = static_cast<double>(prediction[i]);
      squares += e * e;
      found += f * f;
      differences += (e - f) * (e - f);
    }
    result_.run.predictions.push_back(prediction);
    judge("prediction", "", std::sqrt(squares), std::sqrt(found),
          std::sqrt(differences) / size(std::sqrt(squares)), options_.tolerance.predictions,
          result_.largest.predictions);
  }

 private:
  static constexpr double smallest_share = 1.0 / 128;

  /// What a difference is relative to; zero is held against itself.
  static double size(double expected) { return expected == 0 ? 1 : std::fabs(expected); }

  void number(const char* quantity, double expected, double found, double tolerance, double& largest) {
    judge(quantity, "", expected, found, std::fabs(expected - found) / size(expected), tolerance, largest);
  }

  /// `least(i)`: what a difference is relative to where the tensor is smaller than that.
  template <class Least>
  void tensors(const char* quantity, const std::vector<TensorSketch>& expected,
               const std::vector<TensorSketch>& found, const Least& least, double tolerance,
               double& largest) {
    std::size_t worst = 0;
    double difference = -1;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double one = distance(expected[i], found[i]) / size((std::max)(expected[i].norm, least(i)));
      if (one <= difference) continue;
      difference = one;
      worst = i;
      if (!is_finite(one)) break;
    }
    judge(quantity, baseline_.parameters[worst], expected[worst].norm, found[worst].norm, difference,
          tolerance, largest);
  }

  void judge(const char* quantity, const std::string& tensor, double expected, double found,
             double difference, double tolerance, double& largest) {
    if (diverged()) return;
    largest = (std::max)(largest, difference);
    if (difference <= tolerance && is_finite(difference)) return;
    diverge({step_, quantity, tensor, expected, found, difference, tolerance});
  }
  void diverge(Divergence divergence) { result_.first = std::move(divergence); }

  const Baseline& baseline_;
  const BaselineOptions& options_;
  BaselineComparison& result_;
  std::int64_t step_ = 0;
  double ignored_ = 0;
};

inline void require_same_run(const Baseline& baseline, const Baseline& run) {
  const auto refuse = [](const std::string& what, const std::string& expected, const std::string& found) {
    throw ConfigurationError(
        "compare_to_baseline: the baseline has " + what + " " + expected + ", this trainer " + found +
        "; compare runs that differ in policy or device alone, or record a new baseline");
  };
  if (baseline.optimizer != run.optimizer) refuse("optimizer", baseline.optimizer, run.optimizer);
  if (baseline.seed != run.seed) refuse("seed", std::to_string(baseline.seed), std::to_string(run.seed));
  const auto names = [](const std::vector<std::string>& parameters) {
    std::string text;
    for (const std::string& parameter : parameters) text += (text.empty() ? "" : ", ") + parameter;
    return text;
  };
  if (baseline.parameters != run.parameters)
    refuse("parameters", names(baseline.parameters), names(run.parameters));
}

}  // namespace detail

/// Takes the baseline's steps with a fresh trainer under another policy, on the same batches, and reports the
/// first divergence. Throws ConfigurationError where optimizer, seed, parameters or the number of batches are
/// not the baseline's, the trainer has trained already, or only one of the baseline and this call has
/// predictions, or they differ in number.
template <class Trainer, class Batches, class Predict = NoPredictions>
BaselineComparison compare_to_baseline(const Baseline& baseline, Trainer& trainer, const Batches& batches,
                                       const BaselineOptions& options, const Predict& predict = {}) {
  detail::require_fresh(trainer, "compare_to_baseline");
  BaselineComparison result;
  result.run = detail::describe_run(trainer);
  detail::require_same_run(baseline, result.run);
  if (std::is_same_v<Predict, NoPredictions> && !baseline.predictions.empty()) {
    throw ConfigurationError(
        "compare_to_baseline: the baseline has predictions for " +
        std::to_string(baseline.predictions.size()) +
        " batches, and nothing to hold against them; give the callable that it was recorded with, or clear "
        "its predictions");
  }
  if (!std::is_same_v<Predict, NoPredictions> && baseline.predictions.empty()) {
    throw ConfigurationError(
        "compare_to_baseline: predictions are to be compared, and the baseline has none; record it with the same "
        "callable, or give none here");
  }
  detail::BaselineFollower follower(baseline, options, result);
  std::size_t taken = 0;
  for (const auto& batch : batches) {
    if (++taken > baseline.steps.size()) break;
    StepReport report;
    BaselineStep step = detail::step_and_record(trainer, batch, report);
    while (step.outcome == Outcome::skipped && result.skips < options.skips_allowed) {
      ++result.skips;
      step = detail::step_and_record(trainer, batch, report);
    }
    follower.follow(step, report);
    if (follower.diverged()) return result;
  }
  if (taken != baseline.steps.size()) {
    throw ConfigurationError("compare_to_baseline: the baseline has " +
                             std::to_string(baseline.steps.size()) + " steps, but there are " +
                             (taken > baseline.steps.size() ? "more" : "fewer") +
                             " batches; give those that it was recorded on");
  }
  std::size_t number = 0;
  for (const auto& batch : batches) {
    if (number == baseline.predictions.size() || follower.diverged()) break;
    follower.follow(detail::copy_of(predict(trainer, batch)), number++);
  }
  return result;
}

/// The same with a trainer made from the parts that the baseline's was made from, under `Policy`. Without
/// options the tolerance is that of the policy's compute type.
template <class Policy, class Model, class Optimizer, class Batches, class Predict = NoPredictions>
BaselineComparison compare_to_baseline(
    const Baseline& baseline, Model model, Optimizer optimizer,
    BasicTrainerOptions<DefaultDevice> trainer_options, const Batches& batches,
    const BaselineOptions& options = {BaselineTolerance::of<typename Policy::compute_type>()},
    const Predict& predict = {}) {
  Trainer<Model, Optimizer, Policy> trainer(std::move(model), optimizer, std::move(trainer_options));
  return compare_to_baseline(baseline, trainer, batches, options, predict);
}

}  // namespace halfstep
