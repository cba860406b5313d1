#pragma once

#include <cstddef>
#include <cstdint>

#include <halfstep/compute/chunks.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/scaling/step_state.hpp>

namespace halfstep {

/// What one read of a chunk of gradients tells of it.
struct MeasurePartial {
  double sum_of_squares = 0;
  /// Position within the parameter of the first gradient that is not finite; -1 if all are.
  std::int64_t first_non_finite = -1;
};

/// Sums, and the earlier of two positions.
struct JoinPartials {
  HALFSTEP_HOST_DEVICE MeasurePartial operator()(const MeasurePartial& a, const MeasurePartial& b) const {
    // As numbers without a sign -1 comes after every position.
    const bool a_first = static_cast<std::uint64_t>(a.first_non_finite) < static_cast<std::uint64_t>(b.first_non_finite);
    return {a.sum_of_squares + b.sum_of_squares, a_first ? a.first_non_finite : b.first_non_finite};
  }
};

/// One chunk of the measuring pass: unscales every gradient in float, sums the squares in double, where no finite
/// float's square overflows or vanishes, and looks for what is not finite. Sums run in fixed lanes, so that the
/// bits depend neither on the vector width nor on the number of threads.
struct MeasureChunk {
  const compute::SegmentChunk* chunks;
  const compute::Segment* segments;
  const std::uint8_t* has_gradient;
  const float* gradients;
  const float* inverse_scale;
  MeasurePartial* partials;

  void operator()(std::int64_t index) const {
    const compute::SegmentChunk chunk = chunks[index];
    MeasurePartial partial;
    if (has_gradient[chunk.segment] != 0) {
      const float* values = gradients + chunk.offset;
      partial.sum_of_squares = measure(values, chunk.size, *inverse_scale, partial.first_non_finite);
      if (partial.first_non_finite >= 0) {
        partial.first_non_finite += chunk.offset - segments[chunk.segment].offset;
      }
    }
    partials[index] = partial;
  }

  /// On a GPU a team takes a chunk, four elements a thread at a time.
  std::int64_t chunk_count = 0;
  std::int64_t team_tasks() const { return chunk_count; }
  std::int64_t team_width() const { return compute::chunk_size; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t index) const {
    const compute::SegmentChunk chunk = chunks[index];
    MeasurePartial mine;
    if (has_gradient[chunk.segment] != 0) {
      const float* const values = gradients + chunk.offset;
      const float inverse = *inverse_scale;
      const std::int64_t begin = chunk.offset - segments[chunk.segment].offset;
      const auto take = [&](std::int64_t i, float value) {
        const float g = value * inverse;
        mine.sum_of_squares += static_cast<double>(g) * static_cast<double>(g);
        if (magnitude_bits(g) >= infinity_bits && mine.first_non_finite < 0) mine.first_non_finite = begin + i;
      };
      team.for_each(chunk.size / 4, [&](std::int64_t four) {
        const compute::Four<float> loaded = compute::load_four(values + 4 * four);
        for (int k = 0; k < 4; ++k) take(4 * four + k, loaded.of[k]);
      });
      team.for_each(chunk.size % 4, [&](std::int64_t k) { take(chunk.size / 4 * 4 + k, values[chunk.size / 4 * 4 + k]); });
      mine = team.combine(mine, JoinPartials{});
    }
    if (team.leads()) partials[index] = mine;
  }

 private:
  static constexpr int lanes = 16;
  static constexpr std::size_t page_bytes = 4096;
  static constexpr std::int32_t infinity_bits = 0x7f800000;

  HALFSTEP_HOST_DEVICE static std::int32_t magnitude_bits(float value) {
    return static_cast<std::int32_t>(detail::bits_of(value) & 0x7fffffffU);
  }

  static double measure(const float* values, std::int64_t size, float inverse, std::int64_t& first_non_finite) {
    double sums[lanes] = {};
    std::int32_t largest[lanes] = {};
    std::int64_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      detail::prefetch(values + i, page_bytes);
      HALFSTEP_SIMD
      for (int lane = 0; lane < lanes; ++lane) {
        const float g = values[i + lane] * inverse;
        const std::int32_t magnitude = magnitude_bits(g);
        largest[lane] = largest[lane] < magnitude ? magnitude : largest[lane];
        sums[lane] += static_cast<double>(g) * static_cast<double>(g);
      }
    }
    for (int lane = 0; i < size; ++i, ++lane) {
      const float g = values[i] * inverse;
      const std::int32_t magnitude = magnitude_bits(g);
      largest[lane] = largest[lane] < magnitude ? magnitude : largest[lane];
      sums[lane] += static_cast<double>(g) * static_cast<double>(g);
    }
    std::int32_t magnitude = 0;
    for (const std::int32_t lane : largest) magnitude = magnitude < lane ? lane : magnitude;
    if (magnitude >= infinity_bits) first_non_finite = find_non_finite(values, size, inverse);
    for (int half = lanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    return sums[0];
  }

  static std::int64_t find_non_finite(const float* values, std::int64_t size, float inverse) {
    for (std::int64_t i = 0; i < size; ++i) {
      if (magnitude_bits(values[i] * inverse) >= infinity_bits) return i;
    }
    return -1;
  }
};

/// Joins the chunks' results, in parameter order, into what a step is decided by.
inline GradientFacts join_partials(const MeasurePartial* partials, const compute::SegmentChunk* chunks,
                                   std::int64_t count, bool has_gradients, bool loss_finite) {
  GradientFacts facts;
  facts.has_gradients = has_gradients;
  facts.loss_finite = loss_finite;
  for (std::int64_t i = 0; i < count; ++i) {
    facts.sum_of_squares += partials[i].sum_of_squares;
    if (facts.gradients_finite && partials[i].first_non_finite >= 0) {
      facts.gradients_finite = false;
      facts.first_bad_parameter = chunks[i].segment;
      facts.first_bad_index = partials[i].first_non_finite;
    }
  }
  return facts;
}

/// The same by a team of a GPU's threads: the sum of all chunks' sums, and the first chunk that holds something that is
/// not finite, or -1.
template <class Team>
HALFSTEP_HOST_DEVICE MeasurePartial join_partials_of(const Team& team, const MeasurePartial* partials,
                                                     std::int64_t count) {
  const auto chunk = [partials](std::int64_t i) {
    return MeasurePartial{partials[i].sum_of_squares, partials[i].first_non_finite < 0 ? -1 : i};
  };
  return team.reduce(count, chunk, MeasurePartial{}, JoinPartials{});
}

}  // namespace halfstep
