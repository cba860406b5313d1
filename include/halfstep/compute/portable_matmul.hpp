#pragma once

#include <algorithm>
#include <cstdint>

#include <halfstep/compute/matmul_options.hpp>
#include <halfstep/compute/matmul_tiles.hpp>
#include <halfstep/compute/portable_kernel.hpp>
#include <halfstep/compute/portable_packing.hpp>

namespace halfstep::compute {
namespace detail {

/// A tile of the result, the panels of a and of b that it needs at a time: together they fit the second-level cache.
/// Rows and columns are multiples of the micro-kernel's.
inline constexpr std::int64_t portable_tile_rows = 96;
inline constexpr std::int64_t portable_tile_columns = 256;
inline constexpr std::int64_t portable_depth = 256;
/// Multiply-adds that are worth a thread's attention.
inline constexpr std::int64_t portable_grain = std::int64_t{1} << 18;

inline constexpr std::int64_t portable_scratch =
    portable_tile_rows * portable_tile_columns + portable_tile_rows * portable_depth +
    portable_tile_columns * portable_depth + portable_depth;

inline TileGrid portable_grid(std::int64_t count, std::int64_t rows, std::int64_t columns,
                              std::int64_t depth) {
  TileGrid grid{count, rows, columns, portable_tile_rows, portable_tile_columns};
  while (grid.tile_rows > kernel_rows && grid.tiles() < 16 &&
         (std::min)(grid.tile_rows, rows) * (std::min)(grid.tile_columns, columns) * depth > portable_grain) {
    grid.tile_rows = ceil_divide((std::min)(grid.tile_rows, rows) / 2, kernel_rows) * kernel_rows;
  }
  return grid;
}

/// sums = a * b, in packed blocks of the inner dimension. `sums` has room for the tile rounded up to whole kernels.
template <class In>
void multiply_tile(const Matrix<const In>& a, const Matrix<const In>& b, float* sums, float* scratch) {
  const MicroKernel kernel = micro_kernel();
  float* packed_a = scratch;
  float* packed_b = packed_a + portable_tile_rows * portable_depth;
  float* line = packed_b + portable_tile_columns * portable_depth;
  const std::int64_t rows = ceil_divide(a.rows, kernel_rows) * kernel_rows;
  std::fill_n(sums, rows * portable_tile_columns, 0.0f);
  for (std::int64_t k = 0; k < a.columns; k += portable_depth) {
    const std::int64_t depth = (std::min)(portable_depth, a.columns - k);
    pack_panels<kernel_rows>(a.block(0, k, a.rows, depth).transposed(), packed_a, line);
    pack_panels<kernel_columns>(b.block(k, 0, depth, b.columns), packed_b, line);
    for (std::int64_t j = 0; j < b.columns; j += kernel_columns) {
      for (std::int64_t i = 0; i < rows; i += kernel_rows) {
        kernel(depth, packed_a + i * depth, packed_b + j * depth, sums + i * portable_tile_columns + j,
               portable_tile_columns);
      }
    }
  }
}

template <class In, class Out>
void portable_matmul(Host& host, std::int64_t count, const MatrixBatch<const In>& a,
                     const MatrixBatch<const In>& b, const MatrixBatch<Out>& result,
                     const MatmulOptions<Out>& options) {
  const std::int64_t depth = a.first.columns;
  const TileGrid grid = portable_grid(count, result.first.rows, result.first.columns, depth);
  for_each_tile(host, grid, portable_scratch, [&](const Tile& tile, float* sums) {
    float* scratch = sums + portable_tile_rows * portable_tile_columns;
    multiply_tile(a[tile.item].block(tile.row, 0, tile.rows, depth),
                  b[tile.item].block(0, tile.column, depth, tile.columns), sums, scratch);
    store_tile(sums, portable_tile_columns, tile, result[tile.item], options);
  });
}

}  // namespace detail

/// `batched_matmul` of matmul.hpp by this library's own loops alone: packed blocks that stay in the caches, and a
/// vectorised kernel. Needs nothing but a compiler.
template <class A, class B, class Out>
  requires MatmulTypes<A, B, Out>
void portable_batched_matmul(Host& host, std::int64_t count, MatrixBatch<A> a, MatrixBatch<B> b,
                             MatrixBatch<Out> result, std::type_identity_t<MatmulOptions<Out>> options = {}) {
  detail::check_batched_matmul(count, a, b, result);
  if (count == 0 || result.first.rows == 0 || result.first.columns == 0) return;
  detail::portable_matmul<std::remove_const_t<A>, Out>(host, count, a, b, result, options);
}

/// `matmul` of matmul.hpp, likewise.
template <class A, class B, class Out>
  requires MatmulTypes<A, B, Out>
void portable_matmul(Host& host, Matrix<A> a, Matrix<B> b, Matrix<Out> result,
                     std::type_identity_t<MatmulOptions<Out>> options = {}) {
  portable_batched_matmul(host, 1, MatrixBatch<A>{a}, MatrixBatch<B>{b}, MatrixBatch<Out>{result}, options);
}

}  // namespace halfstep::compute
