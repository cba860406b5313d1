#pragma once

#include <cstdint>

#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep {

/// Gives element i of a gradient its value or, where something was written before, adds to it: computed in float,
/// rounded once. For the kernels of a backward pass; `target` is not empty.
template <class T>
HALFSTEP_HOST_DEVICE inline void store_gradient(const GradientTarget<T>& target, std::int64_t i, float value) {
  const float before = target.accumulate ? static_cast<float>(target.data[i]) : 0.0f;
  target.data[i] = static_cast<T>(before + value);
}

}  // namespace halfstep
