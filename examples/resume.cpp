// Trains, stops in the middle of an epoch, goes on in a new trainer from the last checkpoint, and shows that the two runs
// are the same bit for bit.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <halfstep/halfstep.hpp>
#include <halfstep/state/checkpoints.hpp>

using namespace halfstep;

namespace {

/// y = sin(x) on a grid.
struct Wave {
  struct Batch {
    std::vector<float> x, y;
    Tensor<const float> inputs() const { return {x.data(), {static_cast<std::int64_t>(x.size()), 1}}; }
    Tensor<const float> targets() const { return {y.data(), {static_cast<std::int64_t>(y.size()), 1}}; }
  };
  std::int64_t size() const { return 1000; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    batch.x.clear();
    batch.y.clear();
    for (const std::int64_t i : indices) {
      batch.x.push_back(static_cast<float>(i) * 0.006f - 3.0f);
      batch.y.push_back(std::sin(batch.x.back()));
    }
  }
};

struct Curve {
  Linear first{1, 64}, second{64, 64}, last{64, 1};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    visit("second", second);
    visit("last", last);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Wave::Batch& batch) {
    auto hidden = dropout(tape, gelu(tape, second(tape, gelu(tape, first(tape, batch.inputs())))), 0.05f);
    return mean_squared_error(tape, last(tape, hidden), batch.targets());
  }
};

using CurveTrainer = Trainer<Curve, AdamW, Float16ScaledPolicy>;

CurveTrainer new_trainer() {
  return CurveTrainer{Curve{}, AdamW{.learning_rate = warmup_cosine(5e-3f, 20, 300)}, {.clip_norm = 1.0f, .seed = 7}};
}

constexpr std::int64_t all_steps = 300;

/// Trains up to `last` updates attempted, saving every 25.
void train(CurveTrainer& trainer, Loader<Wave>& loader, Checkpoints* checkpoints, std::int64_t last) {
  while (trainer.state().attempts < last) {
    Wave::Batch* batch = loader.next();
    if (batch == nullptr) continue;  // the next epoch begins
    const StepReport report = trainer.step(*batch).report();
    if (report.attempts % 50 == 0) {
      std::printf("  step %3lld   loss %.6f   scale %g\n", static_cast<long long>(report.attempts), report.loss,
                  static_cast<double>(report.next_scale));
    }
    if (checkpoints != nullptr && report.attempts % 25 == 0) {
      checkpoints->save(trainer, {.data = loader.position()});
    }
  }
}

bool same_bits(const CurveTrainer& a, const CurveTrainer& b) {
  const StateFile x = capture(a), y = capture(b);
  if (x.metadata != y.metadata) return false;
  for (std::size_t i = 0; i < x.tensors.size(); ++i) {
    if (x.tensors[i].bytes != y.tensors[i].bytes) return false;
  }
  return true;
}

void run(const std::filesystem::path& folder) {
  const Wave data;
  std::printf("without interruption:\n");
  CurveTrainer whole = new_trainer();
  Loader whole_loader(data, {.batch_size = 32}, Shuffled(3));
  train(whole, whole_loader, nullptr, all_steps);

  std::printf("stopped after 140 steps:\n");
  {
    Checkpoints checkpoints(folder, {.keep_last = 3, .background = true});
    CurveTrainer stopped = new_trainer();
    Loader loader(data, {.batch_size = 32}, Shuffled(3));
    train(stopped, loader, &checkpoints, 140);
    checkpoints.wait();
  }

  Checkpoints checkpoints(folder, {.keep_last = 3});
  CurveTrainer resumed = new_trainer();
  Loader loader(data, {.batch_size = 32}, Shuffled(3));
  if (const auto from = checkpoints.resume(resumed)) {
    for (const auto& damaged : from->skipped) std::printf("passed over %s: %s\n", damaged.path.c_str(), damaged.why.c_str());
    loader.seek(from->data.value());
    std::printf("goes on from step %lld, epoch %lld, sample %lld:\n", static_cast<long long>(resumed.state().attempts),
                static_cast<long long>(loader.position().epoch), static_cast<long long>(loader.position().offset));
  }
  train(resumed, loader, &checkpoints, all_steps);
  if (!same_bits(whole, resumed)) throw Error("the two runs differ");
  std::printf("both runs are the same, bit for bit\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "runs/resume");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resume: %s\n", error.what());
    return 1;
  }
}
