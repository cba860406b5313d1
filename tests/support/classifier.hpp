#pragma once

#include <cstdint>
#include <halfstep/nn/cross_entropy.hpp>
#include <halfstep/nn/gelu.hpp>
#include <halfstep/nn/linear.hpp>
#include <random>
#include <vector>

namespace halfstep::test {

/// Labelled points: as many as one likes, the same in every run.
struct Points {
  Points(std::int64_t rows, std::int64_t features, std::int64_t classes, std::uint32_t seed = 1)
      : inputs(static_cast<std::size_t>(rows * features)),
        labels(static_cast<std::size_t>(rows)),
        columns(features) {
    std::mt19937 generator(seed);
    for (float& value : inputs) value = static_cast<float>(generator() >> 8) * 0x1p-23f - 1.0f;
    for (std::size_t row = 0; row < labels.size(); ++row) {
      // Learnable: the label says in which part of [-1, 1] the first feature lies.
      const float first = (inputs[row * static_cast<std::size_t>(features)] + 1.0f) / 2.0f;
      labels[row] = static_cast<std::int32_t>(first * static_cast<float>(classes) * 0.9999f);
    }
  }

  Tensor<const float> images() const {
    return {inputs.data(), {static_cast<std::int64_t>(labels.size()), columns}};
  }
  Tensor<const std::int32_t> targets() const {
    return {labels.data(), {static_cast<std::int64_t>(labels.size())}};
  }

  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  std::int64_t columns;
};

/// One hidden layer, GELU, softmax cross-entropy.
struct Classifier {
  Linear hidden, output;

  Classifier() : Classifier(4, 8, 3) {}
  Classifier(std::int64_t features, std::int64_t width, std::int64_t classes)
      : hidden(features, width), output(width, classes) {}

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("hidden", hidden);
    visit("output", output);
  }
  template <class Tape>
  auto forward(Tape& tape, const Tensor<const float>& inputs) const {
    return output(tape, gelu(tape, hidden(tape, inputs)));
  }
  template <class Tape>
  Loss loss(Tape& tape, const Points& points) const {
    return cross_entropy(tape, forward(tape, points.images()), points.targets());
  }
  /// Of a batch as an ArrayDataset has them.
  template <class Tape, class Batch>
  requires requires(const Batch& batch) { batch.features, batch.labels; }
  Loss loss(Tape& tape, const Batch& batch) const {
    return cross_entropy(tape, forward(tape, batch.features), batch.labels);
  }
};

/// Every master weight of a trainer's model, in its order.
template <class Trainer>
std::vector<float> all_parameters(const Trainer& trainer) {
  std::vector<float> values;
  for (const auto& parameter : trainer.parameters()) {
    const auto some = trainer.read_parameter(parameter.name);
    values.insert(values.end(), some.begin(), some.end());
  }
  return values;
}

}  // namespace halfstep::test
