#pragma once

#include <cmath>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <limits>

#include "support/classifier.hpp"

/// What the tests of the trainer on the device Cuda train.
namespace cuda_training {

using namespace halfstep;
using halfstep::test::Points;

/// Two layers and dropout; one layer's width is no multiple of anything.
struct Model {
  Linear hidden{5, 37}, output{37, 3};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("hidden", hidden);
    visit("output", output);
  }
  template <class Tape>
  auto forward(Tape& tape, const Tensor<const float>& inputs) const {
    return output(tape, dropout(tape, gelu(tape, hidden(tape, inputs)), 0.25f));
  }
  template <class Tape>
  Loss loss(Tape& tape, const Points& points) const {
    return cross_entropy(tape, forward(tape, points.images()), points.targets());
  }
};

template <class Policy, class D>
using TrainerOn = Trainer<Model, AdamW, Policy, D>;

template <class Policy, class D>
TrainerOn<Policy, D> new_trainer() {
  return TrainerOn<Policy, D>(Model(), {.learning_rate = warmup_cosine(0.02f, 5, 50)},
                              {.clip_norm = 0.5f, .seed = 3, .parameters = {parameters_named("*.bias").no_decay()}});
}

/// The batch of a step: now and then one that overflows every 16-bit type, or whose loss is not finite.
inline Points batch_of(int step, std::int64_t samples = 19) {
  Points points(samples, 5, 3, static_cast<std::uint32_t>(step + 1));
  if (step == 3 || step == 17) points.inputs[40] = 3e38f;
  if (step == 9) points.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  return points;
}

inline bool is_near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= tolerance * (std::abs(a) + std::abs(b) + 1e-3);
}

}  // namespace cuda_training
