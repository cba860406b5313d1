#pragma once

/// Products by oneDNN, versions 2 and 3. Included only where HALFSTEP_WITH_ONEDNN says that it is there.

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matmul_options.hpp>
#include <halfstep/compute/matmul_tiles.hpp>
#include <halfstep/compute/onednn_primitive.hpp>
#include <halfstep/numeric/convert.hpp>
#include <string>
#include <type_traits>

#if HALFSTEP_WITH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>

namespace halfstep::compute::detail {

/// Whether oneDNN multiplies bfloat16 at the speed of the CPU's own instructions. Without them it is several
/// times slower than float, and conversion to float pays.
inline bool onednn_has_fast_bfloat16() {
  static const bool has = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) &
                           static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16)) ==
                          static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return has;
}

/// result = a * b, or result += a * b, in float, by oneDNN's BLAS-like entry: it takes any view as it is,
/// keeps nothing between calls, and allocates less in a call than a primitive does.
inline void onednn_sgemm(const Matrix<const float>& a, const Matrix<const float>& b,
                         const Matrix<float>& result, bool accumulate) {
  const dnnl_status_t status = dnnl_sgemm(
      a.is_transposed ? 'T' : 'N', b.is_transposed ? 'T' : 'N', result.rows, result.columns, a.columns, 1.0f,
      a.data, a.leading, b.data, b.leading, accumulate ? 1.0f : 0.0f, result.data, result.leading);
  if (status != dnnl_success) {
    throw DeviceError("oneDNN: sgemm with m " + std::to_string(result.rows) + ", n " +
                      std::to_string(result.columns) + ", k " + std::to_string(a.columns) +
                      " failed with status " + std::to_string(static_cast<int>(status)));
  }
}

/// Rows that one task of an element-wise pass over a matrix takes.
inline std::int64_t rows_per_task(std::int64_t columns) {
  return (std::max)(std::int64_t{1}, 4 * chunk_size / (std::max)(std::int64_t{1}, columns));
}

/// The same matrix in float, its stored rows without gaps in `room`.
template <class T>
Matrix<const float> widen(Host& host, const Matrix<const T>& source, float* room) {
  const std::int64_t columns = source.stored_columns();
  const std::int64_t rows = source.is_transposed ? source.columns : source.rows;
  const std::int64_t step = rows_per_task(columns);
  for_each_task(host, ceil_divide(rows, step), [=](std::int64_t task) {
    for (std::int64_t i = task * step; i < (std::min)(rows, (task + 1) * step); ++i) {
      convert(source.data + i * source.leading, room + i * columns, columns, Stores::cached);
    }
  });
  return {room, source.rows, source.columns, columns, source.is_transposed};
}

/// Stores finished sums with store_tile, in parallel.
template <class Out>
void store_sums(Host& host, float* sums, const Matrix<Out>& result, const MatmulOptions<Out>& options) {
  const std::int64_t step = rows_per_task(result.columns);
  for_each_task(host, ceil_divide(result.rows, step), [=, &result, &options](std::int64_t task) {
    const std::int64_t row = task * step;
    const Tile tile{0, row, 0, (std::min)(step, result.rows - row), result.columns};
    store_tile(sums + row * result.columns, result.columns, tile, result, options);
  });
}

template <class Out>
void add_bias(Host& host, const Matrix<Out>& result, const Out* bias) {
  const std::int64_t step = rows_per_task(result.columns);
  for_each_task(host, ceil_divide(result.rows, step), [=](std::int64_t task) {
    for (std::int64_t i = task * step; i < (std::min)(result.rows, (task + 1) * step); ++i) {
      Out* row = result.data + i * result.leading;
      HALFSTEP_SIMD
      for (std::int64_t j = 0; j < result.columns; ++j) row[j] += bias[j];
    }
  });
}

/// Products whose operands become float first: exact, since float holds all 16-bit values.
template <class In, class Out>
void onednn_widened_matmul(Host& host, std::int64_t count, const MatrixBatch<const In>& a,
                           const MatrixBatch<const In>& b, const MatrixBatch<Out>& result,
                           const MatmulOptions<Out>& options) {
  const auto round_up = [](std::int64_t size) { return ceil_divide(size, 16) * 16; };
  const std::int64_t a_room = round_up(a.first.rows * a.first.columns);
  const std::int64_t b_room = round_up(b.first.rows * b.first.columns);
  const std::int64_t sums_room = std::is_same_v<Out, float> ? 0 : result.first.rows * result.first.columns;
  float* const room = host.service<MatmulScratch>().reserve(host, 1, a_room + b_room + sums_room);
  Matrix<const float> wide_a{}, wide_b{};
  for (std::int64_t item = 0; item < count; ++item) {
    if (item == 0 || a.stride != 0) wide_a = widen(host, a[item], room);
    if (item == 0 || b.stride != 0) wide_b = widen(host, b[item], room + a_room);
    if constexpr (std::is_same_v<Out, float>) {
      onednn_sgemm(wide_a, wide_b, result[item], options.accumulate);
      if (options.bias != nullptr) add_bias(host, result[item], options.bias);
    } else {
      float* const sums = room + a_room + b_room;
      onednn_sgemm(wide_a, wide_b, matrix(sums, result.first.rows, result.first.columns), false);
      store_sums(host, sums, result[item], options);
    }
  }
}

/// batched_matmul of matmul.hpp by oneDNN, for shapes that have been checked and are not empty.
template <class In, class Out>
void onednn_matmul(Host& host, std::int64_t count, const MatrixBatch<const In>& a,
                   const MatrixBatch<const In>& b, const MatrixBatch<Out>& result,
                   const MatmulOptions<Out>& options) {
  if constexpr (std::is_same_v<In, float>) {
    for (std::int64_t item = 0; item < count; ++item) {
      onednn_sgemm(a[item], b[item], result[item], options.accumulate);
      if (options.bias != nullptr) add_bias(host, result[item], options.bias);
    }
  } else {
    std::int64_t item = 0;
    if (std::is_same_v<In, bfloat16> && onednn_has_fast_bfloat16()) {
      OnednnCache& cache = host.service<OnednnCache>();
      while (item < count && cache.multiply(a[item], b[item], result[item], options)) ++item;
    }
    if (item < count) {
      onednn_widened_matmul(host, count - item, MatrixBatch<const In>{a[item], a.stride},
                            MatrixBatch<const In>{b[item], b.stride},
                            MatrixBatch<Out>{result[item], result.stride}, options);
    }
  }
}

}  // namespace halfstep::compute::detail

#endif
