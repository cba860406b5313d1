// A whole training step of two multi-layer perceptrons under each policy, split into its phases. of_peak is the share
// of the float product rate that a large matrix product reached in the same run.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include <halfstep/halfstep.hpp>

#include "benchmarks/against.hpp"

namespace {

using namespace halfstep;

struct Batch {
  Tensor<const float> inputs;
  Tensor<const std::int32_t> labels;
};

/// 64-256-10, the digits example's.
struct Small {
  static constexpr std::int64_t inputs = 64, batch_size = 64;
  static constexpr double multiply_adds_a_sample = 64 * 256 + 256 * 10;
  Linear hidden{64, 256}, output{256, 10};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("hidden", hidden);
    visit("output", output);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Batch& batch) {
    return cross_entropy(tape, output(tape, gelu(tape, hidden(tape, batch.inputs))), batch.labels);
  }
};

/// 784-1024-1024-10.
struct Large {
  static constexpr std::int64_t inputs = 784, batch_size = 256;
  static constexpr double multiply_adds_a_sample = 784 * 1024 + 1024 * 1024 + 1024 * 10;
  Linear first{784, 1024}, second{1024, 1024}, output{1024, 10};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    visit("second", second);
    visit("output", output);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Batch& batch) {
    auto hidden = gelu(tape, second(tape, gelu(tape, first(tape, batch.inputs))));
    return cross_entropy(tape, output(tape, hidden), batch.labels);
  }
};

double peak_multiply_adds_a_second() {
  constexpr std::int64_t n = 1024;
  Host host;
  Buffer<float, Host> a(host, n * n), b(host, n * n), c(host, n * n);
  double best = 1e9;
  for (int repeat = 0; repeat < 10; ++repeat) {
    best = (std::min)(best, against::seconds([&] {
             compute::matmul(host, compute::matrix<const float>(a.data(), n, n),
                             compute::matrix<const float>(b.data(), n, n), compute::matrix(c.data(), n, n));
           }));
  }
  return static_cast<double>(n * n * n) / best;
}

template <class Model, class Policy>
void step(benchmark::State& state) {
  detail::TrainerCore<Model, AdamW, Policy, Host> core(Model{}, AdamW{}, {.clip_norm = 1.0f});
  std::vector<float> inputs(Model::batch_size * Model::inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i * 2654435761U % 1000) * 1e-3f;
  std::vector<std::int32_t> labels(Model::batch_size);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  const Batch batch{{inputs.data(), {Model::batch_size, Model::inputs}}, {labels.data(), {Model::batch_size}}};

  double forward = 1e9, backward = 1e9, measure = 1e9, update = 1e9, whole = 1e9;
  for (auto _ : state) {
    Loss loss;
    const double f = against::seconds([&] { loss = core.forward(batch); });
    const double b = against::seconds([&] { core.backward(loss); });
    core.close("close_window");
    const double m = against::seconds([&] { core.measure(); });
    const double u = against::seconds([&] { benchmark::DoNotOptimize(core.finish(1.0f, 1e30f)); });
    forward = (std::min)(forward, f);
    backward = (std::min)(backward, b);
    measure = (std::min)(measure, m);
    update = (std::min)(update, u);
    whole = (std::min)(whole, f + b + m + u);
    state.SetIterationTime(f + b + m + u);
  }
  state.counters["forward_us"] = forward * 1e6;
  state.counters["backward_us"] = backward * 1e6;
  state.counters["measure_us"] = measure * 1e6;
  state.counters["update_us"] = update * 1e6;
  state.counters["samples/s"] = static_cast<double>(Model::batch_size) / whole;
  // One product forward, two backward.
  state.counters["of_peak"] = 3 * Model::multiply_adds_a_sample * static_cast<double>(Model::batch_size) / whole /
                              peak_multiply_adds_a_second();
}

#define HALFSTEP_STEP(Model)                                                                             \
  BENCHMARK(step<Model, Float32Policy>)->UseManualTime()->Unit(benchmark::kMicrosecond)->MinTime(1.0);  \
  BENCHMARK(step<Model, BFloat16Policy>)->UseManualTime()->Unit(benchmark::kMicrosecond)->MinTime(1.0); \
  BENCHMARK(step<Model, Float16ScaledPolicy>)->UseManualTime()->Unit(benchmark::kMicrosecond)->MinTime(1.0)

HALFSTEP_STEP(Small);
HALFSTEP_STEP(Large);

}  // namespace
