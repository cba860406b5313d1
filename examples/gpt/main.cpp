// Trains a GPT on a text, from scratch or from published weights, under a precision policy, and goes on from
// a prompt.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <fstream>
#include <halfstep/error.hpp>
#include <halfstep/policy.hpp>
#include <map>
#include <string>

#include "results_json.hpp"
#include "run.hpp"
#include "tokenizer_files.hpp"

namespace {

void add_model_options(CLI::App& app, gpt::Settings& settings) {
  gpt::ModelSizes& sizes = settings.sizes;
  const std::map<std::string, gpt::Architecture> architectures{{"gpt2", gpt::Architecture::gpt2},
                                                               {"llama", gpt::Architecture::llama}};
  app.add_option("--architecture", sizes.architecture,
                 "gpt2, or llama: rotary positions, RmsNorm, SwiGLU, a head of its own")
      ->transform(CLI::CheckedTransformer(architectures, CLI::ignore_case))
      ->default_str("gpt2");
  app.add_option("--layers", sizes.layers, "blocks")->capture_default_str();
  app.add_option("--width", sizes.width, "numbers a token")->capture_default_str();
  app.add_option("--heads", sizes.heads, "of attention; with --weights, width / 64 if not given")
      ->capture_default_str();
  app.add_option("--key-value-heads", sizes.key_value_heads,
                 "heads that keys and values have, 0 for as many as --heads")
      ->capture_default_str();
  app.add_option("--context", sizes.context, "tokens of a sequence")->capture_default_str();
  app.add_option("--dropout", sizes.dropout,
                 "share of what embeddings, attention and MLP give that is dropped")
      ->capture_default_str();
  app.add_flag(
      "--recompute", sizes.recompute,
      "keep only the layers' results and compute their insides twice: less memory, the same numbers");
  app.add_option("--weights", settings.weights,
                 "begin with a published GPT-2 in a safetensors file, whose sizes then hold");
  app.add_option("--tokenizer", settings.tokenizer,
                 "vocabulary: a tokenizer.json (byte-level BPE) or tiktoken's file; bytes if not given");
  app.add_option("--pattern", settings.pattern,
                 "by which text is split for tiktoken's file; GPT-2's if not given");
}

void add_training_options(CLI::App& app, gpt::Settings& settings) {
  app.add_option("--text", settings.text, "file to train on; its last tenth is held out")
      ->capture_default_str();
  app.add_option("--batch", settings.batch, "sequences a micro-batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--accumulate", settings.accumulate, "micro-batches an update")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", settings.steps, "updates in all; 0 trains nothing")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--stop-after", settings.stop_after, "stop at this step of --steps, to be resumed")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--learning-rate", settings.learning_rate,
                 "the highest, after the warm-up; a cosine falls to its tenth")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup", settings.warmup, "updates in which the rate rises")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--weight-decay", settings.weight_decay,
                 "of matrices; biases, norms and embeddings do not decay")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--clip", settings.clip, "longest norm of an update's gradients")->capture_default_str();
  app.add_option("--seed", settings.seed, "of first weights, order, dropout and samples")
      ->capture_default_str();
  app.add_option("--save", settings.save, "folder for checkpoints, at each evaluation and at the end");
  app.add_flag("--resume", settings.resume, "go on from the newest checkpoint in --save");
  app.add_option("--print-every", settings.print_every, "updates to a line")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--evaluate-every", settings.evaluate_every,
                 "updates to a held-out loss; 0 for at the end only")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--evaluate-batches", settings.evaluate_batches,
                 "batches of the held-out text, 0 for all of it")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--sample-every", settings.sample_every, "updates to a sample; 0 for none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--json", settings.json, "write every step's and the held-out figures to this file");
}

void add_generation_options(CLI::App& app, gpt::Settings& settings) {
  app.add_option("--generate", settings.prompt, "go on from this prompt when training is over");
  app.add_option("--tokens", settings.tokens, "that a prompt is gone on by")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--temperature", settings.sampling.temperature,
                 "1 draws as the model says, 0 takes the likeliest")
      ->capture_default_str();
  app.add_option("--top-k", settings.sampling.top_k, "draw from so many likeliest tokens, 0 for all")
      ->capture_default_str();
}

gpt::Tokenizer tokenizer_of(const gpt::Settings& settings) {
  if (settings.tokenizer.empty()) return gpt::Tokenizer::bytes();
  if (settings.pattern.empty()) return gpt::read_tokenizer(settings.tokenizer);
  return gpt::read_tokenizer(settings.tokenizer, settings.pattern);
}

int run(int argc, char** argv) {
  gpt::Settings settings;
  std::string policy = "bfloat16";
  CLI::App app{"Train a GPT on a text under a precision policy, and let it write."};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--policy", policy, "float32, bfloat16 or float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
      ->capture_default_str();
  add_model_options(app, settings);
  add_training_options(app, settings);
  add_generation_options(app, settings);
  try {
    app.parse(argc, argv);
    if (settings.resume && settings.save.empty()) {
      throw CLI::ValidationError("--resume", "there is no folder to resume from; give --save");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  settings.heads_given = app.count("--heads") > 0;
  settings.sampling.seed = settings.seed;
  // Published weights bring sizes of their own, which the model checks.
  if (settings.weights.empty()) settings.sizes.validate();
  settings.sampling.validate();
  const gpt::Tokenizer tokenizer = tokenizer_of(settings);
  const auto train = policy == "float32"    ? gpt::run<halfstep::Float32Policy>
                     : policy == "bfloat16" ? gpt::run<halfstep::BFloat16Policy>
                                            : gpt::run<halfstep::Float16ScaledPolicy>;
  const gpt::Results results = train(settings, tokenizer);
  if (settings.json.empty()) return 0;
  std::ofstream file(settings.json);
  file << gpt::json_of(results).dump(1) << '\n';
  if (!file.flush()) throw halfstep::Error(settings.json + ": cannot be written");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpt: {}\n", error.what());
    return 1;
  }
}
