#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <halfstep/halfstep.hpp>

namespace halfstep::test {

/// Points on two rings. Every eleventh sample is infinite, so that some windows are skipped under every policy.
struct Rings {
  struct Batch {
    std::vector<float> values;
    std::vector<std::int32_t> classes;
    Tensor<const float> inputs;
    Tensor<const std::int32_t> labels;

    Batch() = default;
    Batch(Batch&&) = default;
    Batch& operator=(Batch&&) = default;
  };

  std::int64_t samples = 44;
  bool with_infinities = true;

  std::int64_t size() const { return samples; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    batch.values.clear();
    batch.classes.clear();
    for (const std::int64_t i : indices) {
      const float turn = 0.37f * static_cast<float>(i), radius = i % 2 == 0 ? 0.4f : 1.1f;
      batch.values.push_back(radius * math_cos(turn));
      batch.values.push_back(with_infinities && i % 11 == 10 ? std::numeric_limits<float>::infinity()
                                                             : radius * math_cos(turn + 1.5f));
      batch.classes.push_back(static_cast<std::int32_t>(i % 2));
    }
    const auto rows = static_cast<std::int64_t>(indices.size());
    batch.inputs = {batch.values.data(), {rows, 2}};
    batch.labels = {batch.classes.data(), {rows}};
  }

 private:
  static float math_cos(float x) {
    // A rational wave is enough, and is the same on every platform.
    const float part = x - 6.25f * static_cast<float>(static_cast<int>(x / 6.25f));
    const float centred = part / 3.125f - 1.0f;
    return 1.0f - 2.0f * (1.0f - centred * centred);
  }
};

/// Two layers with dropout between them, so that a run also depends on random numbers.
struct RingModel {
  Linear hidden{2, 24}, output{24, 2};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("hidden", hidden);
    visit("output", output);
  }
  template <class Tape>
  auto forward(Tape& tape, auto inputs) {
    return output(tape, dropout(tape, gelu(tape, hidden(tape, inputs)), 0.25f));
  }
  template <class Tape>
  Loss loss(Tape& tape, const Rings::Batch& batch) {
    return cross_entropy(tape, forward(tape, batch.inputs), batch.labels);
  }
};

}  // namespace halfstep::test
