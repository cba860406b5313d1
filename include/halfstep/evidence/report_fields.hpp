#pragma once

#include <cstdint>
#include <halfstep/evidence/step_report.hpp>
#include <string_view>
#include <utility>

namespace halfstep {

/// Calls `visit(name, value)` for everything that a report says, in this order, under the names that
/// StepReport has: one list for all logs. A value is a std::int64_t, a float, a double or a std::string_view.
template <class Visit>
void for_each_field(const StepReport& report, Visit&& visit) {
  visit("attempts", report.attempts);
  visit("update_number", report.update_number);
  visit("outcome", std::string_view(name_of(report.outcome)));
  visit("skip_cause", std::string_view(name_of(report.skip_cause)));
  visit("loss", report.loss);
  visit("gradient_norm", report.gradient_norm);
  visit("clip_coefficient", report.clip_coefficient);
  visit("learning_rate", report.learning_rate);
  visit("scale", report.scale);
  visit("next_scale", report.next_scale);
  visit("scale_change", std::string_view(name_of(report.scale_change)));
  visit("skipped", report.skipped);
  visit("skipped_in_a_row", report.skipped_in_a_row);
  visit("empty", report.empty);
  visit("schedule_position", report.schedule_position);
  visit("micro_batches", report.micro_batches);
  visit("valid_count", report.valid_count);
  visit("first_non_finite_tensor", std::string_view(report.first_non_finite.tensor));
  visit("first_non_finite_index", report.first_non_finite.index);
}

}  // namespace halfstep
