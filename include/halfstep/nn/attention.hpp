#pragma once

#include <cmath>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matmul_tiles.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/attention_backward.hpp>
#include <halfstep/nn/attention_forward.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/option_fault.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <span>
#include <string>
#include <utility>
#if HALFSTEP_WITH_CUDA
#include <halfstep/nn/cuda_attention.hpp>
#endif

namespace halfstep {

struct AttentionOptions {
  /// Heads of the queries.
  std::int64_t heads = 1;
  /// Heads of keys and values; neighbouring query heads share one (grouped queries). 0: as many as `heads`.
  std::int64_t key_value_heads = 0;
  /// A query at position p sees the keys 0 to p; otherwise all.
  bool causal = true;
  /// What scores are multiplied by. 0: 1 / sqrt(width of a head).
  float scale = 0.0f;
  /// Position of the first query among the keys: with a cache of keys, how many were there before.
  std::int64_t first_query_position = 0;
  /// Valid keys of each sequence, the first so many; none given: all keys. Copied by the call.
  std::span<const std::int64_t> lengths = {};
};

namespace detail {

/// Checks a call and says what is to be computed; `lengths` stays null.
inline AttentionShape attention_shape(const Shape& query, const Shape& key, const Shape& value,
                                      const AttentionOptions& options) {
  const std::int64_t heads = options.heads;
  const std::int64_t shared = options.key_value_heads == 0 ? heads : options.key_value_heads;
  const auto text = [&] {
    return "queries of shape " + query.text() + ", keys of shape " + key.text() + ", values of shape " +
           value.text() + ", " + std::to_string(heads) + " heads over " + std::to_string(shared) +
           " of keys and values";
  };
  if (heads < 1 || shared < 1 || heads % shared != 0) {
    throw ConfigurationError("attention: heads is " + std::to_string(heads) + " and key_value_heads is " +
                             std::to_string(options.key_value_heads) +
                             "; heads must be 1 or more and a multiple of key_value_heads");
  }
  if (options.first_query_position < 0) {
    throw ConfigurationError("attention: first_query_position is " +
                             std::to_string(options.first_query_position) + "; it must be 0 or more");
  }
  if (!is_finite_as_float(static_cast<double>(options.scale)) || options.scale < 0.0f) {
    throw ConfigurationError("attention: scale is " + describe_number(static_cast<double>(options.scale)) +
                             "; it must be finite and positive, or 0 for 1 / sqrt(width of a head)");
  }
  if (query.rank() != 3 || key.rank() != 3 || value.rank() != 3) {
    throw ShapeError("attention: " + text() +
                     "; each must have three extents: sequences, positions, heads * width");
  }
  if (query.size() == 0 || key.size() == 0 || value.size() == 0) {
    throw ShapeError("attention: empty tensor among " + text() +
                     "; there must be a sequence, a position and a channel");
  }
  if (query[2] % heads != 0 || key[2] != query[2] / heads * shared || value[2] != key[2]) {
    throw ShapeError(
        "attention: " + text() +
        "; the last extents must be heads * width, and key_value_heads * width for keys and values");
  }
  if (key[0] != query[0] || value[0] != query[0] || value[1] != key[1]) {
    throw ShapeError("attention: " + text() +
                     "; all need the same number of sequences, keys and values the same number of positions");
  }
  const auto lengths = options.lengths;
  if (!lengths.empty() && static_cast<std::int64_t>(lengths.size()) != query[0]) {
    throw ShapeError("attention: " + std::to_string(lengths.size()) + " lengths for " +
                     std::to_string(query[0]) + " sequences, in " + text() +
                     "; there must be one for each sequence");
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] >= 0 && lengths[i] <= key[1]) continue;
    throw ShapeError("attention: length " + std::to_string(lengths[i]) + " of sequence " + std::to_string(i) +
                     " is outside [0, " + std::to_string(key[1]) + "], the number of keys, in " + text());
  }
  const std::int64_t width = query[2] / heads;
  const float scale = options.scale > 0.0f ? options.scale : 1.0f / std::sqrt(static_cast<float>(width));
  return {query[0], query[1], key[1], heads, shared, width, options.causal, options.first_query_position,
          scale,    nullptr};
}

/// The shapes of the queries and of the keys and values in one tensor. Heads that cannot be are left to
/// attention_shape.
inline std::pair<Shape, Shape> packed_attention_shapes(const Shape& packed, const AttentionOptions& options) {
  const std::int64_t heads = options.heads;
  const std::int64_t shared = options.key_value_heads == 0 ? heads : options.key_value_heads;
  if (heads < 1 || shared < 1 || heads % shared != 0) return {packed, packed};
  const std::int64_t parts = heads + 2 * shared;
  if (packed.rank() != 3 || packed.columns() % parts != 0) {
    throw ShapeError("attention: queries, keys and values in one tensor of shape " + packed.text() + ", " +
                     std::to_string(heads) + " heads over " + std::to_string(shared) +
                     " of keys and values; it must have three extents: sequences, positions, (heads + 2 * "
                     "key_value_heads) * width, the last a multiple of " +
                     std::to_string(parts));
  }
  const std::int64_t width = packed.columns() / parts;
  return {packed.with_columns(heads * width), packed.with_columns(shared * width)};
}

/// Queries, keys and values as they lie in three tensors, or in one.
template <class T>
struct AttentionViews {
  HeadsView<T> queries, keys, values;

  static AttentionViews separate(const AttentionShape& shape, T* q, T* k, T* v) {
    const std::int64_t width = shape.width, shared = shape.key_value_heads * width;
    return {{q, shape.queries, width, shape.heads * width},
            {k, shape.keys, width, shared},
            {v, shape.keys, width, shared}};
  }
  static AttentionViews packed(const AttentionShape& shape, T* qkv) {
    const std::int64_t width = shape.width, heads = shape.heads * width,
                       shared = shape.key_value_heads * width;
    const std::int64_t leading = heads + 2 * shared;
    return {{qkv, shape.queries, width, leading},
            {qkv + heads, shape.keys, width, leading},
            {qkv + heads + shared, shape.keys, width, leading}};
  }
};

/// What the backward pass keeps. `inputs` are queries, keys and values, or the one tensor that holds them.
template <class T, int Inputs>
struct AttentionNode {
  AttentionShape shape;
  Variable<T> inputs[Inputs];
  AttentionViews<const T> views;
  HeadsView<const T> output;
  const AttentionRow* statistics;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> output_gradient) const {
    AttentionBackward<T> kernel{shape,  views.queries, views.keys, views.values, output,
                                output, statistics,    {},         {},           {}};
    kernel.output_gradient.data = output_gradient.data();
    if constexpr (Inputs == 1) {
      const auto target = tape.gradient_target(inputs[0]);
      if (!target) return;
      const auto all = AttentionViews<T>::packed(shape, target.data);
      kernel.query_gradient = {all.queries, target.accumulate};
      kernel.key_gradient = {all.keys, target.accumulate};
      kernel.value_gradient = {all.values, target.accumulate};
    } else {
      // In this order: where one tensor is two inputs, the first to be stored is the one that overwrites.
      const auto q = tape.gradient_target(inputs[0]);
      const auto k = tape.gradient_target(inputs[1]);
      const auto v = tape.gradient_target(inputs[2]);
      const auto all = AttentionViews<T>::separate(shape, q.data, k.data, v.data);
      kernel.query_gradient = {all.queries, q.accumulate};
      kernel.key_gradient = {all.keys, k.accumulate};
      kernel.value_gradient = {all.values, v.accumulate};
    }
    if constexpr (Tape::DeviceType::shares_host_memory) {
      compute_by_tiles(tape, kernel);
    } else {
      attend_backward_by_products(tape, kernel);
    }
  }

 private:
  template <class Tape>
  void compute_by_tiles(Tape& tape, AttentionBackward<T>& kernel) const {
    if (const std::int64_t size = AttentionBackward<T>::partials_size(shape)) {
      kernel.partials = tape.arena().template allocate<float>(size);
    }
    const AttentionBackwardScratch scratch(shape, nullptr);
    compute::detail::for_each_tile(tape.device(), AttentionBackward<T>::grid(shape), scratch.floats, kernel);
    if (kernel.partials != nullptr) {
      compute::for_each_task(tape.device(), shape.batch * shape.key_value_heads * kernel.key_blocks(),
                             [&kernel](std::int64_t task) { kernel.finish(task); });
    }
  }
};

template <class T, int Inputs, class Tape>
Variable<T> record_attention(Tape& tape, AttentionShape shape, const Variable<T> (&inputs)[Inputs],
                             const AttentionViews<const T>& views, std::span<const std::int64_t> lengths) {
  if (!lengths.empty()) {
    const auto copy = tape.template allocate<std::int64_t>({shape.batch});
    tape.device().upload(copy.data(), lengths.data(), lengths.size_bytes());
    shape.lengths = copy.data();
  }
  const std::int64_t columns = shape.heads * shape.width;
  const Tensor<T> result = tape.template allocate<T>({shape.batch, shape.queries, columns});
  auto* const rows = tape.arena().template allocate<AttentionRow>(shape.batch * shape.heads * shape.queries);
  const HeadsView<T> output{result.data(), shape.queries, shape.width, columns};
  const AttentionForward<T> kernel{shape, views.queries, views.keys, views.values, output, rows};
  if constexpr (Tape::DeviceType::shares_host_memory) {
    compute::detail::for_each_tile(tape.device(), kernel.grid(compute::detail::max_threads()),
                                   kernel.scratch_floats(), kernel);
  } else {
    attend_by_products(tape, kernel);
  }
  AttentionNode<T, Inputs> node{shape, {}, views, output, rows};
  bool wants_gradient = false;
  for (int i = 0; i < Inputs; ++i) {
    node.inputs[i] = inputs[i];
    wants_gradient = wants_gradient || inputs[i].requires_gradient();
  }
  return tape.record(operation::Attention{}, result, wants_gradient, node);
}

}  // namespace detail

/// Scaled dot-product attention, softmax(scale Q K^T) V for each head (Vaswani et al., 2017), as PyTorch's
/// scaled_dot_product_attention: queries [B, T, heads * width], keys and values [B, S, key_value_heads *
/// width], the result [B, T, heads * width]. Head h lies in columns h * width to (h + 1) * width; query head
/// h reads the keys and values of head h / (heads / key_value_heads).
///
///     attention(tape, q, k, v, {.heads = 8})                                        // causal
///     attention(tape, q, k, v, {.heads = 8, .key_value_heads = 2, .causal = false, .lengths = lengths})
///     attention(tape, q, cached_k, cached_v, {.heads = 8, .first_query_position = 100})
///
/// It computes tile by tile with a running softmax (Milakov and Gimelshein, 2018; Dao, 2023): no matrix of
/// scores is kept, and memory grows with T, not with its square. Queries, keys, values and the result are of
/// the type that the policy gives to operation::Attention, gradients too; scores, probabilities, sums and
/// accumulators are float. Keys that no query sees are not read, whatever lies there, and get a gradient of
/// zero. A query that sees no key, in a sequence of length 0, gives zeros and gets zeros. The bits are the
/// same for every number of threads.
///
/// A GPU computes it by products of whole matrices, for as many queries and heads at a time as their scores
/// have room in a fixed memory. Probabilities and the gradients of scores are rounded to the operands' type
/// there before they are multiplied, as its matrix units take nothing else; their sums are float still.
///
/// Throws ConfigurationError for heads that key_value_heads does not divide, a negative position, a scale
/// that is negative or not finite; ShapeError for tensors that do not fit together or are empty and for
/// lengths that are not one from [0, S] for each sequence; nothing has been computed then.
template <class Tape, class Query, class Key, class Value>
auto attention(Tape& tape, const Query& query, const Key& key, const Value& value,
               const AttentionOptions& options) {
  using T = operation_type<typename Tape::Policy, operation::Attention>;
  const auto given_query = tape.variable(query);
  const auto given_key = tape.variable(key);
  const auto given_value = tape.variable(value);
  const auto shape =
      detail::attention_shape(given_query.shape(), given_key.shape(), given_value.shape(), options);
  const Variable<T> inputs[] = {cast<T>(tape, given_query), cast<T>(tape, given_key),
                                cast<T>(tape, given_value)};
  const auto views =
      detail::AttentionViews<const T>::separate(shape, inputs[0].data(), inputs[1].data(), inputs[2].data());
  return detail::record_attention<T>(tape, shape, inputs, views, options.lengths);
}

/// The same over one tensor [B, T, (heads + 2 key_value_heads) * width], in each row the queries of all
/// heads, then the keys, then the values, as one Linear makes them. It is read in place, and the gradient is
/// written in place.
template <class Tape, class Packed>
auto attention(Tape& tape, const Packed& query_key_value, const AttentionOptions& options) {
  using T = operation_type<typename Tape::Policy, operation::Attention>;
  const auto given = tape.variable(query_key_value);
  const auto [query, key] = detail::packed_attention_shapes(given.shape(), options);
  const auto shape = detail::attention_shape(query, key, key, options);
  const Variable<T> inputs[] = {cast<T>(tape, given)};
  const auto views = detail::AttentionViews<const T>::packed(shape, inputs[0].data());
  return detail::record_attention<T>(tape, shape, inputs, views, options.lengths);
}

}  // namespace halfstep
