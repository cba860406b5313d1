#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include <halfstep/compute/matrix.hpp>
#include <halfstep/numeric/convert.hpp>

namespace halfstep::compute::detail {

/// to[k * Width + j] = rows[j][k] for k in [begin, depth).
template <std::int64_t Width>
void interleave(const float* const* rows, std::int64_t begin, std::int64_t depth, float* to) {
  for (std::int64_t k = begin; k < depth; ++k) {
    for (std::int64_t j = 0; j < Width; ++j) to[k * Width + j] = rows[j][k];
  }
}

#if defined(__x86_64__) && defined(__GNUC__)

/// The same from 0 on, eight rows by eight values at a time; returns where it stopped. A panel narrower than
/// eight is written with stores that reach into the next step, which overwrites them.
template <std::int64_t Width>
__attribute__((target("avx2"))) std::int64_t interleave_avx2(const float* const* rows, std::int64_t depth,
                                                             float* to) {
  std::int64_t k = 0;
  for (; k + 8 < depth; k += 8) {
    for (std::int64_t first = 0; first < Width; first += 8) {
      __m256 in[8], pairs[8], quads[8];
      for (std::int64_t i = 0; i < 8; ++i) {
        in[i] = _mm256_loadu_ps(rows[first + i < Width ? first + i : Width - 1] + k);
      }
      for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(in[i], in[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(in[i], in[i + 1]);
      }
      for (int i = 0; i < 8; i += 4) {
        quads[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
        quads[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
        quads[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
        quads[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
      }
      float* out = to + k * Width + first;
      for (int i = 0; i < 4; ++i) {
        _mm256_storeu_ps(out + i * Width, _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20));
      }
      for (int i = 0; i < 4; ++i) {
        _mm256_storeu_ps(out + (i + 4) * Width, _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31));
      }
    }
  }
  return k;
}

template <std::int64_t Width>
std::int64_t interleave_fast(const float* const* rows, std::int64_t depth, float* to) {
  return __builtin_cpu_supports("avx2") ? interleave_avx2<Width>(rows, depth, to) : 0;
}

#else

template <std::int64_t Width>
std::int64_t interleave_fast(const float* const*, std::int64_t, float*) {
  return 0;
}

#endif

/// The values of `source` as floats: themselves, or `room` filled with their conversion.
template <class T>
const float* as_floats(const T* source, std::int64_t count, float* room) {
  if constexpr (std::is_same_v<T, float>) {
    return source;
  } else {
    convert(source, room, count, Stores::cached);
    return room;
  }
}

/// Floats that pack_panels needs to work in, for a matrix whose longer side is `side`.
template <std::int64_t Width>
constexpr std::int64_t packing_room(std::int64_t side) {
  return (Width + 1) * side;
}

/// Packs a matrix of depth x width, as float, into panels of `Width` columns: the panel's row k is Width
/// values that lie together, rows follow each other, panels follow each other. Missing columns of the last
/// panel are zeros.
template <std::int64_t Width, class T>
void pack_panels(const Matrix<T>& source, float* panels, float* room) {
  const std::int64_t depth = source.rows, width = source.columns;
  if (source.is_transposed) {
    float* zeros = room + Width * depth;
    if (width % Width != 0) std::fill_n(zeros, depth, 0.0f);
    for (std::int64_t column = 0; column < width; column += Width) {
      const float* rows[Width];
      for (std::int64_t j = 0; j < Width; ++j) {
        rows[j] = column + j < width
                      ? as_floats(source.data + (column + j) * source.leading, depth, room + j * depth)
                      : zeros;
      }
      float* to = panels + column * depth;
      interleave<Width>(rows, interleave_fast<Width>(rows, depth, to), depth, to);
    }
    return;
  }
  // A few panels at a time: rows of many panels would meet in the same sets of the first-level cache.
  constexpr std::int64_t group = 64 / Width * Width;
  for (std::int64_t first = 0; first < width; first += group) {
    const std::int64_t columns = (std::min)(group, width - first);
    for (std::int64_t k = 0; k < depth; ++k) {
      const float* from = as_floats(source.data + k * source.leading + first, columns, room);
      float* to = panels + first * depth + k * Width;
      std::int64_t column = 0;
      // Of a constant size, so that it is a few moves and no call.
      for (; column + Width <= columns; column += Width)
        std::memcpy(to + column * depth, from + column, Width * sizeof(float));
      if (column < columns) {
        std::fill(std::copy(from + column, from + columns, to + column * depth), to + column * depth + Width,
                  0.0f);
      }
    }
  }
}

}  // namespace halfstep::compute::detail
