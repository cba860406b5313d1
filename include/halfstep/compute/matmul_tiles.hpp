#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matmul_options.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/device/host.hpp>
#include <halfstep/numeric/convert.hpp>

namespace halfstep::compute::detail {

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A part of the result that one thread computes: rows and columns of one product of a batch.
struct Tile {
  std::int64_t item, row, column, rows, columns;
};

/// The cut of a batch of results into tiles.
struct TileGrid {
  std::int64_t count, rows, columns;
  std::int64_t tile_rows, tile_columns;

  std::int64_t down() const { return ceil_divide(rows, tile_rows); }
  std::int64_t across() const { return ceil_divide(columns, tile_columns); }
  std::int64_t tiles() const { return count * down() * across(); }
  Tile operator[](std::int64_t index) const {
    const std::int64_t item = index / (down() * across());
    const std::int64_t within = index % (down() * across());
    const std::int64_t row = within / across() * tile_rows;
    const std::int64_t column = within % across() * tile_columns;
    return {item, row, column, (std::min)(tile_rows, rows - row), (std::min)(tile_columns, columns - column)};
  }
};

/// Memory that each worker of a product computes in. It grows to what was needed most and then stays.
class MatmulScratch {
 public:
  /// Memory for `workers` times `floats` values, every worker's part aligned to 64 bytes if `floats` is a
  /// multiple of 16. The content is whatever an earlier product left.
  float* reserve(Host& host, std::int64_t workers, std::int64_t floats) {
    if (buffer_.size() < workers * floats) buffer_ = Buffer<float, Host>::uninitialized(host, workers * floats);
    return buffer_.data();
  }
  std::size_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer<float, Host> buffer_;
};

inline std::int64_t max_threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/// Calls `function(tile, scratch)` for every tile, in parallel, `scratch` being `floats` values that no other
/// call uses at the same time. Idle workers take the next tile, so that a busy core delays only its own.
template <class Function>
void for_each_tile(Host& host, const TileGrid& grid, std::int64_t floats, const Function& function) {
  const std::int64_t tiles = grid.tiles();
  const std::int64_t workers = (std::min)(tiles, max_threads());
  float* scratch = host.service<MatmulScratch>().reserve(host, workers, floats);
  std::atomic<std::int64_t> next{0};
  for_each_task(host, workers, [&](std::int64_t worker) {
    for (std::int64_t tile = next++; tile < tiles; tile = next++) {
      function(grid[tile], scratch + worker * floats);
    }
  });
}

/// Stores finished sums into a tile of the result: bias and former content are added in float, and what comes
/// out is rounded once. `sums` is overwritten.
template <class Out>
void store_tile(float* sums, std::int64_t leading, const Tile& tile, const Matrix<Out>& result,
                const MatmulOptions<Out>& options) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    float* row = sums + i * leading;
    Out* out = result.data + (tile.row + i) * result.leading + tile.column;
    if (options.bias != nullptr) {
      const Out* bias = options.bias + tile.column;
      HALFSTEP_SIMD
      for (std::int64_t j = 0; j < tile.columns; ++j) row[j] += static_cast<float>(bias[j]);
    }
    if (options.accumulate) {
      HALFSTEP_SIMD
      for (std::int64_t j = 0; j < tile.columns; ++j) row[j] += static_cast<float>(out[j]);
    }
    convert(row, out, tile.columns, Stores::cached);
  }
}

}  // namespace halfstep::compute::detail
