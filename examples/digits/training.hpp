#pragma once

#include <cstdint>
#include <halfstep/evidence/comparison.hpp>
#include <string_view>

#include "digits.hpp"

struct TrainingOptions {
  int epochs = 40;
  std::uint64_t seed = 7;
  std::int64_t batch_size = 64;
  float learning_rate = 1e-2f;
  double margin_tolerance = 0.05;
};

/// Trains under "float32", "bfloat16" or "float16", or under "all" of them, and compares. Shows progress.
/// Throws halfstep::Error.
halfstep::Comparison train(const Digits& data, std::string_view policy, const TrainingOptions& training);
