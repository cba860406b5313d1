#pragma once

#include <cstdint>
#include <halfstep/evidence/step_report.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sizes.hpp"

namespace gpt {

/// A held-out loss and over how much it was taken.
struct HeldOut {
  double loss_sum = 0;
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;
  double nats_per_token() const { return loss_sum / static_cast<double>(tokens); }
  /// What compares vocabularies.
  double nats_per_byte() const { return loss_sum / static_cast<double>(bytes); }
};

/// Everything that was measured in a run.
struct Results {
  std::string policy;
  ModelSizes sizes;
  std::int64_t weights = 0;
  double tokens_per_second = 0;
  double peak = 0;
  double utilisation = 0;
  /// By the step after which they were taken.
  std::vector<std::pair<std::int64_t, HeldOut>> evaluations;
  std::vector<halfstep::StepReport> steps;
};

}  // namespace gpt
