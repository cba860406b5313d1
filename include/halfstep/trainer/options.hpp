#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <halfstep/device/device.hpp>
#include <halfstep/trainer/parameter_rule.hpp>

namespace halfstep {

template <Device D>
struct BasicTrainerOptions {
  /// Longest Euclidean norm that an update's gradients may have; infinity measures only.
  float clip_norm = std::numeric_limits<float>::infinity();
  /// Largest magnitude of a single gradient, applied after clip_norm; infinity leaves all alone.
  float clip_value = std::numeric_limits<float>::infinity();
  /// Of all that is random: the parameters' first values, and what dropout drops.
  std::uint64_t seed = 0;
  /// Exceptions for some of the parameters, in order; later rules win.
  std::vector<ParameterRule> parameters = {};
  typename D::Options device = {};
};

}  // namespace halfstep
