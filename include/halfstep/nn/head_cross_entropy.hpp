#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matmul.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/cross_entropy.hpp>
#include <halfstep/nn/loss_sum.hpp>
#include <halfstep/nn/parameter.hpp>
#include <halfstep/nn/sum.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>
#include <type_traits>

namespace halfstep {

struct HeadCrossEntropyOptions {
  /// Rows with this label count nothing.
  std::int64_t ignore_index = -100;
  /// The share of a row's weight that is spread evenly over all classes, from 0 to 1.
  float label_smoothing = 0.0f;
  /// Rows whose logits are in memory at a time. 0: as many as make about four million logits, but 128 at
  /// least.
  std::int64_t rows_at_once = 0;
};

namespace detail {

/// The rows of a head's product, chunk by chunk: `logits` has room for one chunk.
template <class T, class Label>
struct HeadRows {
  Tensor<const T> hidden;
  Tensor<const T> weight;
  CrossEntropyRows<T, Label> batch;
  std::int64_t rows_at_once;
  T* logits;

  std::int64_t chunks() const { return (batch.rows + rows_at_once - 1) / rows_at_once; }
  std::int64_t first(std::int64_t chunk) const { return chunk * rows_at_once; }
  std::int64_t count(std::int64_t chunk) const { return (std::min)(rows_at_once, batch.rows - first(chunk)); }

  auto hidden_of(std::int64_t chunk) const {
    const std::int64_t width = hidden.columns();
    return compute::matrix(hidden.data() + first(chunk) * width, count(chunk), width);
  }
  auto weights() const { return compute::matrix(weight.data(), batch.classes, hidden.columns()); }
  auto logits_of(std::int64_t chunk) const { return compute::matrix(logits, count(chunk), batch.classes); }
  /// The rows of a chunk as cross_entropy takes them.
  CrossEntropyRows<T, Label> batch_of(std::int64_t chunk) const {
    CrossEntropyRows<T, Label> part = batch;
    part.logits = logits;
    part.labels += first(chunk);
    part.rows = count(chunk);
    return part;
  }
  template <class Tape>
  void compute_logits(Tape& tape, std::int64_t chunk) const {
    compute::matmul(tape.device(), hidden_of(chunk), weights().transposed(), logits_of(chunk),
                    {.tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
  }
};

/// dHidden = dLogits W;  dW += dLogits^T hidden in float. From the last chunk to the first, because the
/// logits of the last are still in memory.
template <class T, class Label>
struct HeadCrossEntropyBackward {
  Variable<T> hidden;
  Parameter weight_parameter;
  HeadRows<T, Label> head;
  const LogSumExp* normalizers;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> sum_gradient) const {
    const auto hidden_target = tape.gradient_target(hidden);
    const auto weight_target = tape.gradient_target(weight_parameter);
    const std::int64_t width = hidden.columns();
    for (std::int64_t chunk = head.chunks() - 1; chunk >= 0; --chunk) {
      const bool is_first = chunk == head.chunks() - 1;
      if (!is_first) head.compute_logits(tape, chunk);
      const auto batch = head.batch_of(chunk);
      const GradientTarget<T> in_place{head.logits, false};
      compute::for_each_task(tape.device(), batch.tasks(),
                             CrossEntropyGradient<T, Label>{batch, normalizers + head.first(chunk),
                                                            sum_gradient.data(), in_place});
      const auto gradient = compute::Matrix<const T>(head.logits_of(chunk));
      if (hidden_target) {
        const auto result =
            compute::matrix(hidden_target.data + head.first(chunk) * width, head.count(chunk), width);
        compute::matmul(tape.device(), gradient, head.weights(), result,
                        {.accumulate = hidden_target.accumulate,
                         .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
      }
      if (weight_target) {
        compute::matmul(tape.device(), gradient.transposed(), head.hidden_of(chunk),
                        compute::matrix(weight_target.data, batch.classes, width),
                        {.accumulate = weight_target.accumulate || !is_first,
                         .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
      }
    }
  }
};

/// Checks the call; returns the shape that the logits would have.
inline Shape head_logits_shape(const Shape& hidden, const Shape& weight,
                               const HeadCrossEntropyOptions& options) {
  if (options.rows_at_once < 0) {
    throw ConfigurationError("head_cross_entropy: rows_at_once is " + std::to_string(options.rows_at_once) +
                             "; it must be 1 or more, or 0 for a number that fits the classes");
  }
  if (hidden.rank() == 0 || weight.rank() != 2 || weight.columns() == 0 ||
      hidden.columns() != weight.columns()) {
    throw ShapeError("head_cross_entropy: hidden values of shape " + hidden.text() +
                     " and a weight of shape " + weight.text() +
                     "; the weight must be [classes, width] and the last extent of the hidden "
                     "values its width");
  }
  return hidden.with_columns(weight[0]);
}

inline std::int64_t head_rows_at_once(std::int64_t rows, std::int64_t classes, std::int64_t asked) {
  constexpr std::int64_t enough_logits = std::int64_t{1} << 22, fewest_rows = 128;
  return (std::min)(rows, asked > 0 ? asked : (std::max)(enough_logits / classes, fewest_rows));
}

}  // namespace detail

/// cross_entropy of Linear's logits hidden W^T, without all of the logits: they are computed for
/// `rows_at_once` rows at a time, and again in the backward pass, where their gradient overwrites them. A
/// vocabulary of 50,257 over 8,192 tokens would take 1.6 GB as float; so it takes 26 MB.
///
/// `hidden` is a variable or tensor [..., width], `weight` a parameter [classes, width] that the model names,
/// that of an embedding (a tied head) too; labels, options and the loss are those of cross_entropy. Logits
/// and their gradient are rounded to the type that the policy gives to products, as Linear's: the loss and
/// the gradient of `hidden` are those of the two operations one after the other, but for another order of
/// sums where a chunk is multiplied otherwise than the whole; the gradient of `weight` adds up chunk by
/// chunk, in float.
///
/// Throws as cross_entropy does, and ShapeError where the widths disagree, ConfigurationError for a negative
/// rows_at_once; nothing has been computed then.
template <class Tape, class Input, class L>
requires std::integral<L> Loss head_cross_entropy(Tape& tape, const Input& hidden, const Parameter& weight,
                                                  const Tensor<L>& labels,
                                                  HeadCrossEntropyOptions options = {}) {
  using T = operation_type<typename Tape::Policy, operation::Matmul>;
  using Label = std::remove_const_t<L>;
  const auto given = tape.variable(hidden);
  const Shape logits = detail::head_logits_shape(given.shape(), weight.shape, options);
  const std::int64_t valid = detail::count_valid_labels(
      "head_cross_entropy", logits, labels,
      {.ignore_index = options.ignore_index, .label_smoothing = options.label_smoothing});
  const std::int64_t rows = logits.rows(), classes = logits.columns();
  const Tensor<const T> w = tape.template weight<T>(weight);
  const Variable<T> x = cast<T>(tape, given);
  const detail::LabelWeights weights{1.0f - options.label_smoothing,
                                     options.label_smoothing / static_cast<float>(classes)};
  const std::int64_t rows_at_once = detail::head_rows_at_once(rows, classes, options.rows_at_once);
  T* const chunk_logits = tape.template allocate<T>({rows_at_once, classes}).data();
  const detail::CrossEntropyRows<T, Label> batch{chunk_logits, tape.upload(labels).data(), rows,
                                                 classes,      options.ignore_index,       weights};
  const detail::HeadRows<T, Label> head{x.value(), w, batch, rows_at_once, chunk_logits};
  auto* normalizers = tape.arena().template allocate<detail::LogSumExp>(rows);
  float* losses = tape.arena().template allocate<float>(rows);
  for (std::int64_t chunk = 0; chunk < head.chunks(); ++chunk) {
    head.compute_logits(tape, chunk);
    const auto part = head.batch_of(chunk);
    compute::for_each_task(tape.device(), part.tasks(),
                           detail::CrossEntropyForward<T, Label>{part, normalizers + head.first(chunk),
                                                                 losses + head.first(chunk)});
  }
  const Tensor<float> total = detail::sum_of_terms(tape, rows, detail::ValueTerm<float>{losses});
  return {tape.record(operation::Loss{}, total, x.requires_gradient() || tape.trains(weight),
                      detail::HeadCrossEntropyBackward<T, Label>{x, weight, head, normalizers}),
          valid};
}

}  // namespace halfstep
