#pragma once

#include <concepts>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/compute/vectorize.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/loss_sum.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/sum.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/math.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <limits>
#include <string>
#include <type_traits>

namespace halfstep {

struct CrossEntropyOptions {
  /// Rows with this label count nothing.
  std::int64_t ignore_index = -100;
  /// The share of a row's weight that is spread evenly over all classes, from 0 to 1.
  float label_smoothing = 0.0f;
};

namespace detail {

/// log sum exp of a row is maximum + log_sum. They are kept apart: added up in float, large logits would
/// swallow the digits of the logarithm.
struct LogSumExp {
  float maximum;
  float log_sum;
};

/// What each class weighs in a row's loss: `off` every class, `off + hit` the label's.
struct LabelWeights {
  float hit;
  float off;
};

template <class T, class Label>
struct CrossEntropyRows {
  const T* logits;
  const Label* labels;
  std::int64_t rows;
  std::int64_t classes;
  std::int64_t ignore_index;
  LabelWeights weights;

  /// Rows that one task handles; the same for every number of threads.
  HALFSTEP_HOST_DEVICE static std::int64_t rows_of_task(std::int64_t classes) {
    return classes < compute::chunk_size ? compute::chunk_size / classes : 1;
  }
  std::int64_t tasks() const { return (rows + rows_of_task(classes) - 1) / rows_of_task(classes); }

  template <class Function>
  void for_rows_of(std::int64_t task, const Function& function) const {
    const std::int64_t begin = task * rows_of_task(classes);
    const std::int64_t end = begin + rows_of_task(classes) < rows ? begin + rows_of_task(classes) : rows;
    for (std::int64_t row = begin; row < end; ++row) function(row, static_cast<std::int64_t>(labels[row]));
  }
};

template <class T>
struct ShiftedExp {
  const T* row;
  float maximum;
  float operator()(std::int64_t k) const { return math::exp(static_cast<float>(row[k]) - maximum); }
};

/// -log of a class's probability: log_sum - (logit - maximum), every term of it at least 0.
template <class T>
struct NegativeLogProbability {
  const T* row;
  LogSumExp normalizer;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t k) const {
    return normalizer.log_sum - (static_cast<float>(row[k]) - normalizer.maximum);
  }
};

/// A sum of exponentials, divided by that of the largest exponent.
struct ScaledSum {
  float maximum;
  float sum;
};

/// The sum of both. So a row's log-sum-exp takes one read of it (Milakov and Gimelshein, Online Normalizer Calculation
/// for Softmax, 2018). A NaN is no maximum, but makes the sum NaN.
struct AddScaledSums {
  HALFSTEP_HOST_DEVICE ScaledSum operator()(const ScaledSum& a, const ScaledSum& b) const {
    const float smaller_by = float_of(bits_of(b.maximum - a.maximum) | 0x80000000u);
    const float factor = math::exp(smaller_by);
    if (a.maximum < b.maximum) return {b.maximum, a.sum * factor + b.sum};
    return {a.maximum, b.sum * factor + a.sum};
  }
};

template <class T, class Label>
struct CrossEntropyForward {
  CrossEntropyRows<T, Label> batch;
  LogSumExp* normalizers;
  float* losses;

  void operator()(std::int64_t task) const {
    batch.for_rows_of(task, [this](std::int64_t row, std::int64_t label) {
      if (label == batch.ignore_index) {
        losses[row] = 0.0f;
        return;
      }
      const std::int64_t classes = batch.classes;
      const T* logits = batch.logits + row * classes;
      const float maximum = compute::detail::reduce_range(
          0, classes, ValueTerm<T>{logits}, -numeric_traits<float>::largest, compute::Maximum{});
      const float sum =
          compute::detail::reduce_range(0, classes, ShiftedExp<T>{logits, maximum}, 0.0f, compute::Plus{});
      const LogSumExp normalizer{maximum, math::log(sum)};
      const NegativeLogProbability<T> term{logits, normalizer};
      // A weight of zero leaves its term out, because zero times infinity is not zero.
      float loss = 0.0f;
      if (batch.weights.hit > 0.0f) loss += batch.weights.hit * term(label);
      if (batch.weights.off > 0.0f) {
        loss += batch.weights.off * compute::detail::reduce_range(0, classes, term, 0.0f, compute::Plus{});
      }
      normalizers[row] = normalizer;
      losses[row] = loss;
    });
  }

  std::int64_t team_tasks() const { return batch.rows; }
  std::int64_t team_width() const { return batch.classes; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t row) const {
    const auto label = static_cast<std::int64_t>(batch.labels[row]);
    if (label == batch.ignore_index) {
      if (team.leads()) losses[row] = 0.0f;
      return;
    }
    const T* const logits = batch.logits + row * batch.classes;
    const auto exponent = [logits](std::int64_t k) { return ScaledSum{static_cast<float>(logits[k]), 1.0f}; };
    const ScaledSum total = team.reduce(batch.classes, exponent, ScaledSum{-numeric_traits<float>::largest, 0.0f},
                                        AddScaledSums{});
    // Infinity minus infinity is NaN, wherever in the row it was met.
    const float sum = is_finite(total.maximum) ? total.sum : float_of(0x7fc00000u);
    const LogSumExp normalizer{total.maximum, math::log(sum)};
    const NegativeLogProbability<T> term{logits, normalizer};
    float loss = 0.0f;
    if (batch.weights.hit > 0.0f) loss += batch.weights.hit * term(label);
    if (batch.weights.off > 0.0f) {
      loss += batch.weights.off * team.reduce(batch.classes, term, 0.0f, compute::Plus{});
    }
    if (!team.leads()) return;
    normalizers[row] = normalizer;
    losses[row] = loss;
  }
};

/// d loss / d logit = probability - weight, for every class of a row.
template <class T, class Label>
struct CrossEntropyGradient {
  CrossEntropyRows<T, Label> batch;
  const LogSumExp* normalizers;
  const float* sum_gradient;
  GradientTarget<T> logits_gradient;

  void operator()(std::int64_t task) const {
    const float scale = *sum_gradient;
    batch.for_rows_of(task, [this, scale](std::int64_t row, std::int64_t label) {
      const std::int64_t begin = row * batch.classes;
      const GradientTarget<T> target{logits_gradient.data + begin, logits_gradient.accumulate};
      if (label == batch.ignore_index) {
        if (target.accumulate) return;
        for (std::int64_t k = 0; k < batch.classes; ++k) target.data[k] = static_cast<T>(0.0f);
        return;
      }
      const T* logits = batch.logits + begin;
      const LogSumExp normalizer = normalizers[row];
      const LabelWeights weights = batch.weights;
      const auto count = static_cast<std::int32_t>(batch.classes);
      const auto position = static_cast<std::uint32_t>(label);
      HALFSTEP_SIMD
      for (std::int32_t k = 0; k < count; ++k) {
        const float probability =
            math::exp((static_cast<float>(logits[k]) - normalizer.maximum) - normalizer.log_sum);
        // A mask, because a branch here keeps the loop from being vectorised.
        const std::uint32_t is_label = mask_if_less(static_cast<std::uint32_t>(k) ^ position, 1u);
        const float weight = weights.off + float_of(bits_of(weights.hit) & is_label);
        store_gradient(target, k, (probability - weight) * scale);
      }
    });
  }

  std::int64_t team_tasks() const { return batch.rows; }
  std::int64_t team_width() const { return batch.classes; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t row) const {
    const std::int64_t begin = row * batch.classes;
    const GradientTarget<T> target{logits_gradient.data + begin, logits_gradient.accumulate};
    const auto label = static_cast<std::int64_t>(batch.labels[row]);
    if (label == batch.ignore_index) {
      if (target.accumulate) return;
      team.for_each(batch.classes, [target](std::int64_t k) { target.data[k] = static_cast<T>(0.0f); });
      return;
    }
    const float scale = *sum_gradient;
    const T* const logits = batch.logits + begin;
    const LogSumExp normalizer = normalizers[row];
    const LabelWeights weights = batch.weights;
    const auto logit = [logits](std::int64_t k) { return static_cast<float>(logits[k]); };
    team.for_each(batch.classes, logit, [&](std::int64_t k, float value) {
      const float probability = math::exp((value - normalizer.maximum) - normalizer.log_sum);
      const float weight = weights.off + (k == label ? weights.hit : 0.0f);
      store_gradient(target, k, (probability - weight) * scale);
    });
  }
};

template <class T, class Label>
struct CrossEntropyBackward {
  Variable<T> logits;
  CrossEntropyRows<T, Label> batch;
  const LogSumExp* normalizers;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> sum_gradient) const {
    if (const auto target = tape.gradient_target(logits)) {
      compute::for_each_task(tape.device(), batch.tasks(),
                             CrossEntropyGradient<T, Label>{batch, normalizers, sum_gradient.data(), target});
    }
  }
};

/// Checks the call of `function` and counts the rows that are not ignored.
template <class Label>
std::int64_t count_valid_labels(const char* function, const Shape& logits, const Tensor<Label>& labels,
                                const CrossEntropyOptions& options) {
  const std::int64_t rows = logits.rows(), classes = logits.columns();
  if (!(options.label_smoothing >= 0.0f && options.label_smoothing <= 1.0f)) {
    throw ConfigurationError(std::string(function) + ": label_smoothing is " +
                             std::to_string(options.label_smoothing) + "; it must be from 0 to 1");
  }
  if (logits.rank() == 0) {
    throw ShapeError(std::string(function) +
                     ": the logits are a scalar; their last extent must be the number of classes");
  }
  if (logits.size() == 0) {
    throw ShapeError(std::string(function) + ": empty batch, the logits have shape " + logits.text() +
                     "; there must be at least one row and one class");
  }
  if (classes > (std::numeric_limits<std::int32_t>::max)()) {
    throw ShapeError(std::string(function) + ": logits of shape " + logits.text() +
                     " have more than 2^31 - 1 classes");
  }
  if (labels.size() != rows) {
    throw ShapeError(std::string(function) + ": logits of shape " + logits.text() + " have " +
                     std::to_string(rows) + " rows, but there are " + std::to_string(labels.size()) +
                     " labels of shape " + labels.shape().text() + "; there must be one for each row");
  }
  std::int64_t valid = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto label = static_cast<std::int64_t>(labels[row]);
    if (label == options.ignore_index) continue;
    if (label < 0 || label >= classes) {
      throw ShapeError(std::string(function) + ": label " + std::to_string(label) + " at position " +
                       std::to_string(row) + " is outside [0, " + std::to_string(classes) +
                       "), the classes of logits of shape " + logits.text() + "; ignore_index is " +
                       std::to_string(options.ignore_index));
    }
    ++valid;
  }
  return valid;
}

}  // namespace detail

/// Softmax cross-entropy over the last axis, summed over the rows whose label is not `ignore_index`, and
/// their number: the mean is PyTorch's cross_entropy. With label smoothing s over K classes a row's loss is
/// (1 - s) (-log p[label]) + s/K sum_k (-log p[k]).
///
/// `logits` is a variable [..., classes] of any type, `labels` integers in the program's memory, one for each
/// row. All arithmetic is float, by log-sum-exp, so that no logit is too large; the gradient p - q is rounded
/// once, to the type of the logits. Terms of weight zero are left out: a logit of -inf, a masked class, costs
/// nothing as long as it is not asked for. Where it is asked for, as the label or by smoothing, which asks
/// for every class, the loss is +inf, as mathematics has it, while the gradient stays finite: such a step
/// shows a non-finite loss and no overflow. A row of nothing but -inf has no distribution: NaN.
///
/// Throws ShapeError for an empty batch, a number of labels other than that of the rows and a label outside
/// [0, classes), ConfigurationError for a smoothing outside [0, 1]; nothing has been computed then.
template <class Tape, class Input, class L>
requires std::integral<L> Loss cross_entropy(Tape& tape, const Input& logits, const Tensor<L>& labels,
                                             CrossEntropyOptions options = {}) {
  const auto x = tape.variable(logits);
  using T = typename decltype(x)::value_type;
  using Label = std::remove_const_t<L>;
  const std::int64_t valid = detail::count_valid_labels("cross_entropy", x.shape(), labels, options);
  const std::int64_t rows = x.rows(), classes = x.columns();
  const detail::LabelWeights weights{1.0f - options.label_smoothing,
                                     options.label_smoothing / static_cast<float>(classes)};
  const detail::CrossEntropyRows<T, Label> batch{x.data(), tape.upload(labels).data(), rows,
                                                 classes,  options.ignore_index,       weights};
  auto* normalizers = tape.arena().template allocate<detail::LogSumExp>(rows);
  float* losses = tape.arena().template allocate<float>(rows);
  compute::for_each_task(tape.device(), batch.tasks(),
                         detail::CrossEntropyForward<T, Label>{batch, normalizers, losses});
  const Tensor<float> total = detail::sum_of_terms(tape, rows, detail::ValueTerm<float>{losses});
  return {tape.record(operation::Loss{}, total, x.requires_gradient(),
                      detail::CrossEntropyBackward<T, Label>{x, batch, normalizers}),
          valid};
}

}  // namespace halfstep
