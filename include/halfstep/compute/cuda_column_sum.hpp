#pragma once

#include <cstdint>

#include <halfstep/compute/cuda_for_each.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/device/arena.hpp>

namespace halfstep::compute {

namespace detail {

/// Rows that one block sums up for 256 columns, one a thread, so that neighbouring threads read neighbouring elements.
inline constexpr std::int64_t summed_rows = 64;

template <class T>
struct SumRowsOfColumns {
  Matrix<const T> values;
  std::int64_t column_blocks;
  float* partials;

  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t part = task / column_blocks;
    const std::int64_t first_column = task % column_blocks * block_threads;
    const std::int64_t begin = part * summed_rows;
    const std::int64_t end = begin + summed_rows < values.rows ? begin + summed_rows : values.rows;
    const std::int64_t left = values.columns - first_column;
    team.for_each(left < block_threads ? left : block_threads, [&](std::int64_t j) {
      const T* column = values.data + first_column + j;
      float sum = 0;
      for (std::int64_t row = begin; row < end; ++row) sum += static_cast<float>(column[row * values.leading]);
      partials[part * values.columns + first_column + j] = sum;
    });
  }
};

struct JoinColumnSums {
  const float* partials;
  std::int64_t parts;
  std::int64_t columns;
  bool accumulate;
  float* sums;

  HALFSTEP_HOST_DEVICE void operator()(std::int64_t j) const {
    float total = 0;
    for (std::int64_t part = 0; part < parts; ++part) total += partials[part * columns + j];
    sums[j] = accumulate ? sums[j] + total : total;
  }
};

}  // namespace detail

/// See column_sum.hpp.
template <class T>
void column_sum(Cuda& cuda, Arena<Cuda>& arena, Matrix<const T> values, float* sums, bool accumulate = false) {
  if (values.columns == 0) return;
  const std::int64_t parts = (values.rows + detail::summed_rows - 1) / detail::summed_rows;
  const std::int64_t column_blocks = (values.columns + detail::block_threads - 1) / detail::block_threads;
  float* const partials = arena.allocate<float>(parts * values.columns);
  detail::launch(cuda, parts * column_blocks,
                 detail::TaskOfBlock<detail::SumRowsOfColumns<T>>{{values, column_blocks, partials}});
  for_each(cuda, values.columns, detail::JoinColumnSums{partials, parts, values.columns, accumulate, sums});
}

}  // namespace halfstep::compute
