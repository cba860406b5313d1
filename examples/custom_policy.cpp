// A policy of one's own, beside one of the library's in the same program: a smaller first scale that grows sooner and
// survives one overflow before it falls, a schedule that moves on when an update is skipped, and GELU in float.

#include <cstdio>

#include <halfstep/halfstep.hpp>

using namespace halfstep;

struct CautiousPolicy : Float16ScaledPolicy {
  static constexpr std::string_view name = "cautious float16";
  static constexpr DynamicScaler scaler{.initial_scale = 1024, .growth_interval = 50, .hysteresis = 2};
  using on_skip = AdvanceSchedule;
  using in_float = operation::List<operation::Gelu>;
};

struct Points {
  Tensor<const float> inputs;
  Tensor<const float> targets;
};

/// Learns x0 * x1 from points in the unit square. Its last layer computes in float under every policy.
struct Product {
  Linear hidden{2, 32};
  ComputeIn<float, Linear> output{32, 1};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("hidden", hidden);
    visit("output", output);
  }
  template <class Tape>
  auto forward(Tape& tape, auto inputs) {
    return output(tape, gelu(tape, hidden(tape, inputs)));
  }
  template <class Tape>
  Loss loss(Tape& tape, const Points& points) {
    return mean_squared_error(tape, forward(tape, points.inputs), points.targets);
  }
};

template <class Policy>
void train(const Points& points) {
  Trainer<Product, AdamW, Policy> trainer{
      Product{}, AdamW{.learning_rate = warmup_cosine(1e-2f, 20, 400)}, {.clip_norm = 1.0f, .seed = 7}};
  for (int step = 1; step <= 400; ++step) {
    const StepReport report = trainer.step(points).report();
    if (step == 1 || step % 100 == 0) {
      std::printf("%-17s step %3d  %-8s  loss %.6f  scale %g\n", std::string(Policy::name).c_str(), step,
                  name_of(report.outcome), report.loss, static_cast<double>(report.scale));
    }
  }
}

int main() {
  constexpr int side = 16;
  float inputs[side * side * 2], targets[side * side];
  for (int i = 0; i < side * side; ++i) {
    const float x = static_cast<float>(i % side) / side, y = static_cast<float>(i / side) / side;
    inputs[2 * i] = x;
    inputs[2 * i + 1] = y;
    targets[i] = x * y;
  }
  const Points points{{inputs, {side * side, 2}}, {targets, {side * side, 1}}};
  train<CautiousPolicy>(points);
  train<Float16ScaledPolicy>(points);
}
