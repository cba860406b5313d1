#pragma once

#include <cstdint>
#include <string>

#include "generate_options.hpp"
#include "sizes.hpp"

namespace gpt {

/// What the command line says; see main.cpp for what each is.
struct Settings {
  std::string text = "build/king-james.txt";
  std::string tokenizer;
  std::string pattern;
  std::string weights;

  ModelSizes sizes;
  bool heads_given = false;

  std::int64_t batch = 32;
  std::int64_t accumulate = 1;
  std::int64_t steps = 300;
  std::int64_t stop_after = 0;
  float learning_rate = 3e-3f;
  std::int64_t warmup = 20;
  float weight_decay = 0.1f;
  float clip = 1.0f;
  std::uint64_t seed = 7;

  std::string save;
  bool resume = false;
  std::int64_t evaluate_every = 100;
  std::int64_t evaluate_batches = 50;
  std::int64_t sample_every = 100;
  std::int64_t print_every = 10;
  std::string json;

  std::string prompt;
  std::int64_t tokens = 200;
  SamplingOptions sampling;
};

}  // namespace gpt
