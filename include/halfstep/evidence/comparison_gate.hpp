#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <halfstep/evidence/comparison.hpp>
#include <limits>
#include <string>
#include <vector>

namespace halfstep {

/// What a product can bear. Shares: 0.005 is half a percent.
struct ComparisonGate {
  /// Of the validation samples, how many may have another label than the reference's; those at a margin under
  /// the tolerance are not counted.
  double max_flips = std::numeric_limits<double>::infinity();
  /// How much larger than the reference's the validation loss may be, relative.
  double max_loss_increase = std::numeric_limits<double>::infinity();
};

/// One sentence for each policy and limit that is not kept; none if the gate is passed. A run that stopped
/// early, that learned nothing or whose loss is not finite passes no gate. Throws ConfigurationError where there is no reference.
inline std::vector<std::string> violations(const Comparison& comparison, const ComparisonGate& gate) {
  if (comparison.reference < 0) {
    throw ConfigurationError(
        "a gate needs a run that computes in float to hold the others against; add Float32Policy");
  }
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    const PolicyRun& run = comparison.runs[i];
    const PolicyDifference& difference = comparison.differences[i];
    const double share = static_cast<double>(difference.flips - difference.near_flips) /
                         static_cast<double>(run.predictions.size());
    if (!run.stopped.empty()) faults.push_back(run.policy + ": " + run.stopped);
    if (run.state.update_number == 0) {
      faults.push_back(fmt::format("{}: no update was applied in {} steps: nothing was trained", run.policy, run.steps.size()));
    }
    if (!is_finite(run.validation_loss)) faults.push_back(run.policy + ": the validation loss is not finite");
    if (!(share <= gate.max_flips)) {
      faults.push_back(fmt::format("{}: {:.2f} % of the labels are others, {:g} % are allowed", run.policy,
                                   100 * share, 100 * gate.max_flips));
    }
    if (is_finite(run.validation_loss) && !(difference.loss_increase <= gate.max_loss_increase)) {
      faults.push_back(fmt::format("{}: the validation loss is larger by {:.2f} %, {:g} % are allowed",
                                   run.policy, 100 * difference.loss_increase, 100 * gate.max_loss_increase));
    }
  }
  return faults;
}

}  // namespace halfstep
