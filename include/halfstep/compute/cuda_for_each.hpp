#pragma once

#include <concepts>
#include <cstdint>

#include <halfstep/compute/cuda_launch.hpp>

namespace halfstep::compute {

/// A kernel by tasks that has a version for a GPU beside that for the CPU:
///
/// - `std::int64_t team_tasks() const`: how many tasks, which may be cut otherwise than for the CPU;
/// - `std::int64_t team_width() const`: about how many elements a task has, which decides how many threads share it;
/// - `template <class Team> HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const`, which asks `team`
///   itself for everything, not its type, so that tests can give it threads of the CPU.
template <class Kernel>
concept TeamKernel = requires(const Kernel kernel, std::int64_t task) {
  { kernel.team_tasks() } -> std::same_as<std::int64_t>;
  { kernel.team_width() } -> std::same_as<std::int64_t>;
  kernel.run(Warp{}, task);
  kernel.run(Block{}, task);
};

/// An element-wise kernel that can also be given the four elements from i on at once, where `takes_fours()` says that
/// its memory is aligned to them: a GPU reads and writes them by one instruction.
template <class Kernel>
concept FoursKernel = requires(const Kernel kernel, std::int64_t i) {
  { kernel.takes_fours() } -> std::same_as<bool>;
  kernel.on_four(i);
};

namespace detail {

/// Elements that one block of an element-wise pass handles: four a thread, so that several reads are under way at once.
inline constexpr std::int64_t block_elements = 4 * block_threads;

template <class Function>
struct EachElement {
  Function function;
  std::int64_t size;

  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t begin = task * block_elements;
    if constexpr (FoursKernel<Function>) {
      if (function.takes_fours()) return by_fours(team, begin);
    }
    if (begin + block_elements <= size) {
      for (int k = 0; k < block_elements / team.size(); ++k) {
        function(begin + team.rank() + k * static_cast<std::int64_t>(team.size()));
      }
    } else {
      for (std::int64_t i = begin + team.rank(); i < size; i += team.size()) function(i);
    }
  }

 private:
  template <class Team>
  HALFSTEP_HOST_DEVICE void by_fours(const Team& team, std::int64_t begin) const {
    const std::int64_t end = begin + block_elements < size ? begin + block_elements : size;
    for (std::int64_t i = begin + 4 * team.rank(); i < end; i += 4 * team.size()) {
      if (i + 4 <= end) {
        function.on_four(i);
      } else {
        for (std::int64_t k = i; k < end; ++k) function(k);
      }
    }
  }
};

/// A task a block, for kernels of which nothing is asked but `run`.
template <class Kernel>
struct TaskOfBlock {
  Kernel kernel;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t block) const { kernel.run(Block{}, block); }
};

/// Eight tasks a block, one a warp.
template <class Kernel>
struct TasksOfWarps {
  Kernel kernel;
  std::int64_t tasks;
  static constexpr int warps = block_threads / 32;

  HALFSTEP_HOST_DEVICE void operator()(std::int64_t block) const {
#if defined(__CUDA_ARCH__)
    const std::int64_t task = block * warps + threadIdx.x / 32;
    if (task < tasks) kernel.run(Warp{}, task);
#else
    for (std::int64_t task = block * warps; task < tasks && task < (block + 1) * warps; ++task) {
      kernel.run(Warp{}, task);
    }
#endif
  }
};

/// Tasks of up to this many elements are given to warps: a block's threads would mostly wait for one another.
inline constexpr std::int64_t widest_warp_task = 1024;

}  // namespace detail

/// Calls `function(i)` once for every i in [0, n) on the GPU. Returns before it is done.
template <class Function>
void for_each(Cuda& cuda, std::int64_t n, const Function& function) {
  detail::launch(cuda, (n + detail::block_elements - 1) / detail::block_elements,
                 detail::TaskOfBlock<detail::EachElement<Function>>{{function, n}});
}

/// Runs all tasks of a kernel on the GPU, each by a team of threads. Returns before it is done.
template <TeamKernel Kernel>
void for_each_team(Cuda& cuda, const Kernel& kernel) {
  const std::int64_t tasks = kernel.team_tasks();
  if (kernel.team_width() <= detail::widest_warp_task) {
    constexpr std::int64_t warps = detail::TasksOfWarps<Kernel>::warps;
    detail::launch(cuda, (tasks + warps - 1) / warps, detail::TasksOfWarps<Kernel>{kernel, tasks});
  } else {
    detail::launch(cuda, tasks, detail::TaskOfBlock<Kernel>{kernel});
  }
}

/// The passes of the CPU in chunks and tasks: on the GPU the kernel says how it is cut.
template <TeamKernel Kernel>
void for_each_task(Cuda& cuda, std::int64_t, const Kernel& kernel) {
  for_each_team(cuda, kernel);
}
template <TeamKernel Kernel>
void for_each_chunk(Cuda& cuda, std::int64_t, const Kernel& kernel) {
  for_each_team(cuda, kernel);
}

}  // namespace halfstep::compute
