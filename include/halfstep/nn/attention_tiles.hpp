#pragma once

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/matmul_tiles.hpp>
#include <halfstep/compute/portable_kernel.hpp>
#include <halfstep/compute/portable_packing.hpp>
#include <halfstep/compute/vectorize.hpp>
#include <halfstep/nn/attention_shape.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/math.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/numeric/traits.hpp>

// What the forward and the backward pass of attention do with one tile. Scores stand transposed, a key a row
// and a query a column: the kernel writes a tile of scores in the very layout in which it takes the
// probabilities in the product that follows, and the softmax over keys runs down the columns, one query in
// each vector lane.

namespace halfstep::detail {

using compute::detail::kernel_columns;
using compute::detail::kernel_rows;

/// Panels of `Width` rows of a matrix, as float: panel i begins at `i * Width * columns`. Not inlined, for
/// what is hot in it has chosen its instructions already.
template <std::int64_t Width, class T>
[[gnu::noinline]] void pack_rows(const compute::Matrix<const T>& source, float* panels, float* room) {
  compute::detail::pack_panels<Width>(source.transposed(), panels, room);
}
/// Panels of `Width` columns: panel i begins at `i * Width * rows`.
template <std::int64_t Width, class T>
[[gnu::noinline]] void pack_columns(const compute::Matrix<const T>& source, float* panels, float* room) {
  compute::detail::pack_panels<Width>(source, panels, room);
}
constexpr std::int64_t attention_packing_room(std::int64_t width) {
  return compute::detail::packing_room<kernel_columns>((std::max)(width, kernel_columns));
}

/// Queries `first` to `first + count` of one head, and how many keys are packed for them.
struct AttentionBlock {
  std::int64_t sequence, head, first, count;
  std::int64_t packed_keys;
};

/// A task of either pass: some blocks of queries, of all heads that read one head's keys.
struct AttentionTask {
  std::int64_t sequence, shared;
  std::int64_t first, end;
  /// Keys that one of the queries sees.
  std::int64_t visible;

  AttentionTask(const AttentionShape& shape, const compute::detail::Tile& tile)
      : sequence(tile.item / shape.key_value_heads),
        shared(tile.item % shape.key_value_heads),
        first(tile.row * attention_block),
        end((std::min)(first + tile.rows * attention_block, shape.queries)),
        visible(shape.visible_keys(sequence, end - 1)) {}

  template <class T>
  compute::Matrix<T> visible_rows(const HeadsView<T>& keys_or_values) const {
    return keys_or_values.block(sequence, shared, 0, visible);
  }
  template <class Function>
  void for_each_block(const AttentionShape& shape, const Function& function) const {
    for (std::int64_t begin = first; begin < end; begin += attention_block) {
      const std::int64_t count = (std::min)(attention_block, end - begin);
      for (std::int64_t i = 0; i < shape.group(); ++i) {
        function(AttentionBlock{sequence, shared * shape.group() + i, begin, count, visible});
      }
    }
  }
};

/// tile += a b for `panels` panels of a, `stride` floats apart, and one of b; the tile's rows are
/// `attention_lanes` apart.
inline void multiply_panels(compute::detail::MicroKernel kernel, std::int64_t depth, const float* a,
                            std::int64_t stride, std::int64_t panels, const float* b, float* tile) {
  for (std::int64_t i = 0; i < panels; ++i) {
    kernel(depth, a + i * stride, b, tile + i * kernel_rows * attention_lanes, attention_lanes);
  }
}

/// The scores of keys that a query does not see become -inf. `scores` are those from `first_key` on.
inline void mask_scores(float* scores, std::int64_t rows, const VisibleKeys& visible,
                        std::int64_t first_key) {
  std::uint32_t limits[attention_lanes];
  for (std::int64_t lane = 0; lane < attention_lanes; ++lane) {
    const std::int64_t limit = visible.of[lane] - first_key;
    limits[lane] = static_cast<std::uint32_t>(limit < 0 ? 0 : limit < rows ? limit : rows);
  }
  for (std::int64_t key = (std::max)(visible.fewest() - first_key, std::int64_t{0}); key < rows; ++key) {
    float* const row = scores + key * attention_lanes;
    const auto position = static_cast<std::uint32_t>(key);
    HALFSTEP_SIMD
    for (std::int64_t lane = 0; lane < attention_lanes; ++lane) {
      row[lane] = float_of(select(mask_if_less(position, limits[lane]), bits_of(row[lane]), 0xff800000u));
    }
  }
}

HALFSTEP_INLINE inline float larger(float a, float b) { return a < b ? b : a; }

/// into[lane] = combine(into[lane], the column's values). Six rows at a time, because a chain of single rows
/// would wait for its own results.
template <class Combine>
HALFSTEP_INLINE inline void combine_columns(const float* values, std::int64_t rows, float* into,
                                            const Combine& combine) {
  static_assert(kernel_rows == 6);
  constexpr std::int64_t n = attention_lanes;
  for (const float* row = values; row != values + rows * n; row += kernel_rows * n) {
    HALFSTEP_SIMD
    for (std::int64_t lane = 0; lane < n; ++lane) {
      const float* const v = row + lane;
      const float first = combine(combine(v[0], v[n]), combine(v[2 * n], v[3 * n]));
      into[lane] = combine(into[lane], combine(first, combine(v[4 * n], v[5 * n])));
    }
  }
}

/// scores = exp(scale (scores - maximum))
struct ShiftedScores {
  const float* maximum;
  float scale;
  std::int64_t rows;
  float* scores;

  void operator()() const {
    const float factor = scale;
    for (std::int64_t key = 0; key < rows; ++key) {
      float* const row = scores + key * attention_lanes;
      HALFSTEP_SIMD
      for (std::int64_t lane = 0; lane < attention_lanes; ++lane) {
        row[lane] = math::exp((row[lane] - maximum[lane]) * factor);
      }
    }
  }
};

/// The softmax of up to `attention_lanes` queries, tile by tile (Milakov and Gimelshein, Online normalizer
/// calculation for softmax, 2018).
struct OnlineSoftmax {
  float maximum[attention_lanes];
  float sum[attention_lanes];

  void begin() {
    std::fill_n(maximum, attention_lanes, -numeric_traits<float>::largest);
    std::fill_n(sum, attention_lanes, 0.0f);
  }

  /// scores = exp(scale (scores - maximum)), the maximum being that of all tiles so far. Returns whether sums
  /// over earlier tiles must be multiplied by `factors`. `rows` is a multiple of the kernel's.
  bool advance(float* scores, std::int64_t rows, float scale, float* factors) {
    float before[attention_lanes];
    std::copy_n(maximum, attention_lanes, before);
    combine_columns(scores, rows, maximum, [](float a, float b) { return larger(a, b); });
    std::uint32_t difference = 0;
    for (std::int64_t lane = 0; lane < attention_lanes; ++lane) {
      difference |= bits_of(before[lane]) ^ bits_of(maximum[lane]);
    }
    if (difference != 0) {
      HALFSTEP_SIMD
      for (std::int64_t lane = 0; lane < attention_lanes; ++lane) {
        factors[lane] = math::exp((before[lane] - maximum[lane]) * scale);
        sum[lane] *= factors[lane];
      }
    }
    call_fused(ShiftedScores{maximum, scale, rows, scores});
    combine_columns(scores, rows, sum, [](float a, float b) { return a + b; });
    return difference != 0;
  }

  /// Nothing seen: nothing is put out, and the inverse is zero. A sum that is NaN stays one.
  void inverse_sums(float* inverses) const {
    for (std::int64_t lane = 0; lane < attention_lanes; ++lane) {
      inverses[lane] = sum[lane] == 0.0f ? 0.0f : 1.0f / sum[lane];
    }
  }
};

/// Stores sums that stand transposed, a query a column: out(query, i) = sums[i][query] * factors[query], or
/// adds that. `buffer` has room for the result.
template <class T>
void store_columns(const float* sums, const float* factors, float* buffer, const compute::Matrix<T>& out,
                   bool accumulate) {
  for (std::int64_t lane = 0; lane < out.rows; ++lane) {
    float* const row = buffer + lane * out.columns;
    const float factor = factors[lane];
    for (std::int64_t i = 0; i < out.columns; ++i) row[i] = sums[i * attention_lanes + lane] * factor;
  }
  compute::detail::store_tile(buffer, out.columns, {0, 0, 0, out.rows, out.columns}, out,
                              {.accumulate = accumulate});
}

/// to[lane * kernel_rows + i] = rows[i][lane]: six rows of a tile as a panel whose inner dimension are the
/// queries. Up to two floats behind the panel are written too.
inline void transpose_rows(const float* rows, float* to) {
  const float* row[kernel_rows];
  for (std::int64_t i = 0; i < kernel_rows; ++i) row[i] = rows + i * attention_lanes;
  // The fast version stops one short of the depth, to spare what lies behind the panel.
  const std::int64_t done = compute::detail::interleave_fast<kernel_rows>(row, attention_lanes + 1, to);
  compute::detail::interleave<kernel_rows>(row, done, attention_lanes, to);
}

}  // namespace halfstep::detail
