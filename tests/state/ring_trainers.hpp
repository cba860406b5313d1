#pragma once

#include <cstdint>
#include <vector>

#include <halfstep/halfstep.hpp>

#include "support/given_gradients.hpp"
#include "support/small_run.hpp"

// The trainers whose state is saved and restored: few types, because compiling one takes seconds.

namespace halfstep::test {

/// The same rules with a schedule that goes on over skips.
template <class Policy>
struct Advancing : Policy {
  using on_skip = AdvanceSchedule;
};
/// Overflows at first: some windows are skipped for their gradients before the first is applied.
inline constexpr DynamicScaler high_scale{.initial_scale = 0x1p30f, .growth_interval = 5, .hysteresis = 2};

using RingInFloat16 = Trainer<RingModel, AdamW, Float16ScaledPolicy>;
/// With the scaler that a test chooses.
using RingInHalf = Trainer<RingModel, AdamW, ChosenScalerPolicy>;
using RingInBFloat16 = Trainer<RingModel, AdamW, BFloat16Policy>;
using RingInFloat = Trainer<RingModel, Adam, Float32Policy>;
using RingWithMomentum = Trainer<RingModel, SGD, Advancing<ChosenScalerPolicy>>;

inline Rings::Batch first_samples(int count) {
  const Rings data;
  std::vector<std::int64_t> indices;
  for (int i = 0; i < count; ++i) indices.push_back(i);
  Rings::Batch batch;
  data.load(indices, batch);
  return batch;
}

}  // namespace halfstep::test
