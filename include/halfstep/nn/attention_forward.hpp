#pragma once

#include <algorithm>
#include <cstdint>
#include <halfstep/nn/attention_shape.hpp>
#include <halfstep/nn/attention_tiles.hpp>

namespace halfstep::detail {

/// What one worker of the forward pass computes in.
struct AttentionForwardScratch {
  float *keys, *values;   // panels of one head's keys, and of its values by columns
  float *queries, *sums;  // of one block: panels of queries, results so far (transposed)
  float *scores, *buffer, *room;
  std::int64_t floats;

  AttentionForwardScratch(const AttentionShape& shape, float* memory) {
    const std::int64_t width = shape.width, rounded = round_up(width, kernel_rows);
    ScratchPieces pieces(memory);
    keys = pieces.take(round_up(shape.keys, kernel_rows) * width);
    values = pieces.take(shape.keys * rounded);
    queries = pieces.take(attention_block * width);
    sums = pieces.take(attention_block * rounded);
    scores = pieces.take(attention_key_tile * attention_lanes);
    buffer = pieces.take(attention_lanes * width);
    room = pieces.take(attention_packing_room(width));
    floats = pieces.taken();
  }
};

/// softmax(scale Q K^T) V by tiles of keys, as in Dao, FlashAttention-2 (2023).
template <class T>
struct AttentionForward {
  AttentionShape shape;
  HeadsView<const T> queries, keys, values;
  HeadsView<T> output;
  AttentionRow* statistics;  // [batch, heads, queries]

  std::int64_t scratch_floats() const { return AttentionForwardScratch(shape, nullptr).floats; }

  /// A task is some blocks of queries, with all heads that share the keys. No bit depends on how many blocks:
  /// as many as keep all threads busy.
  compute::detail::TileGrid grid(std::int64_t threads) const {
    const std::int64_t items = shape.batch * shape.key_value_heads;
    const std::int64_t parts = items >= 4 * threads ? 1 : compute::detail::ceil_divide(4 * threads, items);
    return {items, shape.blocks(), 1, compute::detail::ceil_divide(shape.blocks(), parts), 1};
  }

  void operator()(const compute::detail::Tile& tile, float* memory) const {
    const AttentionTask task(shape, tile);
    const AttentionForwardScratch scratch(shape, memory);
    pack_rows<kernel_rows, T>(task.visible_rows(keys), scratch.keys, scratch.room);
    pack_columns<kernel_rows, T>(task.visible_rows(values), scratch.values, scratch.room);
    task.for_each_block(shape, [&](const AttentionBlock& block) { compute_block(block, scratch); });
  }

 private:
  void compute_block(const AttentionBlock& block, const AttentionForwardScratch& scratch) const {
    const std::int64_t panels = compute::detail::ceil_divide(block.count, attention_lanes);
    const std::int64_t sums_size = round_up(shape.width, kernel_rows) * attention_lanes;
    OnlineSoftmax softmax[attention_block / attention_lanes];
    VisibleKeys visible[attention_block / attention_lanes];
    pack_rows<kernel_columns, T>(queries.block(block.sequence, block.head, block.first, block.count),
                                 scratch.queries, scratch.room);
    std::fill_n(scratch.sums, panels * sums_size, 0.0f);
    for (std::int64_t p = 0; p < panels; ++p) {
      softmax[p].begin();
      const std::int64_t lane = p * attention_lanes;
      visible[p] = VisibleKeys(shape, block.sequence, block.first + lane, block.count - lane);
    }
    for (std::int64_t key = 0; key < visible[panels - 1].most(); key += attention_key_tile) {
      for (std::int64_t p = 0; p < panels; ++p) {
        if (visible[p].most() <= key) continue;
        add_tile(block, scratch, visible[p], key, scratch.queries + p * attention_lanes * shape.width,
                 softmax[p], scratch.sums + p * sums_size);
      }
    }
    for (std::int64_t p = 0; p < panels; ++p) {
      store(block, scratch, p * attention_lanes, softmax[p], scratch.sums + p * sums_size);
    }
  }

  void add_tile(const AttentionBlock& block, const AttentionForwardScratch& scratch, const VisibleKeys& visible,
                std::int64_t key, const float* query_panel, OnlineSoftmax& softmax, float* sums) const {
    const auto kernel = compute::detail::micro_kernel();
    const std::int64_t count = (std::min)(attention_key_tile, visible.most() - key);
    const std::int64_t rows = round_up(count, kernel_rows);
    std::fill_n(scratch.scores, rows * attention_lanes, 0.0f);
    multiply_panels(kernel, shape.width, scratch.keys + key * shape.width, kernel_rows * shape.width,
                    rows / kernel_rows, query_panel, scratch.scores);
    mask_scores(scratch.scores, rows, visible, key);
    const std::int64_t panels = compute::detail::ceil_divide(shape.width, kernel_rows);
    float factors[attention_lanes];
    if (softmax.advance(scratch.scores, rows, shape.scale, factors) && key != 0) {
      for (std::int64_t i = 0; i < panels * kernel_rows; ++i) {
        HALFSTEP_SIMD
        for (std::int64_t lane = 0; lane < attention_lanes; ++lane)
          sums[i * attention_lanes + lane] *= factors[lane];
      }
    }
    multiply_panels(kernel, count, scratch.values + key * kernel_rows, kernel_rows * block.packed_keys,
                    panels, scratch.scores, sums);
  }

  void store(const AttentionBlock& block, const AttentionForwardScratch& scratch, std::int64_t lane,
             const OnlineSoftmax& softmax, const float* sums) const {
    const std::int64_t first = block.first + lane, count = (std::min)(attention_lanes, block.count - lane);
    float inverses[attention_lanes];
    softmax.inverse_sums(inverses);
    store_columns(sums, inverses, scratch.buffer, output.block(block.sequence, block.head, first, count),
                  false);
    AttentionRow* const row =
        statistics + (block.sequence * shape.heads + block.head) * shape.queries + first;
    for (std::int64_t i = 0; i < count; ++i) row[i] = {softmax.maximum[i], inverses[i]};
  }
};

}  // namespace halfstep::detail
