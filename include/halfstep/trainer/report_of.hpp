#pragma once

#include <limits>
#include <span>
#include <string>

#include <halfstep/evidence/step_report.hpp>
#include <halfstep/nn/parameter_store.hpp>
#include <halfstep/trainer/step_record.hpp>

namespace halfstep::detail {

/// What a step did, for people.
inline StepReport report_of(const StepDecision& decision, const WindowTotals& window, const GradientFacts& facts,
                            std::span<const ParameterInfo> parameters) {
  StepReport report;
  report.outcome = decision.outcome;
  report.skip_cause = decision.skip_cause;
  report.loss = window.valid_count == 0 ? std::numeric_limits<double>::quiet_NaN()
                                        : window.loss_sum / static_cast<double>(window.valid_count);
  report.gradient_norm = decision.gradient_norm;
  report.clip_coefficient = decision.clip_coefficient;
  report.scale = decision.scale_used;
  report.next_scale = decision.next.scaler.scale;
  report.scale_change = decision.scale_change;
  report.learning_rate = decision.learning_rate;
  report.update_number = decision.next.update_number;
  report.attempts = decision.next.attempts;
  report.skipped = decision.next.skipped;
  report.skipped_in_a_row = decision.next.skipped_in_a_row;
  report.empty = decision.next.empty;
  report.schedule_position = decision.next.schedule_position;
  report.micro_batches = window.micro_batches;
  report.valid_count = window.valid_count;
  if (facts.first_bad_parameter >= 0) {
    report.first_non_finite = {parameters[static_cast<std::size_t>(facts.first_bad_parameter)].name,
                               facts.first_bad_index};
  }
  return report;
}

inline std::string stop_message(const StepReport& report) {
  std::string message = "training stopped: " + std::to_string(report.skipped_in_a_row) +
                        " windows in a row were skipped, as many as the policy's stop_after_skips allows; ";
  if (report.skip_cause == SkipCause::loss) {
    message += "the loss is not finite, which no loss scale can cure: look at the data, the model, the learning rate";
  } else {
    message += "the first gradient that is not finite is \"" + report.first_non_finite.tensor + "\"[" +
               std::to_string(report.first_non_finite.index) + "] at loss scale " + std::to_string(report.scale);
    if (report.scale_change == ScaleChange::at_minimum) {
      message += ", the smallest allowed: look at the data and the model, not at the scale";
    }
  }
  return message;
}

}  // namespace halfstep::detail
