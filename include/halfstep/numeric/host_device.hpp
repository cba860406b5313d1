#pragma once

/// Marks a function that runs on the host and, where nvcc (or clang as a CUDA compiler) builds, on the
/// device.
#if defined(__CUDACC__)
#define HALFSTEP_HOST_DEVICE __host__ __device__
#else
#define HALFSTEP_HOST_DEVICE
#endif
