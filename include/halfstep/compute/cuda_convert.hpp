#pragma once

#include <cstdint>

#include <halfstep/compute/cuda_for_each.hpp>

namespace halfstep::compute {

namespace detail {

template <class From, class To>
struct ConvertElement {
  const From* from;
  To* to;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { to[i] = static_cast<To>(static_cast<float>(from[i])); }
};

}  // namespace detail

/// See convert.hpp.
template <class From, class To>
void convert(Cuda& cuda, const From* from, To* to, std::int64_t n) {
  for_each(cuda, n, detail::ConvertElement<From, To>{from, to});
}

}  // namespace halfstep::compute
