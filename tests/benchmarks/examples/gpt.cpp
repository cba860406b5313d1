// A training step of the example gpt's GPT-2 (loss, gradients, clipping, AdamW) under each policy, beside the same step in
// PyTorch, both in turn: of_pytorch is how many times as fast. Where there is no PyTorch that figure is missing;
// HALFSTEP_PYTHON in the environment names a Python that has it.
//
//   MB, pytorch_MB   by how much the process grew at most since the model was made
//   of_peak          the model's operations in a second, attention's full square counted, over those of a large float product
//
// Names are gpt<type>/tokens of a sequence/width.

#include <benchmark/benchmark.h>

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <halfstep/halfstep.hpp>

#include "benchmarks/against.hpp"
#include "benchmarks/pytorch_peer.hpp"
#include "examples/gpt/model.hpp"
#include "examples/gpt/speed.hpp"

namespace {

using namespace halfstep;

constexpr std::int64_t sequences = 8;

struct Batch {
  Tensor<const std::int32_t> inputs, targets;
};

/// Of this process, in bytes: a line of /proc/self/status.
double memory(const std::string& line) {
  std::ifstream status("/proc/self/status");
  for (std::string text; std::getline(status, text);) {
    if (text.starts_with(line + ":")) return 1024.0 * std::stod(text.substr(line.size() + 1));
  }
  return 0;
}
void forget_peak() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

int threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

template <class Policy>
void gpt_step(benchmark::State& state) {
  const gpt::ModelSizes sizes{.width = state.range(1), .heads = 8, .context = state.range(0)};
  forget_peak();
  const double before = memory("VmRSS");
  Trainer<gpt::Model, AdamW, Policy> trainer(gpt::Model(sizes), AdamW{.learning_rate = 1e-3f}, {.clip_norm = 1.0f});
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequences * (sizes.context + 1)));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 2654435761U >> 7 & 255);
  const Shape shape{sequences, sizes.context};
  const Batch batch{{tokens.data(), shape}, {tokens.data() + sequences, shape}};
  const auto step = [&] { benchmark::DoNotOptimize(trainer.step(batch).report()); };
  step();

  against::PyTorchPeer pytorch(
      "gpt_step.py", {std::string(Policy::name), std::to_string(sizes.layers), std::to_string(sizes.width),
                      std::to_string(sizes.heads), std::to_string(sizes.context), std::to_string(sequences),
                      std::to_string(sizes.vocabulary), std::to_string(threads())});
  against::Best best;
  for (auto _ : state) {
    if (pytorch) best.reference = (std::min)(best.reference, pytorch.ask("step"));
    const double time = against::seconds(step);
    best.ours = (std::min)(best.ours, time);
    state.SetIterationTime(time);
  }
  const double grown = memory("VmHWM") - before;
  std::int64_t in_products = 0;
  for (const ParameterInfo& parameter : trainer.parameters()) {
    if (parameter.shape.rank() == 2 && parameter.name != "wpe.weight") in_products += parameter.shape.size();
  }
  const auto count = static_cast<double>(sequences * sizes.context);
  state.counters["ms"] = best.ours * 1e3;
  state.counters["tokens/s"] = count / best.ours;
  state.counters["of_peak"] =
      count * gpt::operations_per_token(sizes, in_products, sizes.context) / best.ours / gpt::measured_peak();
  state.counters["MB"] = grown * 1e-6;
  if (!pytorch) return;
  state.counters["pytorch_ms"] = best.reference * 1e3;
  state.counters["of_pytorch"] = best.reference / best.ours;
  state.counters["pytorch_MB"] = pytorch.ask("memory") * 1e-6;
}

void one(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({256, 256})->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(8);
}
/// Against the length at one width, against the width at one length.
void all(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t tokens : {64, 128, 256, 512, 1024}) benchmark->Args({tokens, 256});
  for (const std::int64_t width : {64, 128, 512}) benchmark->Args({256, width});
  benchmark->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);
}
BENCHMARK(gpt_step<Float32Policy>)->Name("gpt<float32>")->Apply(all);
BENCHMARK(gpt_step<BFloat16Policy>)->Name("gpt<bfloat16>")->Apply(one);
BENCHMARK(gpt_step<Float16ScaledPolicy>)->Name("gpt<float16>")->Apply(one);

}  // namespace
