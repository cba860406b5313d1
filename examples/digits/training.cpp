#include "training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <halfstep/evidence/console.hpp>
#include <halfstep/halfstep.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model.hpp"

namespace {

using DigitsOptions = halfstep::ComparisonOptions<DigitsMlp, halfstep::AdamW>;

/// Eight lines a policy, and a progress bar on a terminal.
class Progress {
 public:
  Progress(std::int64_t every, std::int64_t total) : every_(every), total_(total) {}
  void operator()(const std::string& policy, const halfstep::StepReport& report) {
    if (policy != policy_) {
      console_ = nullptr;
      console_ = std::make_shared<halfstep::ConsoleSink>(
          halfstep::ConsoleOptions{.every = every_, .total = total_, .label = fmt::format("{:<9}", policy)});
      policy_ = policy;
    }
    console_->write(report);
    if (report.attempts == total_) console_->finish();
  }

 private:
  std::int64_t every_, total_;
  std::string policy_;
  std::shared_ptr<halfstep::ConsoleSink> console_;
};

DigitsOptions options_of(const TrainingOptions& training, const Digits& data) {
  using namespace halfstep;
  constexpr std::int64_t lines = 8;
  const std::int64_t per_epoch = (data.training.size() - 1) / training.batch_size + 1;
  const std::int64_t updates = training.epochs * per_epoch;
  return {.optimizer = AdamW{.learning_rate = warmup_cosine(
                                 training.learning_rate, std::min<std::int64_t>(50, updates / 2), updates)},
          .trainer = {.clip_norm = 1.0f,
                      .seed = training.seed,
                      .parameters = {parameters_named("*.bias").no_decay()}},
          .epochs = training.epochs,
          .batch_size = training.batch_size,
          .long_tail = {0},
          .margin_tolerance = training.margin_tolerance,
          .progress = Progress(per_epoch * std::max<std::int64_t>(1, training.epochs / lines), updates)};
}

}  // namespace

halfstep::Comparison train(const Digits& data, std::string_view policy, const TrainingOptions& training) {
  const DigitsOptions options = options_of(training, data);
  std::vector<halfstep::PolicyRun> runs;
  const auto wanted = [&](std::string_view name) { return policy == "all" || policy == name; };
  if (wanted("float32")) runs.push_back(halfstep::train_under<halfstep::Float32Policy>(data, options));
  if (wanted("bfloat16")) runs.push_back(halfstep::train_under<halfstep::BFloat16Policy>(data, options));
  if (wanted("float16")) runs.push_back(halfstep::train_under<halfstep::Float16ScaledPolicy>(data, options));
  return halfstep::compare_runs(std::move(runs), options);
}
