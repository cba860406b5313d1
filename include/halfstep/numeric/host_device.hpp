#pragma once

/// HALFSTEP_HOST_DEVICE marks a function that runs on the host and, where nvcc (or clang as a CUDA compiler) builds, on
/// the device.
#if defined(__CUDACC__)
#define HALFSTEP_HOST_DEVICE __host__ __device__
#else
#define HALFSTEP_HOST_DEVICE
#endif

/// HALFSTEP_WITH_CUDA is 1 where the device Cuda is there: where a CUDA compiler builds. The tests build it by any
/// compiler as HALFSTEP_CUDA_EMULATION, linked with a CUDA runtime of their own that runs kernels on the CPU.
#if defined(__CUDACC__) || defined(HALFSTEP_CUDA_EMULATION)
#define HALFSTEP_WITH_CUDA 1
#else
#define HALFSTEP_WITH_CUDA 0
#endif
