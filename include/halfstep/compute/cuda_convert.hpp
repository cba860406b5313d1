#pragma once

#include <cstdint>

#include <halfstep/compute/cuda_for_each.hpp>
#include <halfstep/compute/fours.hpp>

namespace halfstep::compute {

namespace detail {

template <class From, class To>
struct ConvertElement {
  const From* from;
  To* to;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { to[i] = static_cast<To>(static_cast<float>(from[i])); }

  HALFSTEP_HOST_DEVICE bool takes_fours() const { return begins_a_four(from) && begins_a_four(to); }
  HALFSTEP_HOST_DEVICE void on_four(std::int64_t i) const {
    store_four(to + i, four_of<To>(floats_of(load_four(from + i))));
  }
};

}  // namespace detail

/// See convert.hpp.
template <class From, class To>
void convert(Cuda& cuda, const From* from, To* to, std::int64_t n) {
  for_each(cuda, n, detail::ConvertElement<From, To>{from, to});
}

}  // namespace halfstep::compute
