#pragma once

#include <cstdint>
#include <halfstep/compute/fours.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep {

/// Gives element i of a gradient its value or, where something was written before, adds to it: computed in
/// float, rounded once. For the kernels of a backward pass; `target` is not empty.
template <class T>
HALFSTEP_HOST_DEVICE inline void store_gradient(const GradientTarget<T>& target, std::int64_t i,
                                                float value) {
#if defined(__CUDA_ARCH__)
  const float before = target.accumulate ? static_cast<float>(target.data[i]) : 0.0f;
#else
  // A mask, because a branch here keeps the loop around from being vectorised.
  const std::uint32_t kept = 0u - static_cast<std::uint32_t>(target.accumulate);
  const float before = detail::float_of(detail::bits_of(static_cast<float>(target.data[i])) & kept);
#endif
  target.data[i] = static_cast<T>(before + value);
}

/// The same for the elements from i on, on a GPU. Requires memory aligned to four elements.
template <class T>
HALFSTEP_HOST_DEVICE inline void store_four_gradients(const GradientTarget<T>& target, std::int64_t i,
                                                      compute::Four<float> values) {
  compute::Four<float> before{};
  if (target.accumulate) before = compute::floats_of(compute::load_four(target.data + i));
  for (int k = 0; k < 4; ++k) values.of[k] = before.of[k] + values.of[k];
  compute::store_four(target.data + i, compute::four_of<T>(values));
}

}  // namespace halfstep
