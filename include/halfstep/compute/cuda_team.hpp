#pragma once

#include <cstdint>

#include <halfstep/numeric/host_device.hpp>

namespace halfstep::compute {

/// The threads of a GPU that work on one task together: a warp (32) or a block (256). A kernel is written once, over a
/// team:
///
///     team.for_each(width, [&](std::int64_t j) { ... });                   // the threads share the indices
///     const float largest = team.combine(mine, Maximum{});                 // all threads get the same bits
///
/// What one thread wrote to memory the others see after `synchronize`. Compiled for the CPU a team is one thread: that
/// is how kernels are run in the tests.
template <int Threads>
class Team {
 public:
  static constexpr int threads = Threads;
  static_assert(Threads == 32 || Threads == 256);

  HALFSTEP_HOST_DEVICE static int rank() {
#if defined(__CUDA_ARCH__)
    return Threads == 32 ? static_cast<int>(threadIdx.x % 32) : static_cast<int>(threadIdx.x);
#else
    return 0;
#endif
  }
  HALFSTEP_HOST_DEVICE static constexpr int size() {
#if defined(__CUDA_ARCH__)
    return Threads;
#else
    return 1;
#endif
  }
  HALFSTEP_HOST_DEVICE static bool leads() { return rank() == 0; }

  HALFSTEP_HOST_DEVICE static void synchronize() {
#if defined(__CUDA_ARCH__)
    if constexpr (Threads == 32) {
      __syncwarp();
    } else {
      __syncthreads();
    }
#endif
  }

  /// Calls `function(i)` once for every i in [0, n), neighbours in neighbouring threads.
  template <class Function>
  HALFSTEP_HOST_DEVICE static void for_each(std::int64_t n, const Function& function) {
    for (std::int64_t i = rank(); i < n; i += size()) function(i);
  }

  /// The same for `store(i, load(i))`. Several elements are loaded before the first is stored: a compiler that cannot
  /// see that what is stored is not what is loaded next would keep one read under way at a time.
  template <class Load, class Store>
  HALFSTEP_HOST_DEVICE static void for_each(std::int64_t n, const Load& load, const Store& store) {
    constexpr int several = 4;
    std::int64_t i = rank();
    for (; i + (several - 1) * size() < n; i += several * size()) {
      decltype(load(i)) loaded[several];
      for (int k = 0; k < several; ++k) loaded[k] = load(i + k * size());
      for (int k = 0; k < several; ++k) store(i + k * size(), loaded[k]);
    }
    for (; i < n; i += size()) store(i, load(i));
  }

  /// All threads' values combined, in an order that is always the same; every thread gets the result. `combine` must
  /// be commutative, and associative up to rounding. All threads of the team must call it.
  template <class T, class Combine>
  HALFSTEP_HOST_DEVICE static T combine(T value, const Combine& combine) {
#if defined(__CUDA_ARCH__)
    for (int distance = 16; distance > 0; distance /= 2) value = combine(value, from_lane(value, distance));
    if constexpr (Threads > 32) {
      // Words, because memory that a block shares cannot begin with the values that a type's members may name.
      __shared__ Words<T> of_warps[Threads / 32];
      __syncthreads();  // whoever still reads the results before
      if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = __builtin_bit_cast(Words<T>, value);
      __syncthreads();
      value = __builtin_bit_cast(T, of_warps[0]);
      for (int warp = 1; warp < Threads / 32; ++warp) value = combine(value, __builtin_bit_cast(T, of_warps[warp]));
    }
#else
    (void)combine;
#endif
    return value;
  }

  /// The combination of `transform(i)` over i in [0, n), `identity` where n is 0; every thread gets it.
  template <class T, class Transform, class Combine>
  HALFSTEP_HOST_DEVICE static T reduce(std::int64_t n, const Transform& transform, T identity, const Combine& combine) {
    T mine = identity;
    for (std::int64_t i = rank(); i < n; i += size()) mine = combine(mine, static_cast<T>(transform(i)));
    return Team::combine(mine, combine);
  }

 private:
#if defined(__CUDA_ARCH__)
  /// A value's bytes.
  template <class T>
  struct alignas(T) Words {
    static_assert(sizeof(T) % sizeof(unsigned) == 0, "a combined value is a multiple of 4 bytes");
    unsigned of[sizeof(T) / sizeof(unsigned)];
  };

  /// The value of the thread whose lane differs in one bit, for values of any size.
  template <class T>
  __device__ static T from_lane(const T& value, int distance) {
    Words<T> words = __builtin_bit_cast(Words<T>, value);
    for (unsigned& word : words.of) word = __shfl_xor_sync(0xffffffffu, word, distance);
    return __builtin_bit_cast(T, words);
  }
#endif
};

using Warp = Team<32>;
using Block = Team<256>;

}  // namespace halfstep::compute
