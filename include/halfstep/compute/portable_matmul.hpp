#pragma once

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/matmul_options.hpp>
#include <halfstep/compute/matmul_tiles.hpp>
#include <halfstep/compute/portable_kernel.hpp>
#include <halfstep/compute/portable_packing.hpp>

namespace halfstep::compute {
namespace detail {

/// The largest tile, and the part of the inner dimension that is packed at a time: a panel of b stays in the
/// first-level cache while the panels of a stream from the second. Rows and columns are multiples of the
/// kernel's.
inline constexpr std::int64_t portable_tile_rows = 768;
inline constexpr std::int64_t portable_tile_columns = 512;
inline constexpr std::int64_t portable_depth = 256;
inline constexpr std::int64_t portable_block_rows = 192;
/// Multiply-adds that are worth waking a thread for.
inline constexpr std::int64_t portable_grain = std::int64_t{1} << 17;

struct PortableScratch {
  static constexpr std::int64_t sums = portable_tile_rows * portable_tile_columns;
  static constexpr std::int64_t packed_a = portable_block_rows * portable_depth;
  static constexpr std::int64_t packed_b = portable_tile_columns * portable_depth;
  static constexpr std::int64_t room = packing_room<kernel_columns>(portable_depth);
  static constexpr std::int64_t total = sums + packed_a + packed_b + room;
};

/// Tiles of nearly equal size, as many as keep all threads busy, but none too small to pay.
inline TileGrid portable_grid(std::int64_t count, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                              std::int64_t threads) {
  std::int64_t down = ceil_divide(rows, portable_tile_rows),
               across = ceil_divide(columns, portable_tile_columns);
  const auto size = [](std::int64_t whole, std::int64_t parts, std::int64_t step) {
    return ceil_divide(ceil_divide(whole, parts), step) * step;
  };
  TileGrid grid{};
  while (true) {
    grid = {count, rows, columns, size(rows, down, kernel_rows), size(columns, across, kernel_columns)};
    const std::int64_t tiles = grid.tiles();
    const bool balanced = tiles >= 4 * threads || tiles % threads == 0;
    const bool splits_rows = rows / down >= columns / across && rows / down > kernel_rows;
    if (balanced || rows * columns * depth / (down * across) < 2 * portable_grain) return grid;
    if (!splits_rows && columns / across <= kernel_columns) return grid;
    ++(splits_rows ? down : across);
  }
}

/// sums = a * b, in packed blocks of the inner dimension. `sums` has room for the tile rounded up to whole
/// kernels. Not inlined: what is hot below has chosen its instructions already, and need not be compiled
/// twice.
template <class In>
[[gnu::noinline]] void multiply_tile(const Matrix<const In>& a, const Matrix<const In>& b, float* sums,
                                     float* scratch) {
  const MicroKernel kernel = micro_kernel();
  float* packed_a = scratch;
  float* packed_b = packed_a + PortableScratch::packed_a;
  float* room = packed_b + PortableScratch::packed_b;
  std::fill_n(sums, ceil_divide(a.rows, kernel_rows) * kernel_rows * portable_tile_columns, 0.0f);
  for (std::int64_t k = 0; k < a.columns; k += portable_depth) {
    const std::int64_t depth = (std::min)(portable_depth, a.columns - k);
    pack_panels<kernel_columns>(b.block(k, 0, depth, b.columns), packed_b, room);
    for (std::int64_t row = 0; row < a.rows; row += portable_block_rows) {
      const std::int64_t rows = (std::min)(portable_block_rows, a.rows - row);
      pack_panels<kernel_rows>(a.block(row, k, rows, depth).transposed(), packed_a, room);
      for (std::int64_t j = 0; j < b.columns; j += kernel_columns) {
        for (std::int64_t i = 0; i < rows; i += kernel_rows) {
          kernel(depth, packed_a + i * depth, packed_b + j * depth,
                 sums + (row + i) * portable_tile_columns + j, portable_tile_columns);
        }
      }
    }
  }
}

template <class In, class Out>
void portable_matmul(Host& host, std::int64_t count, const MatrixBatch<const In>& a,
                     const MatrixBatch<const In>& b, const MatrixBatch<Out>& result,
                     const MatmulOptions<Out>& options) {
  const std::int64_t depth = a.first.columns;
  const TileGrid grid = portable_grid(count, result.first.rows, result.first.columns, depth, max_threads());
  for_each_tile(host, grid, PortableScratch::total, [&](const Tile& tile, float* sums) {
    float* scratch = sums + PortableScratch::sums;
    multiply_tile(a[tile.item].block(tile.row, 0, tile.rows, depth),
                  b[tile.item].block(0, tile.column, depth, tile.columns), sums, scratch);
    store_tile(sums, portable_tile_columns, tile, result[tile.item], options);
  });
}

}  // namespace detail

/// `batched_matmul` of matmul.hpp by this library's own loops alone: packed blocks that stay in the caches,
/// and a vectorised kernel. Needs nothing but a compiler.
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
