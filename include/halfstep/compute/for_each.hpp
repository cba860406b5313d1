#pragma once

#include <cstdint>

// A CUDA compiler reads Thrust together with its CUDA side, which takes three times as long as all of halfstep: there the
// host's tasks are shared out by OpenMP itself.
#if !defined(__CUDACC__)
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#if defined(_OPENMP)
#include <thrust/system/omp/execution_policy.h>
#else
#include <thrust/system/cpp/execution_policy.h>
#endif
#endif

#include <halfstep/compute/vectorize.hpp>
#include <halfstep/device/host.hpp>
#include <halfstep/numeric/host_device.hpp>

// Of a marked loop that it could not vectorise clang says so in every program, and mostly here, where passes are called.
// Nothing is wrong with such a program.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

namespace halfstep::compute {

/// Elements that one task of an element-wise pass handles: large enough to hide the cost of a task, small enough to
/// stay in the first-level cache, and the same for every number of threads.
inline constexpr std::int64_t chunk_size = 8192;

/// With fewer chunks than this a pass is over before threads would have met.
inline constexpr std::int64_t fewest_parallel_chunks = 8;

namespace detail {

/// A task of any type behind one type: every pass shares one instantiation of Thrust's parallel loop, which takes
/// longer to compile than the passes themselves.
struct AnyTask {
  const void* function;
  void (*call)(const void* function, std::int64_t task);
  void operator()(std::int64_t task) const { call(function, task); }
};

template <class Function>
AnyTask any_task(const Function& function) {
  return {&function, [](const void* object, std::int64_t task) {
            const Function& typed = *static_cast<const Function*>(object);
            halfstep::detail::call_vectorized([&] { typed(task); });
          }};
}

inline void run_in_parallel(std::int64_t tasks, const AnyTask& task) {
#if defined(__CUDACC__)
#if defined(_OPENMP)
#pragma omp parallel for schedule(static)
#endif
  for (std::int64_t i = 0; i < tasks; ++i) task(i);
#elif defined(_OPENMP)
  thrust::for_each_n(thrust::omp::par, thrust::counting_iterator<std::int64_t>(0), tasks, task);
#else
  thrust::for_each_n(thrust::cpp::par, thrust::counting_iterator<std::int64_t>(0), tasks, task);
#endif
}

inline void run_in_order(std::int64_t tasks, const AnyTask& task) {
  for (std::int64_t i = 0; i < tasks; ++i) task(i);
}

template <class Function>
struct HostChunk {
  Function function;
  std::int64_t size;
  void operator()(std::int64_t chunk) const {
    const std::int64_t begin = chunk * chunk_size;
    const std::int64_t end = begin + chunk_size < size ? begin + chunk_size : size;
    const Function call = function;
    HALFSTEP_SIMD
    for (std::int64_t i = begin; i < end; ++i) call(i);
  }
};

}  // namespace detail

/// Calls `function(task)` once for every task in [0, tasks), tasks in parallel and each of them compiled for this
/// CPU's vector instructions. Tasks must not depend on one another and must not throw.
template <class Function>
void for_each_task(Host&, std::int64_t tasks, const Function& function) {
  const detail::AnyTask task = detail::any_task(function);
  return tasks > 1 ? detail::run_in_parallel(tasks, task) : detail::run_in_order(tasks, task);
}

/// The same for tasks of about `chunk_size` elements each: where they are few they run without threads.
template <class Function>
void for_each_chunk(Host&, std::int64_t chunks, const Function& function) {
  const detail::AnyTask task = detail::any_task(function);
  return chunks >= fewest_parallel_chunks ? detail::run_in_parallel(chunks, task)
                                          : detail::run_in_order(chunks, task);
}

/// Calls `function(i)` once for every i in [0, n). Calls must not depend on one another and must not throw;
/// function objects are small values, copied into every task.
template <class Function>
void for_each(Host& host, std::int64_t n, const Function& function) {
  for_each_chunk(host, (n + chunk_size - 1) / chunk_size, detail::HostChunk<Function>{function, n});
}

}  // namespace halfstep::compute

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#if HALFSTEP_WITH_CUDA
#include <halfstep/compute/cuda_for_each.hpp>
#endif
