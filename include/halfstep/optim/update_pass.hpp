#pragma once

#include <cstddef>
#include <cstdint>
#include <halfstep/compute/chunks.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/numeric/convert.hpp>
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

/// The flat buffers of an optimizer's moments, readable on every device; std::array's operators are not.
template <int Count>
struct MomentPointers {
  float* of[Count > 0 ? Count : 1];
  HALFSTEP_HOST_DEVICE constexpr float*& operator[](std::size_t i) { return of[i]; }
  HALFSTEP_HOST_DEVICE constexpr float* operator[](std::size_t i) const { return of[i]; }
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
  MomentPointers<Optimizer::moments> moments;
  const UpdateFacts<typename Optimizer::Coefficients>* facts;
  std::int64_t chunk_count = 0;

  void operator()(std::int64_t index) const {
    const compute::SegmentChunk chunk = chunks[index];
    if (!facts->apply || has_gradient[chunk.segment] == 0) return;
    update(chunk, options[chunk.segment], std::make_index_sequence<Optimizer::moments>{});
  }

  /// On a GPU a team takes a chunk, four elements a thread at a time.
  std::int64_t team_tasks() const { return chunk_count; }
  std::int64_t team_width() const { return compute::chunk_size; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t index) const {
    const compute::SegmentChunk chunk = chunks[index];
    if (!facts->apply || has_gradient[chunk.segment] == 0) return;
    update_by(team, chunk, options[chunk.segment], std::make_index_sequence<Optimizer::moments>{});
  }

 private:
  using Facts = UpdateFacts<typename Optimizer::Coefficients>;

  /// Elements that are updated before their working copies are written: few enough to be still in the first-level
  /// cache, for the copy is a pass of its own, which has the CPU's conversion instructions, and to spread the copy's
  /// writes among the reads.
  static constexpr std::int64_t block = 256;

  /// One element. Plain pointers and a function of its own: g++ vectorises the loop around it only so. The moments are
  /// taken by value, so that all is read before anything is written: the compiler does not know that the arrays are
  /// apart.
  template <class... Moments>
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE static void update_element(std::int64_t i, const float* gradient, float* master,
                                             const Facts& step, const ParameterOptions& parameter,
                                             Moments*... moment) {
    const float g =
        halfstep::clip_value(gradient[i] * step.inverse_scale * step.clip_coefficient, step.clip_value);
    float weight = master[i];
    const auto update_values = [&](auto... values) HALFSTEP_INLINE {
      Optimizer::update(weight, g, values..., step.coefficients, parameter);
      ((moment[i] = values), ...);
    };
    update_values(moment[i]...);
    master[i] = weight;
  }

  template <class... Moments>
  HALFSTEP_INLINE static void update_range(std::int64_t size, const float* gradient, float* master,
                                           const Facts step, const ParameterOptions parameter,
                                           Moments*... moment) {
    HALFSTEP_SIMD
    for (std::int64_t i = 0; i < size; ++i) {
      update_element(i, gradient, master, step, parameter, moment...);
    }
  }

  template <std::size_t... Moment>
  void update(compute::SegmentChunk chunk, ParameterOptions parameter, std::index_sequence<Moment...>) const {
    const std::int64_t end = chunk.offset + chunk.size;
    for (std::int64_t i = chunk.offset; i < end; i += block) {
      const std::int64_t size = end - i < block ? end - i : block;
      update_range(size, gradients + i, masters + i, *facts, parameter, moments[Moment] + i...);
      if (working != nullptr) convert(masters + i, working + i, size, Stores::cached);
    }
  }

  template <class Team, std::size_t... Moment>
  HALFSTEP_HOST_DEVICE void update_by(const Team& team, compute::SegmentChunk chunk, ParameterOptions parameter,
                                      std::index_sequence<Moment...>) const {
    const Facts step = *facts;
    const std::int64_t offset = chunk.offset;
    team.for_each(chunk.size / 4, [&](std::int64_t four) {
      const std::int64_t i = offset + 4 * four;
      const compute::Four<float> gradient = compute::load_four(gradients + i);
      compute::Four<float> master = compute::load_four(masters + i);
      compute::Four<float> moment[Optimizer::moments + 1] = {compute::load_four(moments[Moment] + i)...};
      for (int k = 0; k < 4; ++k) update_element(k, gradient.of, master.of, step, parameter, moment[Moment].of...);
      compute::store_four(masters + i, master);
      (compute::store_four(moments[Moment] + i, moment[Moment]), ...);
      if (working == nullptr) return;
      compute::Four<Compute> rounded;
      for (int k = 0; k < 4; ++k) rounded.of[k] = static_cast<Compute>(master.of[k]);
      compute::store_four(working + i, rounded);
    });
    team.for_each(chunk.size % 4, [&](std::int64_t k) {
      const std::int64_t i = offset + chunk.size / 4 * 4 + k;
      update_element(i, gradients, masters, step, parameter, moments[Moment]...);
      if (working != nullptr) working[i] = static_cast<Compute>(masters[i]);
    });
  }
};

}  // namespace halfstep
