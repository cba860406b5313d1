#pragma once

#include <cstdint>

#include <halfstep/compute/matrix.hpp>
#include <halfstep/compute/vectorize.hpp>

namespace halfstep::compute::detail {

/// The values of `source` as floats: itself, or `line` filled with their conversion.
inline const float* as_floats(const float* source, std::int64_t, float*) { return source; }
template <class T>
const float* as_floats(const T* source, std::int64_t count, float* line) {
  HALFSTEP_SIMD
  for (std::int64_t i = 0; i < count; ++i) line[i] = static_cast<float>(source[i]);
  return line;
}

/// Packs a matrix of depth x width, as float, into panels of `Width` columns: the panel's row k is Width values that
/// lie together, rows follow each other, panels follow each other. Missing columns of the last panel are zeros.
/// `line` is room for the longer side.
template <std::int64_t Width, class T>
void pack_panels(const Matrix<T>& source, float* panels, float* line) {
  const std::int64_t depth = source.rows, width = source.columns;
  const std::int64_t padded = (width + Width - 1) / Width * Width;
  if (source.is_transposed) {
    for (std::int64_t column = 0; column < padded; ++column) {
      float* to = panels + column / Width * Width * depth + column % Width;
      if (column < width) {
        const float* from = as_floats(source.data + column * source.leading, depth, line);
        for (std::int64_t k = 0; k < depth; ++k) to[k * Width] = from[k];
      } else {
        for (std::int64_t k = 0; k < depth; ++k) to[k * Width] = 0.0f;
      }
    }
    return;
  }
  const std::int64_t whole = width / Width * Width;
  for (std::int64_t k = 0; k < depth; ++k) {
    const float* from = as_floats(source.data + k * source.leading, width, line);
    for (std::int64_t column = 0; column < whole; column += Width) {
      float* to = panels + column * depth + k * Width;
      for (std::int64_t j = 0; j < Width; ++j) to[j] = from[column + j];
    }
    if (whole < width) {
      float* to = panels + whole * depth + k * Width;
      for (std::int64_t j = 0; j < Width; ++j) to[j] = whole + j < width ? from[whole + j] : 0.0f;
    }
  }
}

}  // namespace halfstep::compute::detail
