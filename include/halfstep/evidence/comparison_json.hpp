#pragma once

#include <cstddef>
#include <cstdint>
#include <halfstep/evidence/comparison.hpp>
#include <halfstep/evidence/json.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace halfstep {

// Field by field: what braces hold, and each name's length in them, are types of their own to the JSON library, and
// compiling them takes long.

inline void to_json(nlohmann::ordered_json& json, const MemoryUse& use) {
  json = nlohmann::ordered_json::object();
  json["masters"] = use.masters;
  json["working_copy"] = use.working_copy;
  json["gradients"] = use.gradients;
  json["moments"] = use.moments;
  json["activations"] = use.activations;
  json["reserve"] = use.reserve;
  json["workspace"] = use.workspace;
  json["bookkeeping"] = use.bookkeeping;
  json["total"] = use.total();
}

inline void to_json(nlohmann::ordered_json& json, const PolicyRun& run) {
  json = nlohmann::ordered_json::object();
  json["policy"] = run.policy;
  json["validation_loss"] = json_number(run.validation_loss);
  json["validation_accuracy"] = json_number(run.validation_accuracy);
  json["final_loss"] = json_number(run.final_loss);
  json["updates"] = run.state.update_number;
  json["attempts"] = run.state.attempts;
  json["skipped"] = run.state.skipped;
  json["final_scale"] = json_number(run.state.scaler.scale);
  to_json(json["memory"], run.memory);
  auto& timing = json["timing"];
  timing["samples_per_second"] = json_number(run.samples_per_second);
  timing["step_seconds"] = json_number(run.step_seconds);
  timing["short_batch"] = run.short_batch;
  timing["short_step_seconds"] = json_number(run.short_step_seconds);
  timing["long_tail_seconds"] = json_number(run.long_tail_seconds);
  json["predictions"] = nlohmann::ordered_json::array();
  for (const std::int32_t label : run.predictions) json["predictions"].push_back(std::int64_t{label});
  json["steps"] = nlohmann::ordered_json::array();
  for (const StepReport& step : run.steps) to_json(json["steps"].emplace_back(), step);
  if (!run.stopped.empty()) json["stopped"] = run.stopped;
}

inline void to_json(nlohmann::ordered_json& json, const PolicyDifference& difference) {
  json = nlohmann::ordered_json::object();
  json["label_flips"] = difference.flips;
  json["label_flips_at_a_small_margin"] = difference.near_flips;
  json["margins"] = nlohmann::ordered_json::array();
  for (const float margin : difference.margins) json["margins"].push_back(json_number(margin));
  json["largest_logit_difference"] = json_number(difference.largest_logit_difference);
  json["mean_logit_difference"] = json_number(difference.mean_logit_difference);
  json["loss_increase"] = json_number(difference.loss_increase);
}

/// All figures of a comparison, every step's report included. Numbers that are not finite are as in json.hpp.
inline void to_json(nlohmann::ordered_json& json, const Comparison& comparison) {
  json = nlohmann::ordered_json::object();
  json["epochs"] = comparison.epochs;
  json["seed"] = comparison.seed;
  json["batch_size"] = comparison.batch_size;
  json["margin_tolerance"] = json_number(comparison.margin_tolerance);
  json["runs"] = nlohmann::ordered_json::array();
  if (comparison.reference >= 0) {
    json["reference"] = comparison.runs[static_cast<std::size_t>(comparison.reference)].policy;
  }
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    auto& run = json["runs"].emplace_back();
    to_json(run, comparison.runs[i]);
    if (comparison.reference < 0) continue;
    nlohmann::ordered_json difference;
    to_json(difference, comparison.differences[i]);
    run.update(difference);
  }
}

}  // namespace halfstep
