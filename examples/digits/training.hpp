#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <halfstep/evidence/console.hpp>
#include <halfstep/evidence/report_totals.hpp>
#include <halfstep/halfstep.hpp>

#include "digits.hpp"
#include "model.hpp"

struct TrainingOptions {
  int epochs = 40;
  std::uint64_t seed = 7;
  std::int64_t batch_size = 64;
};

struct TrainingResult {
  std::string policy;
  std::vector<halfstep::StepReport> steps;
  std::vector<std::int32_t> predictions;  ///< on the validation set
  double validation_accuracy = 0;
  double validation_loss = 0;
  double final_loss = 0;  ///< mean over the samples of the last epoch's applied windows
  double samples_per_second = 0;
  halfstep::StepState state;
};

inline std::vector<std::int32_t> most_likely(halfstep::Tensor<const float> logits) {
  std::vector<std::int32_t> labels;
  for (std::int64_t row = 0; row < logits.rows(); ++row) {
    const float* first = logits.data() + row * logits.columns();
    labels.push_back(static_cast<std::int32_t>(std::max_element(first, first + logits.columns()) - first));
  }
  return labels;
}

template <class Policy>
TrainingResult train(const Digits& data, const TrainingOptions& options) {
  using namespace halfstep;
  Loader loader(data.training, {.batch_size = options.batch_size}, Shuffled(options.seed));
  const std::int64_t updates = options.epochs * loader.batches_per_epoch();
  Trainer<DigitsMlp, AdamW, Policy> trainer{
      DigitsMlp{},
      AdamW{.learning_rate = warmup_cosine(1e-2f, std::min<std::int64_t>(50, updates / 2), updates)},
      {.clip_norm = 1.0f, .seed = options.seed, .parameters = {parameters_named("*.bias").no_decay()}}};

  TrainingResult result;
  result.policy = Policy::name;
  constexpr std::int64_t lines = 8;
  ConsoleSink console({.every = loader.batches_per_epoch() * std::max<std::int64_t>(1, options.epochs / lines),
                       .total = updates,
                       .label = fmt::format("{:<9}", Policy::name)});
  ReportTotals last_epoch;
  double seconds = 0;
  std::int64_t samples = 0;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    last_epoch = {};
    for (auto& batch : loader) {
      const auto start = std::chrono::steady_clock::now();
      const StepReport report = trainer.step(batch).report();
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      samples += report.valid_count;
      last_epoch.add(report);
      console.write(report);
      result.steps.push_back(report);
    }
  }
  console.finish();

  const auto validation = data.validation.all();
  result.predictions = most_likely(trainer.predict(validation.features));
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < result.predictions.size(); ++i) {
    correct += result.predictions[i] == validation.labels[static_cast<std::int64_t>(i)];
  }
  result.validation_accuracy = static_cast<double>(correct) / static_cast<double>(data.validation.size());
  result.validation_loss = trainer.evaluate(validation).loss();
  result.final_loss = last_epoch.mean_loss();
  result.samples_per_second = static_cast<double>(samples) / seconds;
  result.state = trainer.state();
  return result;
}
