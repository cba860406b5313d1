#pragma once

#include <array>
#include <cstdint>
#include <halfstep/compute/chunks.hpp>
#include <halfstep/optim/optimizer.hpp>
#include <halfstep/scaling/clip.hpp>
#include <utility>

namespace halfstep {

/// One chunk of the update: reads each gradient once, unscales and clips it, moves the optimizer's moments
/// and the master weight, and writes the working copy, all in one pass. `working` is null where the masters
/// are the working copy. Parameters without a gradient in this window are left alone, bit for bit.
template <class Optimizer, class Compute>
struct UpdateChunk {
  const compute::SegmentChunk* chunks;
  const std::uint8_t* has_gradient;
  const ParameterOptions* options;
  const float* gradients;
  float* masters;
  Compute* working;
  std::array<float*, Optimizer::moments> moments;
  /// What scaled gradients are multiplied by: one over the scale, and the clip coefficient after it.
  float inverse_scale;
  float clip_coefficient;
  float clip_value;
  Optimizer optimizer;
  typename Optimizer::Coefficients coefficients;

  void operator()(std::int64_t index) const {
    const compute::SegmentChunk chunk = chunks[index];
    if (has_gradient[chunk.segment] == 0) return;
    update(chunk, options[chunk.segment], std::make_index_sequence<Optimizer::moments>{});
  }

 private:
  template <std::size_t... Moment>
  void update(compute::SegmentChunk chunk, ParameterOptions parameter, std::index_sequence<Moment...>) const {
    const Optimizer rule = optimizer;
    const typename Optimizer::Coefficients step = coefficients;
    const float* gradient = gradients + chunk.offset;
    float* master = masters + chunk.offset;
    Compute* copy = working == nullptr ? nullptr : working + chunk.offset;
    const std::array<float*, Optimizer::moments> moment{moments[Moment] + chunk.offset...};
    const float inverse = inverse_scale, coefficient = clip_coefficient, limit = clip_value;
    const auto one = [&](std::int64_t i) {
      const float g = halfstep::clip_value(gradient[i] * inverse * coefficient, limit);
      rule.update(master[i], g, moment[Moment][i]..., step, parameter);
    };
    if (copy == nullptr) {
      HALFSTEP_SIMD
      for (std::int64_t i = 0; i < chunk.size; ++i) one(i);
    } else {
      HALFSTEP_SIMD
      for (std::int64_t i = 0; i < chunk.size; ++i) {
        one(i);
        copy[i] = Compute(master[i]);
      }
    }
  }
};

}  // namespace halfstep
