#pragma once

#include <halfstep/numeric/simd.hpp>

// Of a marked loop that it could not vectorise clang says so in every program, and mostly here, where passes are called.
// Nothing is wrong with such a program.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

namespace halfstep::detail {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)

/// Calls the function object with everything it calls inlined and compiled for AVX2. Fused multiply-add stays off:
/// element-wise passes are bound by memory, and so give the same bits on a CPU that has it and one that has not.
template <class Function>
__attribute__((target("avx2"), flatten, noinline)) void call_for_avx2(const Function& function) {
  function();
}

/// Runs `function()` compiled for the widest instructions that this CPU has. A program that is compiled for AVX2 as a
/// whole has it once, others a second time for CPUs without.
template <class Function>
void call_vectorized(const Function& function) {
#if !defined(__AVX2__)
  if (!__builtin_cpu_supports("avx2")) return function();
#endif
  call_for_avx2(function);
}

/// The same with fused multiply-add, for what computes on values in the caches, and after products that are fused.
template <class Function>
__attribute__((target("avx2,fma"), flatten, noinline)) void call_for_fma(const Function& function) {
  function();
}
template <class Function>
void call_fused(const Function& function) {
#if !defined(__AVX2__) || !defined(__FMA__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return function();
#endif
  call_for_fma(function);
}

#else

template <class Function>
void call_vectorized(const Function& function) {
  function();
}
template <class Function>
void call_fused(const Function& function) {
  function();
}

#endif

}  // namespace halfstep::detail

#if defined(__clang__)
#pragma clang diagnostic pop
#endif
