#pragma once

// A figure on a machine whose speed changes from minute to minute means something only beside another that was taken at
// the same time. Everything here runs two pieces of work in turn and compares their best times.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace against {

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Calls work(begin, end) for one part of [0, n) on each thread; the parts begin at multiples of 64.
template <class Work>
void on_all_threads(std::int64_t n, const Work& work) {
#if defined(_OPENMP)
#pragma omp parallel
  {
    const std::int64_t part = (n / omp_get_num_threads() + 63) / 64 * 64;
    const std::int64_t begin = (std::min)(n, omp_get_thread_num() * part);
    const std::int64_t end =
        omp_get_thread_num() + 1 == omp_get_num_threads() ? n : (std::min)(n, begin + part);
    work(begin, end);
  }
#else
  work(0, n);
#endif
}

/// Best times of the work under test and of what it is held against.
struct Best {
  double ours = 1e9;
  double reference = 1e9;
};

/// The benchmark's loop: both in turn, the work under test being what the benchmark reports.
template <class Ours, class Reference>
Best in_turn(benchmark::State& state, const Ours& ours, const Reference& reference) {
  Best best;
  for (auto _ : state) {
    best.reference = (std::min)(best.reference, seconds(reference));
    const double time = seconds(ours);
    best.ours = (std::min)(best.ours, time);
    state.SetIterationTime(time);
  }
  return best;
}

}  // namespace against
