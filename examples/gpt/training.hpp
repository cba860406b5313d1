#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <halfstep/halfstep.hpp>
#include <halfstep/state/checkpoints.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generate.hpp"
#include "model.hpp"
#include "results.hpp"
#include "settings.hpp"
#include "speed.hpp"
#include "text.hpp"
#include "tokenizer.hpp"
#include "weights.hpp"

namespace gpt {

/// One run of the program under one policy.
template <class Policy>
class Training {
 public:
  using Trainer = halfstep::Trainer<Model, halfstep::AdamW, Policy>;

  Training(const Settings& settings, const Tokenizer& tokenizer)
      : settings_(settings), tokenizer_(tokenizer), trainer_(made(settings, tokenizer)) {
    if (!settings.weights.empty()) Gpt2Weights(settings.weights).load_into(trainer_);
    if (!settings.save.empty())
      checkpoints_.emplace(settings.save, halfstep::CheckpointsOptions{.background = true});
    if (settings.resume) {
      if (auto from = checkpoints_->resume(trainer_)) {
        for (const auto& damaged : from->skipped)
          fmt::print("passed over {}: {}\n", damaged.path.string(), damaged.why);
        position_ = from->data;
      } else {
        throw halfstep::CheckpointError(settings.save + " holds no checkpoint to resume from");
      }
    } else if (checkpoints_ && !checkpoints_->generations().list().empty()) {
      throw halfstep::CheckpointError(
          settings.save +
          " holds checkpoints of a run; --resume goes on with it, another folder begins anew");
    }
  }

  void train() {
    const std::int64_t last =
        settings_.stop_after > 0 ? std::min(settings_.stop_after, settings_.steps) : settings_.steps;
    describe();
    if (attempts() >= last) return;
    const Text text = Text::read(settings_.text, tokenizer_, length());
    halfstep::Loader loader(text.training,
                            {.batch_size = std::min(settings_.batch, text.training.size()),
                             .drop_last = true,
                             .micro_batches = settings_.accumulate,
                             .windows_cross_epochs = true},
                            halfstep::Shuffled(settings_.seed));
    if (position_) loader.seek(*position_);
    peak_ = measured_peak<halfstep::DefaultDevice>();
    fmt::print("{} tokens to train on, {} held out\n", text.training.tokens(), text.held_out.tokens());
    if (position_) fmt::print("goes on from step {}, epoch {}\n", attempts(), position_->epoch);
    while (attempts() < last) {
      const halfstep::StepReport report = step(loader);
      steps_.push_back(report);
      const std::int64_t done = report.attempts;
      if (done % settings_.print_every == 0 || done == last) print(report);
      if (every(settings_.evaluate_every, done) || done == last) hold_out(text, done);
      if (checkpoints_ && (every(settings_.evaluate_every, done) || done == last)) {
        checkpoints_->save(trainer_, {.data = loader.position()});
      }
      if (every(settings_.sample_every, done)) sample(done);
    }
    if (checkpoints_) checkpoints_->wait();
  }

  /// Goes on from the prompt of the settings, and prints it as it comes.
  void go_on_from_prompt() {
    fmt::print("{}", settings_.prompt);
    generate(trainer_, tokenizer_.encode(settings_.prompt), settings_.tokens, settings_.sampling,
             [&](std::int32_t token) {
               fmt::print("{}", tokenizer_.token(token));
               std::fflush(stdout);
             });
    fmt::print("\n");
  }

  Results results() const {
    return {.policy = std::string(Policy::name),
            .sizes = trainer_sizes_,
            .weights = parameter_count(),
            .tokens_per_second = tokens_per_second(),
            .peak = peak_,
            .utilisation = utilisation(),
            .evaluations = evaluations_,
            .steps = steps_};
  }

 private:
  static ModelSizes sizes_of(const Settings& settings, const Tokenizer& tokenizer) {
    ModelSizes sizes = settings.sizes;
    sizes.vocabulary = tokenizer.size();
    if (settings.weights.empty()) return sizes;
    if (sizes.architecture != Architecture::gpt2) {
      throw halfstep::ConfigurationError("--weights loads a published GPT-2; leave --architecture at gpt2");
    }
    ModelSizes published = Gpt2Weights(settings.weights).sizes();
    if (settings.heads_given) published.heads = sizes.heads;
    published.dropout = sizes.dropout;
    published.recompute = sizes.recompute;
    if (tokenizer.size() > published.vocabulary) {
      throw halfstep::ConfigurationError("the vocabulary has " + std::to_string(tokenizer.size()) +
                                         " tokens, the weights' has " + std::to_string(published.vocabulary) +
                                         "; give the vocabulary of these weights with --tokenizer");
    }
    return published;
  }
  Trainer made(const Settings& settings, const Tokenizer& tokenizer) {
    trainer_sizes_ = sizes_of(settings, tokenizer);
    const std::int64_t length = std::max<std::int64_t>(settings.steps, 1);
    const auto rate = halfstep::warmup_cosine(settings.learning_rate, std::min(settings.warmup, length - 1),
                                              length, settings.learning_rate / 10);
    return Trainer(
        Model(trainer_sizes_),
        halfstep::AdamW{.learning_rate = rate, .beta2 = 0.95, .weight_decay = settings.weight_decay},
        {.clip_norm = settings.clip,
         .seed = settings.seed,
         .parameters = {halfstep::parameters_where([](const auto& parameter) {
                          return !decays(parameter);
                        }).no_decay()}});
  }

  /// Tokens of a sequence: published weights may have fewer positions than the option says, or more.
  std::int64_t length() const { return std::min(settings_.sizes.context, trainer_sizes_.context); }
  std::int64_t attempts() const { return trainer_.state().attempts; }
  static bool every(std::int64_t interval, std::int64_t done) { return interval > 0 && done % interval == 0; }

  template <class Loader>
  halfstep::StepReport step(Loader& loader) {
    for (;;) {
      auto* const batch = loader.next();
      if (batch == nullptr) continue;  // the next epoch begins
      const auto start = Clock::now();
      trainer_.accumulate(*batch);
      std::optional<halfstep::StepTicket> ticket;
      if (loader.ends_window()) ticket = trainer_.update();
      seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
      tokens_ += batch->inputs.size();
      if (ticket) return ticket->report();
    }
  }

  void hold_out(const Text& text, std::int64_t done) {
    const HeldOut result =
        evaluate(trainer_, text.held_out, tokenizer_, settings_.batch, settings_.evaluate_batches);
    evaluations_.emplace_back(done, result);
    fmt::print("step {:>5}   held-out loss {:.4f} nats a token, {:.4f} nats a byte, over {} tokens\n", done,
               result.nats_per_token(), result.nats_per_byte(), result.tokens);
    std::fflush(stdout);
  }

  void sample(std::int64_t done) {
    const std::string start = settings_.prompt.empty() ? "And " : settings_.prompt;
    std::string text;
    generate(trainer_, tokenizer_.encode(start), std::min<std::int64_t>(settings_.tokens, 100),
             settings_.sampling, [&](std::int32_t token) { text += tokenizer_.token(token); });
    fmt::print("step {:>5}   sample: {}{}\n", done, start, text);
  }

  void describe() const {
    const ModelSizes& sizes = trainer_sizes_;
    fmt::print("{}: {} layers, {} wide, {} heads, context {}, vocabulary {}: {:.2f} million weights\n",
               Policy::name, sizes.layers, sizes.width, sizes.heads, sizes.context, sizes.vocabulary,
               static_cast<double>(parameter_count()) * 1e-6);
  }
  void print(const halfstep::StepReport& report) const {
    fmt::print(
        "step {:>5} of {}   loss {:.4f}   gradient norm {:.3f}   rate {:.2e}   scale {:g}   skipped {}   "
        "{:.0f} tokens/s, {:.1f} % of {:.0f} GFLOP/s\n",
        report.attempts, settings_.steps, report.loss, report.gradient_norm, report.learning_rate,
        report.next_scale, report.skipped, tokens_per_second(), utilisation() * 100, peak_ * 1e-9);
    std::fflush(stdout);
  }

  std::int64_t parameter_count() const {
    std::int64_t count = 0;
    for (const auto& parameter : trainer_.parameters()) count += parameter.shape.size();
    return count;
  }
  /// All but the positions and, where the head is another, the token embedding: those are looked up.
  std::int64_t weights_in_products() const {
    std::int64_t count = parameter_count();
    for (const auto& parameter : trainer_.parameters()) {
      const bool own_head = trainer_sizes_.architecture == Architecture::llama;
      if (parameter.name == "wpe.weight" || (own_head && parameter.name == "wte.weight"))
        count -= parameter.shape.size();
    }
    return count;
  }
  double tokens_per_second() const { return static_cast<double>(tokens_) / seconds_; }
  double utilisation() const {
    return tokens_per_second() * operations_per_token(trainer_sizes_, weights_in_products(), length()) /
           peak_;
  }

  using Clock = std::chrono::steady_clock;

  const Settings& settings_;
  const Tokenizer& tokenizer_;
  ModelSizes trainer_sizes_;
  Trainer trainer_;
  std::optional<halfstep::Checkpoints> checkpoints_;
  std::optional<halfstep::LoaderPosition> position_;
  double peak_ = 0;
  double seconds_ = 0;
  std::int64_t tokens_ = 0;
  std::vector<halfstep::StepReport> steps_;
  std::vector<std::pair<std::int64_t, HeldOut>> evaluations_;
};

}  // namespace gpt
