#pragma once

#include <vector>

#include <halfstep/halfstep.hpp>

/// Four numbers in, two out, squared error.
struct Line {
  halfstep::Linear layer{4, 2};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
  template <class Tape>
  auto forward(Tape& tape, const halfstep::Tensor<const float>& inputs) const {
    return layer(tape, inputs);
  }
  template <class Tape>
  halfstep::Loss loss(Tape& tape, const std::vector<float>& inputs) const {
    using namespace halfstep;
    const auto rows = static_cast<std::int64_t>(inputs.size()) / 4;
    const Tensor<const float> targets(inputs.data(), {rows, 2});
    return mean_squared_error(tape, forward(tape, Tensor<const float>(inputs.data(), {rows, 4})), targets);
  }
};

/// The loss of a step under each policy, on the device that the file's compiler makes the default.
template <class... Policies>
double train_under() {
  const std::vector<float> inputs(12, 0.5f);
  double sum = 0;
  const auto train = [&](auto trainer) { sum += trainer.step(inputs).report().loss; };
  (train(halfstep::Trainer<Line, halfstep::AdamW, Policies>(Line())), ...);
  return sum;
}

double trained_on_gpu();
