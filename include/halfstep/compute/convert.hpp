#pragma once

#include <cstdint>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/numeric/convert.hpp>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep::compute {

namespace detail {

template <class From, class To>
struct ConvertChunk {
  const From* from;
  To* to;
  std::int64_t size;
  Stores stores;
  void operator()(std::int64_t chunk) const {
    const std::int64_t begin = chunk * chunk_size;
    halfstep::convert(from + begin, to + begin, size - begin < chunk_size ? size - begin : chunk_size, stores);
  }
};

}  // namespace detail

/// to[i] = To(from[i]) for i in [0, n), rounded to nearest even; the ranges must not overlap.
template <class From, class To>
void convert(Host& host, const From* from, To* to, std::int64_t n) {
  // Decided by the whole: a chunk alone would always seem worth keeping in the cache.
  const bool streaming = n * static_cast<std::int64_t>(sizeof(To)) >= halfstep::detail::streaming_bytes;
  const Stores stores = streaming ? Stores::streaming : Stores::cached;
  for_each_chunk(host, (n + chunk_size - 1) / chunk_size, detail::ConvertChunk<From, To>{from, to, n, stores});
}

}  // namespace halfstep::compute

#if HALFSTEP_WITH_CUDA
#include <halfstep/compute/cuda_convert.hpp>
#endif
