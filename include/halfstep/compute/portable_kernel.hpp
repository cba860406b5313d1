#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include <halfstep/compute/vectorize.hpp>

namespace halfstep::compute::detail {

/// The innermost product: `kernel_rows` rows of a by `kernel_columns` columns of b fill the vector registers
/// of AVX2.
inline constexpr std::int64_t kernel_rows = 6;
inline constexpr std::int64_t kernel_columns = 16;

/// tile += a * b for one panel of a and one of b, both packed so that what step k needs lies together: `a`
/// holds kernel_rows values a step, `b` kernel_columns. Every element of the tile is one chain of additions
/// in the order of k, so its bits do not depend on how the matrices were cut.
using MicroKernel = void (*)(std::int64_t depth, const float* a, const float* b, float* tile,
                             std::int64_t leading);

inline void portable_micro_kernel(std::int64_t depth, const float* a, const float* b, float* tile,
                                  std::int64_t leading) {
  constexpr std::int64_t lanes = 4;
  for (std::int64_t column = 0; column < kernel_columns; column += lanes) {
    float sums[kernel_rows][lanes];
    for (std::int64_t i = 0; i < kernel_rows; ++i) {
      for (std::int64_t j = 0; j < lanes; ++j) sums[i][j] = tile[i * leading + column + j];
    }
    for (std::int64_t k = 0; k < depth; ++k) {
      const float* left = a + k * kernel_rows;
      const float* right = b + k * kernel_columns + column;
      for (std::int64_t i = 0; i < kernel_rows; ++i) {
        for (std::int64_t j = 0; j < lanes; ++j) sums[i][j] += left[i] * right[j];
      }
    }
    for (std::int64_t i = 0; i < kernel_rows; ++i) {
      for (std::int64_t j = 0; j < lanes; ++j) tile[i * leading + column + j] = sums[i][j];
    }
  }
}

#if defined(__x86_64__) && defined(__GNUC__)

__attribute__((target("avx2,fma"))) inline void avx2_micro_kernel(std::int64_t depth, const float* a,
                                                                  const float* b, float* tile,
                                                                  std::int64_t leading) {
  float* row0 = tile;
  float* row1 = row0 + leading;
  float* row2 = row1 + leading;
  float* row3 = row2 + leading;
  float* row4 = row3 + leading;
  float* row5 = row4 + leading;
  __m256 low0 = _mm256_loadu_ps(row0), high0 = _mm256_loadu_ps(row0 + 8);
  __m256 low1 = _mm256_loadu_ps(row1), high1 = _mm256_loadu_ps(row1 + 8);
  __m256 low2 = _mm256_loadu_ps(row2), high2 = _mm256_loadu_ps(row2 + 8);
  __m256 low3 = _mm256_loadu_ps(row3), high3 = _mm256_loadu_ps(row3 + 8);
  __m256 low4 = _mm256_loadu_ps(row4), high4 = _mm256_loadu_ps(row4 + 8);
  __m256 low5 = _mm256_loadu_ps(row5), high5 = _mm256_loadu_ps(row5 + 8);
  for (std::int64_t k = 0; k < depth; ++k, a += kernel_rows, b += kernel_columns) {
    const __m256 low = _mm256_loadu_ps(b), high = _mm256_loadu_ps(b + 8);
    __m256 left = _mm256_broadcast_ss(a);
    low0 = _mm256_fmadd_ps(left, low, low0);
    high0 = _mm256_fmadd_ps(left, high, high0);
    left = _mm256_broadcast_ss(a + 1);
    low1 = _mm256_fmadd_ps(left, low, low1);
    high1 = _mm256_fmadd_ps(left, high, high1);
    left = _mm256_broadcast_ss(a + 2);
    low2 = _mm256_fmadd_ps(left, low, low2);
    high2 = _mm256_fmadd_ps(left, high, high2);
    left = _mm256_broadcast_ss(a + 3);
    low3 = _mm256_fmadd_ps(left, low, low3);
    high3 = _mm256_fmadd_ps(left, high, high3);
    left = _mm256_broadcast_ss(a + 4);
    low4 = _mm256_fmadd_ps(left, low, low4);
    high4 = _mm256_fmadd_ps(left, high, high4);
    left = _mm256_broadcast_ss(a + 5);
    low5 = _mm256_fmadd_ps(left, low, low5);
    high5 = _mm256_fmadd_ps(left, high, high5);
  }
  _mm256_storeu_ps(row0, low0), _mm256_storeu_ps(row0 + 8, high0);
  _mm256_storeu_ps(row1, low1), _mm256_storeu_ps(row1 + 8, high1);
  _mm256_storeu_ps(row2, low2), _mm256_storeu_ps(row2 + 8, high2);
  _mm256_storeu_ps(row3, low3), _mm256_storeu_ps(row3 + 8, high3);
  _mm256_storeu_ps(row4, low4), _mm256_storeu_ps(row4 + 8, high4);
  _mm256_storeu_ps(row5, low5), _mm256_storeu_ps(row5 + 8, high5);
}

inline MicroKernel micro_kernel() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2_micro_kernel
                                                                         : portable_micro_kernel;
}

#else

inline MicroKernel micro_kernel() { return portable_micro_kernel; }

#endif

}  // namespace halfstep::compute::detail
