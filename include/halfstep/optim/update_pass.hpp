#pragma once

#include <array>
#include <cstdint>
#include <halfstep/compute/chunks.hpp>
#include <halfstep/optim/optimizer.hpp>
#include <halfstep/scaling/clip.hpp>
#include <utility>

namespace halfstep {

/// What a decided step tells the update pass. It lies in device memory: the host need not know it.
template <class Coefficients>
struct UpdateFacts {
  bool apply = false;
  float inverse_scale = 1;     ///< unscales a gradient
  float clip_coefficient = 1;  ///< then shortens it
  float clip_value = 0;        ///< then limits its magnitude
  Coefficients coefficients{};
};

/// One chunk of the update: reads each gradient once, unscales and clips it, moves the optimizer's moments
/// and the master weight, and writes the working copy, all in one pass. `working` is null where the masters
/// are the working copy. Where the step is not applied, and for parameters without a gradient in this window,
/// every bit stays.
template <class Optimizer, class Compute>
struct UpdateChunk {
  const compute::SegmentChunk* chunks;
  const std::uint8_t* has_gradient;
  const ParameterOptions* options;
  const float* gradients;
  float* masters;
  Compute* working;
  std::array<float*, Optimizer::moments> moments;
  const UpdateFacts<typename Optimizer::Coefficients>* facts;

  void operator()(std::int64_t index) const {
    const compute::SegmentChunk chunk = chunks[index];
    if (!facts->apply || has_gradient[chunk.segment] == 0) return;
    update(chunk, options[chunk.segment], std::make_index_sequence<Optimizer::moments>{});
  }

 private:
  template <std::size_t... Moment>
  void update(compute::SegmentChunk chunk, ParameterOptions parameter, std::index_sequence<Moment...>) const {
    const UpdateFacts<typename Optimizer::Coefficients> step = *facts;
    const float* gradient = gradients + chunk.offset;
    float* master = masters + chunk.offset;
    Compute* copy = working == nullptr ? nullptr : working + chunk.offset;
    const std::array<float*, Optimizer::moments> moment{moments[Moment] + chunk.offset...};
    const auto one = [&](std::int64_t i) {
      const float g =
          halfstep::clip_value(gradient[i] * step.inverse_scale * step.clip_coefficient, step.clip_value);
      Optimizer::update(master[i], g, moment[Moment][i]..., step.coefficients, parameter);
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
