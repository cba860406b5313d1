#pragma once

#include <cstddef>
#include <halfstep/evidence/comparison.hpp>
#include <halfstep/evidence/json.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace halfstep {

inline void to_json(nlohmann::ordered_json& json, const MemoryUse& use) {
  json = {{"masters", use.masters},     {"working_copy", use.working_copy}, {"gradients", use.gradients},
          {"moments", use.moments},     {"activations", use.activations},   {"reserve", use.reserve},
          {"workspace", use.workspace}, {"bookkeeping", use.bookkeeping},   {"total", use.total()}};
}

inline void to_json(nlohmann::ordered_json& json, const PolicyRun& run) {
  json = {{"policy", run.policy},
          {"validation_loss", json_number(run.validation_loss)},
          {"validation_accuracy", json_number(run.validation_accuracy)},
          {"final_loss", json_number(run.final_loss)},
          {"updates", run.state.update_number},
          {"attempts", run.state.attempts},
          {"skipped", run.state.skipped},
          {"final_scale", json_number(run.state.scaler.scale)},
          {"memory", run.memory},
          {"timing",
           {{"samples_per_second", json_number(run.samples_per_second)},
            {"step_seconds", json_number(run.step_seconds)},
            {"short_batch", run.short_batch},
            {"short_step_seconds", json_number(run.short_step_seconds)},
            {"long_tail_seconds", json_number(run.long_tail_seconds)}}},
          {"predictions", run.predictions},
          {"steps", run.steps}};
  if (!run.stopped.empty()) json["stopped"] = run.stopped;
}

inline void to_json(nlohmann::ordered_json& json, const PolicyDifference& difference) {
  auto margins = nlohmann::ordered_json::array();
  for (const float margin : difference.margins) margins.push_back(json_number(margin));
  json = {{"label_flips", difference.flips},
          {"label_flips_at_a_small_margin", difference.near_flips},
          {"margins", std::move(margins)},
          {"largest_logit_difference", json_number(difference.largest_logit_difference)},
          {"mean_logit_difference", json_number(difference.mean_logit_difference)},
          {"loss_increase", json_number(difference.loss_increase)}};
}

/// All figures of a comparison, every step's report included. Numbers that are not finite are as in json.hpp.
inline void to_json(nlohmann::ordered_json& json, const Comparison& comparison) {
  json = {{"epochs", comparison.epochs},
          {"seed", comparison.seed},
          {"batch_size", comparison.batch_size},
          {"margin_tolerance", json_number(comparison.margin_tolerance)},
          {"runs", nlohmann::ordered_json::array()}};
  if (comparison.reference >= 0) {
    json["reference"] = comparison.runs[static_cast<std::size_t>(comparison.reference)].policy;
  }
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    nlohmann::ordered_json run = comparison.runs[i];
    if (comparison.reference >= 0) run.update(nlohmann::ordered_json(comparison.differences[i]));
    json["runs"].push_back(std::move(run));
  }
}

}  // namespace halfstep
