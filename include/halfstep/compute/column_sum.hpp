#pragma once

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/compute/vectorize.hpp>
#include <halfstep/device/arena.hpp>
#include <halfstep/device/host.hpp>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep::compute {

namespace detail {

/// Rows that one task sums up: about one chunk of elements, and never so few that the partial sums are worth
/// noting.
inline std::int64_t rows_of_column_block(std::int64_t columns) {
  return (std::max)(std::int64_t{16}, chunk_size / columns);
}

/// Sums of one block of rows, in float. Four rows at a time, which shortens the chain of roundings.
template <class T>
struct ColumnSumBlock {
  Matrix<const T> values;
  std::int64_t block_rows;
  float* partials;

  void operator()(std::int64_t block) const {
    const std::int64_t columns = values.columns;
    const std::int64_t begin = block * block_rows;
    const std::int64_t end = begin + block_rows < values.rows ? begin + block_rows : values.rows;
    float* sums = partials + block * columns;
    for (std::int64_t j = 0; j < columns; ++j) sums[j] = 0.0f;
    std::int64_t row = begin;
    for (; row + 4 <= end; row += 4) {
      const T* a = values.data + row * values.leading;
      const T* b = a + values.leading;
      const T* c = b + values.leading;
      const T* d = c + values.leading;
      HALFSTEP_SIMD
      for (std::int64_t j = 0; j < columns; ++j) {
        sums[j] += (static_cast<float>(a[j]) + static_cast<float>(b[j])) +
                   (static_cast<float>(c[j]) + static_cast<float>(d[j]));
      }
    }
    for (; row < end; ++row) {
      const T* a = values.data + row * values.leading;
      HALFSTEP_SIMD
      for (std::int64_t j = 0; j < columns; ++j) sums[j] += static_cast<float>(a[j]);
    }
  }
};

/// Adds the blocks' sums up in their order, for one chunk of columns.
struct ColumnSumTotal {
  float* partials;
  std::int64_t blocks;
  std::int64_t columns;
  bool accumulate;
  float* sums;

  void operator()(std::int64_t chunk) const {
    const std::int64_t begin = chunk * chunk_size;
    const std::int64_t end = begin + chunk_size < columns ? begin + chunk_size : columns;
    for (std::int64_t block = 1; block < blocks; ++block) {
      const float* partial = partials + block * columns;
      HALFSTEP_SIMD
      for (std::int64_t j = begin; j < end; ++j) partials[j] += partial[j];
    }
    HALFSTEP_SIMD
    for (std::int64_t j = begin; j < end; ++j) {
      const float total = blocks > 0 ? partials[j] : 0.0f;
      sums[j] = accumulate ? sums[j] + total : total;
    }
  }
};

}  // namespace detail

/// sums[j] = the sum of column j, or += where `accumulate`: in float, whatever the type of the values, and
/// the same bits for every number of threads. A matrix without rows sums to zeros. `values` is no transposed
/// view; `sums` has room for one float a column and must not overlap it; partial sums come from the arena.
template <class T>
void column_sum(Host& host, Arena<Host>& arena, Matrix<const T> values, float* sums,
                bool accumulate = false) {
  if (values.columns == 0) return;
  const std::int64_t block_rows = detail::rows_of_column_block(values.columns);
  const std::int64_t blocks = (values.rows + block_rows - 1) / block_rows;
  float* partials = arena.allocate<float>(blocks * values.columns);
  for_each_chunk(host, blocks, detail::ColumnSumBlock<T>{values, block_rows, partials});
  for_each_chunk(host, (values.columns + chunk_size - 1) / chunk_size,
                 detail::ColumnSumTotal{partials, blocks, values.columns, accumulate, sums});
}

}  // namespace halfstep::compute

#if HALFSTEP_WITH_CUDA
#include <halfstep/compute/cuda_column_sum.hpp>
#endif
