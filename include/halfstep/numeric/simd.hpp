#pragma once

#include <cstddef>
#include <cstdint>

/// HALFSTEP_SIMD before a loop: its iterations are independent of each other, and the compiler may run
/// several of them in one vector instruction.
#if defined(_OPENMP)
#define HALFSTEP_SIMD _Pragma("omp simd")
#elif defined(__clang__)
#define HALFSTEP_SIMD _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define HALFSTEP_SIMD _Pragma("GCC ivdep")
#else
#define HALFSTEP_SIMD
#endif

/// HALFSTEP_INLINE on a function that such a loop calls: inlined whatever its size, because a call that is left keeps
/// the loop from being vectorised.
#if defined(__GNUC__)
#define HALFSTEP_INLINE __attribute__((always_inline))
#else
#define HALFSTEP_INLINE
#endif

/// HALFSTEP_UNROLL before a loop of a fixed number of iterations that uses an array in a GPU's kernel: unrolled, so that
/// the array lies in registers.
#if defined(__CUDA_ARCH__)
#define HALFSTEP_UNROLL _Pragma("unroll")
#else
#define HALFSTEP_UNROLL
#endif

namespace halfstep::detail {

/// Asks the caches for what lies `bytes` beyond `from`: a hint, which does nothing where there is no memory. For a pass
/// over one array, whose pages are no neighbours in memory, so that the hardware's own guesses end with each.
HALFSTEP_INLINE inline void prefetch([[maybe_unused]] const void* from, [[maybe_unused]] std::size_t bytes) {
#if defined(__GNUC__)
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + bytes));
#endif
}

}  // namespace halfstep::detail
