#pragma once

#include <cmath>
#include <halfstep/halfstep.hpp>
#include <random>

#include "cuda/double/cuda_runtime.hpp"
#include "figures.hpp"

/// Training steps of two MLPs, one that the host keeps waiting and one that keeps the GPU busy.
/// pytorch_step.py trains the same and compares. The batch lies in the program's memory and goes to the GPU
/// with every step.
namespace figures {

struct MlpShape {
  const char* name;
  std::int64_t inputs, width, hidden_layers, classes, rows;
};
inline constexpr MlpShape mlp_shapes[] = {{"small", 64, 128, 1, 10, 64}, {"large", 256, 4096, 3, 256, 1024}};

struct MlpBatch {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;

  explicit MlpBatch(const MlpShape& shape) {
    std::mt19937 generator(1);
    for (std::int64_t i = 0; i < shape.rows * shape.inputs; ++i) {
      inputs.push_back(static_cast<float>(generator() >> 8) * 0x1p-23f - 1.0f);
    }
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      labels.push_back(static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(shape.classes)));
    }
  }
};

struct Mlp {
  std::vector<halfstep::Linear> layers;

  explicit Mlp(const MlpShape& shape) {
    std::int64_t before = shape.inputs;
    for (std::int64_t layer = 0; layer < shape.hidden_layers; ++layer) {
      layers.emplace_back(before, shape.width);
      before = shape.width;
    }
    layers.emplace_back(before, shape.classes);
  }
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layers", layers);
  }
  template <class Tape>
  halfstep::Loss loss(Tape& tape, const MlpBatch& batch) const {
    using namespace halfstep;
    const auto rows = static_cast<std::int64_t>(batch.labels.size());
    const auto inputs = static_cast<std::int64_t>(batch.inputs.size()) / rows;
    auto x = layers[0](tape, Tensor<const float>(batch.inputs.data(), {rows, inputs}));
    for (std::size_t layer = 1; layer < layers.size(); ++layer) x = layers[layer](tape, gelu(tape, x));
    return cross_entropy(tape, x, Tensor<const std::int32_t>(batch.labels.data(), {rows}));
  }
};

/// Samples a second of `step()`, by the clock of the trainer's stream.
template <class Trainer, class Step>
void measure_steps(Report& report, Trainer& trainer, const MlpShape& shape, const MlpBatch& batch,
                   const std::string& type, const std::string& way, const Step& step) {
  auto& cuda = halfstep::detail::TrainerAccess::core(trainer).device();
  Stopwatch stopwatch(cuda);
  for (int warm_up = 0; warm_up < 20; ++warm_up) step();
  const std::int64_t steps = stopwatch.calls_for(0.04, step);
  std::vector<double> seconds;
  for (int round = 0; round < 15; ++round) {
    seconds.push_back(stopwatch.seconds(step, steps) / static_cast<double>(steps));
  }
  const double rate = static_cast<double>(shape.rows) / median(seconds);
  const std::string name = fmt::format("MLP {}, {}, {}", shape.name, type, way);
  report.tell(name, fmt::format("{:.0f} samples/s, {:.3f} ms a step", rate, 1e3 * median(seconds)),
              {{"samples/s", rate}, {"shape", shape.name}, {"type", type}, {"way", way}});

  constexpr std::int64_t counted = 4;
  (void)trainer.step(batch).report();  // and those before it: there is room for the next ones' reports
  cuda.synchronize();
  halfstep_test::reset_cuda_calls();
  for (std::int64_t i = 0; i < counted; ++i) step();
  const halfstep_test::CudaCalls calls = halfstep_test::cuda_calls();
  const std::int64_t waits = calls.stream_waits + calls.event_waits;
  report.require(
      name + ": calls of CUDA", waits == 0 && calls.device_allocations == 0 && calls.device_frees == 0,
      fmt::format(
          "{:g} launches, {:g} products, {:g} graphs, {:g} copies a step; {} waits and {} allocations in {}",
          static_cast<double>(calls.launches) / counted, static_cast<double>(calls.matmuls) / counted,
          static_cast<double>(calls.graph_launches) / counted,
          static_cast<double>(calls.copies_to_device + calls.copies_to_host + calls.copies_on_device) /
              counted,
          waits, calls.device_allocations, counted));
  halfstep::StepReport last = trainer.step(batch).report();
  // A loss scale that has just grown may have to fall back.
  for (int again = 0; again < 3 && !last.applied(); ++again) last = trainer.step(batch).report();
  report.require(
      name + ": it trains", std::isfinite(last.loss) && last.applied(),
      fmt::format("loss {:.4f} after {} steps, {} skipped", last.loss, last.attempts, last.skipped));
}

template <class Policy>
void train(Report& report, const std::string& type) {
  for (const MlpShape& shape : mlp_shapes) {
    halfstep::Trainer<Mlp, halfstep::AdamW, Policy, halfstep::Cuda> trainer(
        Mlp(shape), {.learning_rate = 1e-4f}, {.clip_norm = 1.0f, .seed = 1});
    const MlpBatch batch(shape);
    const auto step = [&] { trainer.step(batch); };
    measure_steps(report, trainer, shape, batch, type, "eager", step);
    trainer.capture();
    measure_steps(report, trainer, shape, batch, type, "captured", step);
    const halfstep::GraphUse use = trainer.graph_use();
    report.require(fmt::format("MLP {}, {}, captured: graphs", shape.name, type),
                   use.refusal.empty() && use.captured == 1 && use.one_by_one <= 2,
                   fmt::format("{} captured, {} replayed, {} pieces one by one{}{}", use.captured, use.replayed,
                               use.one_by_one, use.refusal.empty() ? "" : "; refused: ", use.refusal));
  }
}

inline void training(Report& report) {
  train<halfstep::Float16ScaledPolicy>(report, "float16");
  train<halfstep::BFloat16Policy>(report, "bfloat16");
  train<halfstep::Float32Policy>(report, "float32");
}

}  // namespace figures
