#pragma once

#include <cstdint>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/device/arena.hpp>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep::compute {

namespace detail {

/// Lanes in which a chunk is reduced. Fixed, so that the order of the sum, and with it every bit of the result, is
/// the same for every vector width and every number of threads.
inline constexpr std::int64_t reduction_lanes = 16;

template <class T, class Transform, class Combine>
T reduce_range(std::int64_t begin, std::int64_t end, const Transform& transform, T identity,
               const Combine& combine) {
  T lanes[reduction_lanes];
  for (T& lane : lanes) lane = identity;
  std::int64_t i = begin;
  for (; i + reduction_lanes <= end; i += reduction_lanes) {
    HALFSTEP_SIMD
    for (std::int64_t lane = 0; lane < reduction_lanes; ++lane) {
      lanes[lane] = combine(lanes[lane], static_cast<T>(transform(i + lane)));
    }
  }
  const std::int64_t rest = end - i;
  HALFSTEP_SIMD
  for (std::int64_t lane = 0; lane < rest; ++lane) {
    lanes[lane] = combine(lanes[lane], static_cast<T>(transform(i + lane)));
  }
  for (std::int64_t half = reduction_lanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] = combine(lanes[lane], lanes[lane + half]);
  }
  return lanes[0];
}

template <class T, class Transform, class Combine>
struct ReduceChunk {
  Transform transform;
  T identity;
  Combine combine;
  std::int64_t size;
  T* partials;
  void operator()(std::int64_t chunk) const {
    const std::int64_t begin = chunk * chunk_size;
    const std::int64_t end = begin + chunk_size < size ? begin + chunk_size : size;
    partials[chunk] = reduce_range(begin, end, transform, identity, combine);
  }
};

}  // namespace detail

/// `*result = combine(... transform(i) ...)` over all i in [0, n), `identity` where n is 0. `combine` must be
/// associative up to rounding; the order of the combinations depends on n alone, never on the number of threads.
/// `result` lies in the device's memory; partial results come from the arena.
template <class T, class Transform, class Combine>
void reduce(Host& host, Arena<Host>& arena, std::int64_t n, const Transform& transform, T identity,
            const Combine& combine, T* result) {
  const std::int64_t chunks = (n + chunk_size - 1) / chunk_size;
  T* partials = arena.allocate<T>(chunks);
  for_each_chunk(host, chunks,
                detail::ReduceChunk<T, Transform, Combine>{transform, identity, combine, n, partials});
  T total = identity;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) total = combine(total, partials[chunk]);
  *result = total;
}

struct Plus {
  template <class T>
  HALFSTEP_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const {
    return a + b;
  }
};

struct Maximum {
  template <class T>
  HALFSTEP_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};

}  // namespace halfstep::compute

#if HALFSTEP_WITH_CUDA
#include <halfstep/compute/cuda_reduce.hpp>
#endif
