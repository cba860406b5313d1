// The smallest program that shows it all: a linear layer, AdamW, float16 under a dynamic loss scale, clipping.

#include <cstdio>

#include <halfstep/halfstep.hpp>

using namespace halfstep;

struct Samples {
  Tensor<const float> inputs;
  Tensor<const int> labels;
};

struct Classifier {
  Linear layer{3, 2};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
  template <class Tape>
  auto forward(Tape& tape, auto inputs) {
    return layer(tape, inputs);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Samples& samples) {
    return cross_entropy(tape, forward(tape, samples.inputs), samples.labels);
  }
};

int main() {
  const float inputs[] = {0.7f, 0.2f, 0.1f,   //
                          0.1f, 0.6f, 0.3f};  //
  const int labels[] = {0, 1};
  const Samples samples{{inputs, {2, 3}}, {labels, {2}}};

  Trainer<Classifier, AdamW, Float16ScaledPolicy> trainer{
      Classifier{}, AdamW{.learning_rate = 0.00047f}, {.clip_norm = 1.7f, .seed = 7}};

  for (int step = 1; step <= 10; ++step) {
    const StepReport report = trainer.step(samples).report();
    std::printf("step %2d  %-8s  loss %.6f  gradient norm %.6f  scale %g\n", step, name_of(report.outcome), report.loss,
                report.gradient_norm, static_cast<double>(report.scale));
  }
}
