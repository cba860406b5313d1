#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <halfstep/compute/cuda_team.hpp>
#include <halfstep/device/cuda.hpp>

namespace halfstep::compute::detail {

/// Threads of a block, for every kernel.
inline constexpr int block_threads = 256;

#if defined(__CUDACC__)

template <class Kernel>
__global__ void __launch_bounds__(block_threads, 1) run_kernel(const __grid_constant__ Kernel kernel) {
  kernel(static_cast<std::int64_t>(blockIdx.x));
}

#else

/// What the tests' CUDA runtime calls in the place of a block (see HALFSTEP_CUDA_EMULATION), and with -1 to be told how
/// many bytes the kernel carries.
template <class Kernel>
void run_kernel(void** arguments, std::int64_t block) {
  if (block < 0) {
    arguments[0] = reinterpret_cast<void*>(sizeof(Kernel));
  } else {
    (*static_cast<const Kernel*>(arguments[0]))(block);
  }
}

#endif

/// Starts `kernel(block)` in every block of [0, blocks). Throws DeviceError where CUDA refuses.
template <class Kernel>
void launch(Cuda& cuda, std::int64_t blocks, const Kernel& kernel) {
  static_assert(std::is_trivially_copyable_v<Kernel>, "a kernel is copied to the GPU byte by byte");
  static_assert(sizeof(Kernel) <= 4096, "a kernel and what it carries must fit into a launch's 4096 bytes");
  static_assert(alignof(Kernel) <= alignof(std::max_align_t), "a kernel is recorded with this alignment");
  constexpr std::int64_t most_blocks = 0x7fffffff;
  if (blocks <= 0) return;
  if (blocks > most_blocks) {
    throw DeviceError("cuda: a pass needs " + std::to_string(blocks) + " blocks, the most is " +
                      std::to_string(most_blocks) + "; use a smaller batch or window");
  }
  cuda.give(halfstep::detail::CudaLaunch{reinterpret_cast<const void*>(&run_kernel<Kernel>),
                                         static_cast<unsigned>(blocks), block_threads, &kernel, sizeof kernel});
}

}  // namespace halfstep::compute::detail
