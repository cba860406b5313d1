#pragma once

#include <concepts>
#include <cstdint>
#include <halfstep/compute/matmul_tiles.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/compute/portable_kernel.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <type_traits>

namespace halfstep::detail {

/// Queries that are worked on side by side, one in each column of the kernel's result.
inline constexpr std::int64_t attention_lanes = compute::detail::kernel_columns;
/// Queries of one head that share a walk over the keys.
inline constexpr std::int64_t attention_block = 4 * attention_lanes;
/// Keys of one tile. Where tiles begin decides the bits of a result, so this is the same for every shape.
inline constexpr std::int64_t attention_key_tile = 96;
static_assert(attention_key_tile % compute::detail::kernel_rows == 0);

constexpr std::int64_t round_up(std::int64_t count, std::int64_t step) {
  return compute::detail::ceil_divide(count, step) * step;
}

/// What an attention is computed over, checked.
struct AttentionShape {
  std::int64_t batch, queries, keys;
  std::int64_t heads, key_value_heads, width;
  bool causal;
  std::int64_t first_query_position;
  float scale;
  /// Valid keys of each sequence, in the device's memory; null where all are.
  const std::int64_t* lengths;

  /// Heads of keys and values, of all sequences.
  std::int64_t items() const { return batch * key_value_heads; }
  /// Query heads that share a head of keys and values.
  HALFSTEP_HOST_DEVICE std::int64_t group() const { return heads / key_value_heads; }
  std::int64_t blocks() const { return compute::detail::ceil_divide(queries, attention_block); }
  /// Keys from the first on that a query sees. It never falls from one query to the next.
  HALFSTEP_HOST_DEVICE std::int64_t visible_keys(std::int64_t sequence, std::int64_t query) const {
    const std::int64_t length = lengths != nullptr ? lengths[sequence] : keys;
    // Written so that no position is too large.
    return causal && query < length - first_query_position - 1 ? first_query_position + query + 1 : length;
  }
};

/// One of an attention's tensors: sequences of `rows` rows, `leading` elements apart, in which each head has
/// `width` elements. A packed tensor shows three of them.
template <class T>
struct HeadsView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t leading = 0;

  /// A view that may write is also one that may only read.
  template <std::same_as<const T> U>
  requires(!std::is_const_v<T>) operator HeadsView<U>() const { return {data, rows, width, leading}; }
  compute::Matrix<T> block(std::int64_t sequence, std::int64_t head, std::int64_t first,
                           std::int64_t count) const {
    return compute::matrix(data + (sequence * rows + first) * leading + head * width, count, width, leading);
  }
};

/// Where a gradient of an attention's input goes; nowhere without data.
template <class T>
struct HeadsTarget {
  HeadsView<T> view;
  bool accumulate = false;
};

/// What the backward pass needs to know of a query's softmax: p = exp(scale (score - maximum)) / sum, over
/// the scores before scaling. Kept apart as in cross_entropy: their logarithms, added up, would lose the
/// digits of the sum to a large maximum.
struct AttentionRow {
  float maximum;
  float inverse_sum;
};

/// What each of `attention_lanes` neighbouring queries sees.
struct VisibleKeys {
  std::int64_t of[attention_lanes] = {};

  /// Columns without a query see what the last query sees: their results are finite, and not stored.
  VisibleKeys() = default;
  VisibleKeys(const AttentionShape& shape, std::int64_t sequence, std::int64_t first, std::int64_t count) {
    for (std::int64_t lane = 0; lane < attention_lanes; ++lane) {
      of[lane] = shape.visible_keys(sequence, first + (lane < count ? lane : count - 1));
    }
  }
  std::int64_t fewest() const { return of[0]; }
  std::int64_t most() const { return of[attention_lanes - 1]; }
};

/// Cuts a worker's memory into pieces. Without memory it only adds up how much there must be.
class ScratchPieces {
 public:
  explicit ScratchPieces(float* memory) : memory_(memory) {}
  float* take(std::int64_t floats) {
    float* const piece = memory_ == nullptr ? nullptr : memory_ + taken_;
    taken_ += round_up(floats, 16);
    return piece;
  }
  std::int64_t taken() const { return taken_; }

 private:
  float* memory_;
  std::int64_t taken_ = 0;
};

}  // namespace halfstep::detail
