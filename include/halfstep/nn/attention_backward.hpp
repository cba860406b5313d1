#pragma once

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/nn/attention_shape.hpp>
#include <halfstep/nn/attention_tiles.hpp>
#include <halfstep/nn/variable.hpp>

namespace halfstep::detail {

/// What one worker of the backward pass computes in. A panel of probabilities by keys has room for what
/// transposing writes behind it.
struct AttentionBackwardScratch {
  static constexpr std::int64_t panels = attention_block / attention_lanes;
  static constexpr std::int64_t by_keys = attention_block * kernel_rows + 8;
  static constexpr std::int64_t tile = attention_key_tile * attention_lanes;

  float *keys, *key_columns, *values;  // panels of one head
  float *key_sums, *value_sums;        // gradients of its keys and values, so far
  float *queries, *query_columns, *outputs,
      *output_columns;                            // panels of one block's queries and output gradients
  float* query_sums;                              // gradients of its queries so far, transposed
  float *probabilities, *scores;                  // one tile, and the gradients of its scores
  float *probabilities_by_keys, *scores_by_keys;  // the same of four tiles, transposed
  float *buffer, *room;
  std::int64_t floats;

  AttentionBackwardScratch(const AttentionShape& shape, float* memory) {
    const std::int64_t width = shape.width, rows = round_up(width, kernel_rows),
                       columns = round_up(width, kernel_columns);
    const std::int64_t all_keys = round_up(shape.keys, kernel_rows);
    ScratchPieces pieces(memory);
    keys = pieces.take(all_keys * width);
    key_columns = pieces.take(shape.keys * rows);
    values = pieces.take(all_keys * width);
    key_sums = pieces.take(all_keys * columns);
    value_sums = pieces.take(all_keys * columns);
    queries = pieces.take(attention_block * width);
    query_columns = pieces.take(attention_block * columns);
    outputs = pieces.take(attention_block * width);
    output_columns = pieces.take(attention_block * columns);
    query_sums = pieces.take(attention_block * rows);
    probabilities = pieces.take(tile);
    scores = pieces.take(tile);
    probabilities_by_keys = pieces.take(attention_key_tile / kernel_rows * by_keys);
    scores_by_keys = pieces.take(attention_key_tile / kernel_rows * by_keys);
    buffer = pieces.take(attention_lanes * width);
    room = pieces.take(attention_packing_room(width));
    floats = pieces.taken();
  }
};

/// P = exp(scale (S - maximum)) / sum in the place of S, and dS = P (dP - delta) in the place of dP.
struct ScoreGradients {
  const float *maximum, *inverse_sum, *delta;
  float scale;
  std::int64_t rows;
  float *probabilities, *gradients;

  void operator()() const {
    const float factor = scale;
    for (std::int64_t key = 0; key < rows; ++key) {
      float* const p = probabilities + key * attention_lanes;
      float* const s = gradients + key * attention_lanes;
      HALFSTEP_SIMD
      for (std::int64_t lane = 0; lane < attention_lanes; ++lane) {
        p[lane] = math::exp((p[lane] - maximum[lane]) * factor) * inverse_sum[lane];
        s[lane] = p[lane] * (s[lane] - delta[lane]);
      }
    }
  }
};

/// The tiles of the forward pass once more (Dao, FlashAttention-2, 2023): with P recomputed, dV = P^T dO,
/// dS = P (dO V^T - rowsum(dO O)), dQ = scale dS K, dK = scale dS^T Q.
template <class T>
struct AttentionBackward {
  AttentionShape shape;
  HeadsView<const T> queries, keys, values, output, output_gradient;
  const AttentionRow* statistics;
  HeadsTarget<T> query_gradient, key_gradient, value_gradient;
  /// Where heads are few, parts of the queries are tasks of their own: their sums over queries come together
  /// here, [batch * key_value_heads, parts, 2, partial_size()].
  float* partials = nullptr;

  /// From the shape alone, so that sums come together in the same order whatever the number of threads.
  static compute::detail::TileGrid grid(const AttentionShape& shape) {
    constexpr std::int64_t enough_tasks = 8;
    const std::int64_t items = shape.batch * shape.key_value_heads;
    const std::int64_t parts = compute::detail::ceil_divide(enough_tasks, items);
    return {items, shape.blocks(), 1, compute::detail::ceil_divide(shape.blocks(), parts), 1};
  }
  static std::int64_t partial_size(const AttentionShape& shape) {
    return round_up(shape.keys, kernel_rows) * round_up(shape.width, kernel_columns);
  }
  static std::int64_t partials_size(const AttentionShape& shape) {
    const auto tasks = grid(shape);
    return tasks.down() == 1 ? 0 : 2 * tasks.tiles() * partial_size(shape);
  }

  void operator()(const compute::detail::Tile& tile, float* memory) const {
    const AttentionTask task(shape, tile);
    AttentionBackwardScratch scratch(shape, memory);
    if (partials != nullptr) {
      const auto tasks = grid(shape);
      const std::int64_t part = tile.item * tasks.down() + tile.row / tasks.tile_rows;
      scratch.key_sums = partials + 2 * part * partial_size(shape);
      scratch.value_sums = scratch.key_sums + partial_size(shape);
    }
    std::fill_n(scratch.key_sums, partial_size(shape), 0.0f);
    std::fill_n(scratch.value_sums, partial_size(shape), 0.0f);
    pack_rows<kernel_rows, T>(task.visible_rows(keys), scratch.keys, scratch.room);
    pack_columns<kernel_rows, T>(task.visible_rows(keys), scratch.key_columns, scratch.room);
    pack_rows<kernel_rows, T>(task.visible_rows(values), scratch.values, scratch.room);
    task.for_each_block(shape, [&](const AttentionBlock& block) { compute_block(block, scratch); });
    if (partials == nullptr) {
      store_sums(scratch.key_sums, shape.scale, key_gradient, task.sequence, task.shared, 0, shape.keys);
      store_sums(scratch.value_sums, 1.0f, value_gradient, task.sequence, task.shared, 0, shape.keys);
    }
  }

  /// Adds up the parts of a block of keys, in their order. For tasks in [0, batch * key_value_heads *
  /// key_blocks()).
  std::int64_t key_blocks() const { return compute::detail::ceil_divide(shape.keys, attention_block); }
  void finish(std::int64_t task) const {
    const std::int64_t item = task / key_blocks(), first = task % key_blocks() * attention_block;
    const std::int64_t count = (std::min)(attention_block, shape.keys - first);
    const std::int64_t columns = round_up(shape.width, kernel_columns), parts = grid(shape).down();
    for (const bool of_keys : {true, false}) {
      float* const sums = partials + (2 * item * parts + (of_keys ? 0 : 1)) * partial_size(shape);
      for (std::int64_t part = 1; part < parts; ++part) {
        const float* const more = sums + 2 * part * partial_size(shape);
        HALFSTEP_SIMD
        for (std::int64_t i = first * columns; i < (first + count) * columns; ++i) sums[i] += more[i];
      }
      store_sums(sums, of_keys ? shape.scale : 1.0f, of_keys ? key_gradient : value_gradient,
                 item / shape.key_value_heads, item % shape.key_value_heads, first, count);
    }
  }

 private:
  /// What is known of a block's queries, one in each lane.
  struct Lanes {
    float maximum[attention_block];
    float inverse_sum[attention_block];
    float delta[attention_block];
  };

  void compute_block(const AttentionBlock& block, const AttentionBackwardScratch& scratch) const {
    constexpr std::int64_t most_panels = AttentionBackwardScratch::panels;
    const std::int64_t panels = compute::detail::ceil_divide(block.count, attention_lanes);
    const auto query_rows = queries.block(block.sequence, block.head, block.first, block.count);
    const auto gradient_rows = output_gradient.block(block.sequence, block.head, block.first, block.count);
    pack_rows<kernel_columns, T>(query_rows, scratch.queries, scratch.room);
    pack_columns<kernel_columns, T>(query_rows, scratch.query_columns, scratch.room);
    pack_rows<kernel_columns, T>(gradient_rows, scratch.outputs, scratch.room);
    pack_columns<kernel_columns, T>(gradient_rows, scratch.output_columns, scratch.room);
    Lanes lanes;
    fill(lanes, block, gradient_rows, scratch.room);
    VisibleKeys visible[most_panels];
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t lane = p * attention_lanes;
      visible[p] = VisibleKeys(shape, block.sequence, block.first + lane, block.count - lane);
    }
    const std::int64_t sums_size = round_up(shape.width, kernel_rows) * attention_lanes;
    std::fill_n(scratch.query_sums, panels * sums_size, 0.0f);
    for (std::int64_t key = 0; key < visible[panels - 1].most(); key += attention_key_tile) {
      std::int64_t rows[most_panels];
      for (std::int64_t p = 0; p < panels; ++p) {
        const std::int64_t count = (std::min)(attention_key_tile, visible[p].most() - key);
        rows[p] = count <= 0 ? 0 : round_up(count, kernel_rows);
        if (rows[p] == 0) continue;
        compute_tile(scratch, lanes, visible[p], key, rows[p], p);
        multiply_panels(compute::detail::micro_kernel(), count, scratch.key_columns + key * kernel_rows,
                        kernel_rows * block.packed_keys,
                        compute::detail::ceil_divide(shape.width, kernel_rows), scratch.scores,
                        scratch.query_sums + p * sums_size);
      }
      add_over_queries(scratch, block.count, key, rows, panels);
    }
    if (query_gradient.view.data == nullptr) return;
    float scales[attention_lanes];
    std::fill_n(scales, attention_lanes, shape.scale);
    for (std::int64_t p = 0; p < panels; ++p) {
      const std::int64_t lane = p * attention_lanes, count = (std::min)(attention_lanes, block.count - lane);
      store_columns(scratch.query_sums + p * sums_size, scales, scratch.buffer,
                    query_gradient.view.block(block.sequence, block.head, block.first + lane, count),
                    query_gradient.accumulate);
    }
  }

  void fill(Lanes& lanes, const AttentionBlock& block, const compute::Matrix<const T>& gradient_rows,
            float* room) const {
    const AttentionRow* const row =
        statistics + (block.sequence * shape.heads + block.head) * shape.queries + block.first;
    const auto output_rows = output.block(block.sequence, block.head, block.first, block.count);
    for (std::int64_t lane = 0; lane < attention_block; ++lane) {
      const bool is_query = lane < block.count;
      lanes.maximum[lane] = is_query ? row[lane].maximum : 0.0f;
      lanes.inverse_sum[lane] = is_query ? row[lane].inverse_sum : 0.0f;
      lanes.delta[lane] = is_query ? dot(&output_rows(lane, 0), &gradient_rows(lane, 0), room) : 0.0f;
    }
  }
  float dot(const T* a, const T* b, float* room) const {
    const float* const left = compute::detail::as_floats(a, shape.width, room);
    const float* const right = compute::detail::as_floats(b, shape.width, room + shape.width);
    return compute::detail::reduce_range(
        0, shape.width, [left, right](std::int64_t i) { return left[i] * right[i]; }, 0.0f, compute::Plus{});
  }

  /// P and dS of one tile, as they are and by keys.
  void compute_tile(const AttentionBackwardScratch& scratch, const Lanes& lanes, const VisibleKeys& visible,
                    std::int64_t key, std::int64_t rows_of_tile, std::int64_t panel) const {
    const auto kernel = compute::detail::micro_kernel();
    const std::int64_t width = shape.width, panels = rows_of_tile / kernel_rows;
    const std::int64_t offset = panel * attention_lanes * width;
    std::fill_n(scratch.probabilities, rows_of_tile * attention_lanes, 0.0f);
    multiply_panels(kernel, width, scratch.keys + key * width, kernel_rows * width, panels,
                    scratch.queries + offset, scratch.probabilities);
    mask_scores(scratch.probabilities, rows_of_tile, visible, key);
    std::fill_n(scratch.scores, rows_of_tile * attention_lanes, 0.0f);
    multiply_panels(kernel, width, scratch.values + key * width, kernel_rows * width, panels,
                    scratch.outputs + offset, scratch.scores);
    const std::int64_t lane = panel * attention_lanes;
    call_fused(ScoreGradients{lanes.maximum + lane, lanes.inverse_sum + lane, lanes.delta + lane, shape.scale,
                              rows_of_tile, scratch.probabilities, scratch.scores});
    for (std::int64_t i = 0; i < panels; ++i) {
      const std::int64_t from = i * kernel_rows * attention_lanes;
      const std::int64_t to = i * AttentionBackwardScratch::by_keys + panel * attention_lanes * kernel_rows;
      transpose_rows(scratch.probabilities + from, scratch.probabilities_by_keys + to);
      transpose_rows(scratch.scores + from, scratch.scores_by_keys + to);
    }
  }

  /// Adds a block's part to the gradients of a tile of keys and values. Of each panel of keys only the
  /// queries from the first that sees one of them on; `rows` says how many keys each panel of queries sees.
  void add_over_queries(const AttentionBackwardScratch& scratch, std::int64_t count, std::int64_t key,
                        const std::int64_t* rows, std::int64_t panels) const {
    const auto kernel = compute::detail::micro_kernel();
    const std::int64_t columns = round_up(shape.width, kernel_columns);
    std::int64_t panel = 0;
    for (std::int64_t row = 0; row < rows[panels - 1]; row += kernel_rows) {
      while (rows[panel] <= row) ++panel;
      const std::int64_t lane = panel * attention_lanes;
      const std::int64_t from = row / kernel_rows * AttentionBackwardScratch::by_keys + lane * kernel_rows;
      for (std::int64_t column = 0; column < columns; column += kernel_columns) {
        const std::int64_t right = column * count + lane * kernel_columns,
                           to = (key + row) * columns + column;
        kernel(count - lane, scratch.probabilities_by_keys + from, scratch.output_columns + right,
               scratch.value_sums + to, columns);
        kernel(count - lane, scratch.scores_by_keys + from, scratch.query_columns + right,
               scratch.key_sums + to, columns);
      }
    }
  }

  void store_sums(float* sums, float scale, const HeadsTarget<T>& target, std::int64_t sequence,
                  std::int64_t head, std::int64_t first, std::int64_t count) const {
    if (target.view.data == nullptr) return;
    const std::int64_t columns = round_up(shape.width, kernel_columns);
    float* const begin = sums + first * columns;
    HALFSTEP_SIMD
    for (std::int64_t i = 0; i < count * columns; ++i) begin[i] *= scale;
    compute::detail::store_tile(begin, columns, {0, 0, 0, count, shape.width},
                                target.view.block(sequence, head, first, count),
                                {.accumulate = target.accumulate});
  }
};

}  // namespace halfstep::detail
