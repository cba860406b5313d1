#pragma once

#include "support/tolerance.hpp"

/// The tests of the device Cuda run in two ways: emulated, on any machine, with doubles of CUDA's runtime and
/// of cuBLASLt (double/) that run everything on the CPU; and on a GPU (gpu_check.sh), with NVIDIA's own,
/// whose calls are counted all the same (gpu/counted.cpp). What only a double does, failing on demand say, is
/// tested at the end of a file, behind #if defined(HALFSTEP_CUDA_EMULATION).
namespace halfstep::test {

#if defined(HALFSTEP_CUDA_EMULATION)
inline constexpr bool emulated = true;
#else
inline constexpr bool emulated = false;
#endif

/// For what both devices compute by the same operations in float, without sums. Emulated: bit for bit. A GPU
/// fuses multiplications and additions, so that a number of order 1 which is rounded to T on the way may
/// become its neighbour, and be multiplied by others of that order.
template <class T>
inline constexpr Tolerance bits_or_neighbours =
    emulated ? Tolerance{0, 0}
             : Tolerance{tolerance_of<T>.absolute + 8 * static_cast<double>(numeric_traits<T>::epsilon),
                         tolerance_of<T>.relative + 4 * static_cast<double>(numeric_traits<T>::epsilon)};

}  // namespace halfstep::test
