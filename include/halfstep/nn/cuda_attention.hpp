#pragma once

/// Attention by products of whole matrices, for devices whose products are much faster than their memory.

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matmul.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/device/arena.hpp>
#include <halfstep/nn/attention_backward.hpp>
#include <halfstep/nn/attention_forward.hpp>
#include <halfstep/nn/attention_teams.hpp>
#include <halfstep/policy/operation.hpp>
#include <type_traits>

namespace halfstep::detail {

/// How many scores attention has in memory at a time, whatever the number of positions: at least one query's
/// of one item. Going forward that is 4 bytes for each and, in 16 bits, 2 more; going backward twice that.
struct AttentionMemory {
  std::int64_t scores = std::int64_t{1} << 24;
};

/// The cut of an attention into tiles, from its shape alone.
struct AttentionCut {
  std::int64_t items, queries;

  /// Scores of keys that a query does not see are computed in vain, so under a causal mask tiles are low.
  static constexpr std::int64_t causal_queries = 256;

  AttentionCut(const AttentionShape& shape, std::int64_t scores) {
    const std::int64_t row = shape.group() * round_up(keys_until(shape, shape.queries), 8);
    const std::int64_t most = shape.causal ? (std::min)(causal_queries, shape.queries) : shape.queries;
    queries = (std::clamp)(scores / row, std::int64_t{1}, most);
    items = (std::clamp)(scores / (row * queries), std::int64_t{1}, shape.items());
  }
  /// Keys that queries [0, end) may see, whatever the lengths.
  static std::int64_t keys_until(const AttentionShape& shape, std::int64_t end) {
    AttentionShape all = shape;
    all.lengths = nullptr;
    return all.visible_keys(0, end - 1);
  }
  /// Rows of the largest tile.
  std::int64_t rows(const AttentionShape& shape) const { return items * queries * shape.group(); }

  /// Calls `function(tile)` for each tile, of some items the last queries first, because they see the most
  /// keys; then `end_of_items(first, count)` for these items.
  template <class Function, class End>
  void for_each_tile(const AttentionShape& shape, const Function& function, const End& end_of_items) const {
    for (std::int64_t item = 0; item < shape.items(); item += items) {
      const std::int64_t count = (std::min)(items, shape.items() - item);
      for (std::int64_t query = (shape.queries - 1) / queries * queries; query >= 0; query -= queries) {
        const std::int64_t end = (std::min)(query + queries, shape.queries);
        const std::int64_t keys = keys_until(shape, end);
        function(AttentionTile{item, count, query, end - query, keys, round_up(keys, 8)});
      }
      end_of_items(item, count);
    }
  }
};

/// Packed copies of an attention's operands, and products of a tile with them.
template <class T, class Tape>
class AttentionProducts {
 public:
  /// For the queries, keys and values of a forward or backward call.
  template <class Call>
  AttentionProducts(Tape& tape, const Call& call)
      : tape_(tape),
        shape_(call.shape),
        mark_(tape.arena().mark()),
        key_count_(AttentionCut::keys_until(shape_, shape_.queries)),
        cut_(shape_, tape.device().template service<AttentionMemory>().scores),
        queries_(pack_queries(call.queries)),
        keys_(pack(call.keys, key_count_, true)),
        values_(pack(call.values, key_count_, true)) {}
  /// The next operation's work comes after this one's, in the same memory.
  ~AttentionProducts() { tape_.arena().rollback(mark_); }
  AttentionProducts(const AttentionProducts&) = delete;
  AttentionProducts& operator=(const AttentionProducts&) = delete;

  const AttentionCut& cut() const { return cut_; }
  /// Keys that any query may see.
  std::int64_t key_count() const { return key_count_; }

  template <class U>
  U* allocate(std::int64_t count) {
    return tape_.arena().template allocate<U>(count);
  }
  float* allocate_scores() { return allocate<float>(cut_.rows(shape_) * round_up(key_count_, 8)); }
  float* allocate_query_sums() { return allocate<float>(cut_.rows(shape_) * shape_.width); }
  float* allocate_key_sums() { return allocate<float>(cut_.items * key_count_ * shape_.width); }
  /// What is made of scores: in their place where types agree.
  T* made_of(float* scores) {
    if constexpr (std::is_same_v<T, float>) {
      return scores;
    } else {
      return allocate<T>(cut_.rows(shape_) * round_up(key_count_, 8));
    }
  }

  const T* queries() const { return queries_; }
  const T* keys() const { return keys_; }
  const T* values() const { return values_; }
  T* pack_queries(const HeadsView<const T>& from) { return pack(from, shape_.queries, false); }

  template <class Kernel>
  void run(const Kernel& kernel) {
    compute::for_each_task(tape_.device(), kernel.team_tasks(), kernel);
  }

  /// scores = (queries) (keys)^T for the tile.
  void multiply_by_keys(const AttentionTile& tile, const T* queries, const T* keys, float* scores) {
    multiply(tile, rows_of(tile, queries), keys_of(tile, keys).transposed(), of_scores(tile, scores), false);
  }
  /// sums = (scores) (values), a row for each of the tile's rows.
  void add_over_keys(const AttentionTile& tile, const T* scores, const T* values, float* sums) {
    const std::int64_t rows = tile.queries * shape_.group();
    multiply(tile, of_scores(tile, scores), keys_of(tile, values),
             compute::MatrixBatch<float>{compute::matrix(sums, rows, shape_.width), rows * shape_.width},
             false);
  }
  /// sums += (scores)^T (queries), a row for each key; the first tile of an item overwrites.
  void add_over_queries(const AttentionTile& tile, const T* scores, const T* queries, float* sums) {
    const bool is_first = tile.first_query + tile.queries == shape_.queries;
    const compute::MatrixBatch<float> all{compute::matrix(sums, tile.keys, shape_.width),
                                          key_count_ * shape_.width};
    multiply(tile, of_scores(tile, scores).transposed(), rows_of(tile, queries), all, !is_first);
  }

 private:
  T* pack(const HeadsView<const T>& from, std::int64_t rows, bool are_keys) {
    const std::int64_t heads = are_keys ? 1 : shape_.group();
    T* const to = allocate<T>(shape_.items() * rows * heads * shape_.width);
    run(PackHeads<T>{shape_, from, rows, are_keys, to});
    return to;
  }
  compute::MatrixBatch<const T> rows_of(const AttentionTile& tile, const T* packed) const {
    const std::int64_t row = shape_.group() * shape_.width, item = shape_.queries * row;
    const T* const first = packed + tile.first_item * item + tile.first_query * row;
    return {compute::matrix(first, tile.queries * shape_.group(), shape_.width), item};
  }
  compute::MatrixBatch<const T> keys_of(const AttentionTile& tile, const T* packed) const {
    const std::int64_t item = key_count_ * shape_.width;
    return {compute::matrix(packed + tile.first_item * item, tile.keys, shape_.width), item};
  }
  template <class U>
  compute::MatrixBatch<U> of_scores(const AttentionTile& tile, U* scores) const {
    const std::int64_t rows = tile.queries * shape_.group();
    return {compute::matrix(scores, rows, tile.keys, tile.leading), rows * tile.leading};
  }
  void multiply(const AttentionTile& tile, const compute::MatrixBatch<const T>& a,
                const compute::MatrixBatch<const T>& b, const compute::MatrixBatch<float>& result,
                bool accumulate) {
    compute::batched_matmul(
        tape_.device(), tile.items, a, b, result,
        {.accumulate = accumulate, .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
  }

  Tape& tape_;
  const AttentionShape& shape_;
  typename Arena<typename Tape::DeviceType>::Mark mark_;
  std::int64_t key_count_;
  AttentionCut cut_;
  const T *queries_, *keys_, *values_;
};

/// The forward pass: softmax(scale Q K^T) V for a tile of queries after another.
template <class T, class Tape>
void attend_by_products(Tape& tape, const AttentionForward<T>& call) {
  const AttentionShape& shape = call.shape;
  AttentionProducts<T, Tape> products(tape, call);
  float* const scores = products.allocate_scores();
  T* const shifted = products.made_of(scores);
  float* const sums = products.allocate_query_sums();
  const auto compute_tile = [&](const AttentionTile& tile) {
    products.multiply_by_keys(tile, products.queries(), products.keys(), scores);
    products.run(ShiftedScoreRows<T>{shape, tile, scores, shifted, call.statistics});
    products.add_over_keys(tile, shifted, products.values(), sums);
    products.run(StoreHeads<T>{shape, tile.first_item, tile.items, tile.first_query, tile.queries, tile.queries, sums,
                               1.0f, call.statistics, false, {call.output, false}});
  };
  products.cut().for_each_tile(shape, compute_tile, [](std::int64_t, std::int64_t) {});
}

/// The backward pass over the same tiles; see AttentionBackward for the formulas. Gradients of keys and
/// values are summed in float over the tiles of an item, and rounded once.
template <class T, class Tape>
void attend_backward_by_products(Tape& tape, const AttentionBackward<T>& call) {
  const AttentionShape& shape = call.shape;
  AttentionProducts<T, Tape> products(tape, call);
  const T* const outputs = products.pack_queries(call.output_gradient);
  const AttentionDeltas<T> deltas{
      shape, call.output, call.output_gradient,
      products.template allocate<float>(shape.batch * shape.heads * shape.queries)};
  products.run(deltas);
  float* const scores = products.allocate_scores();
  float* const gradients = products.allocate_scores();
  T* const probabilities = products.made_of(scores);
  T* const score_gradients = products.made_of(gradients);
  float* const query_sums = products.allocate_query_sums();
  float* const key_sums = products.allocate_key_sums();
  float* const value_sums = products.allocate_key_sums();
  const auto compute_tile = [&](const AttentionTile& tile) {
    products.multiply_by_keys(tile, products.queries(), products.keys(), scores);
    products.multiply_by_keys(tile, outputs, products.values(), gradients);
    products.run(ScoreGradientRows<T>{shape, tile, call.statistics, deltas.deltas, scores, gradients,
                                      probabilities, score_gradients});
    if (call.value_gradient.view.data != nullptr) {
      products.add_over_queries(tile, probabilities, outputs, value_sums);
    }
    if (call.key_gradient.view.data != nullptr) {
      products.add_over_queries(tile, score_gradients, products.queries(), key_sums);
    }
    if (call.query_gradient.view.data == nullptr) return;
    products.add_over_keys(tile, score_gradients, products.keys(), query_sums);
    products.run(StoreHeads<T>{shape, tile.first_item, tile.items, tile.first_query, tile.queries, tile.queries,
                               query_sums, shape.scale, nullptr, false, call.query_gradient});
  };
  const auto store_keys = [&](std::int64_t item, std::int64_t items) {
    const auto store = [&](const float* sums, float factor, const HeadsTarget<T>& to) {
      if (to.view.data == nullptr) return;
      products.run(StoreHeads<T>{shape, item, items, 0, shape.keys, products.key_count(), sums, factor, nullptr, true,
                                 to});
    };
    store(key_sums, shape.scale, call.key_gradient);
    store(value_sums, 1.0f, call.value_gradient);
  };
  products.cut().for_each_tile(shape, compute_tile, store_keys);
}

}  // namespace halfstep::detail
