#pragma once

#include <filesystem>
#include <fstream>
#include <halfstep/evidence/baseline.hpp>
#include <halfstep/state/publish.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace halfstep {

inline void to_json(nlohmann::ordered_json& json, const TensorSketch& sketch) {
  json = {{"norm", sketch.norm}, {"products", sketch.products}};
}
inline void from_json(const nlohmann::ordered_json& json, TensorSketch& sketch) {
  json.at("norm").get_to(sketch.norm);
  json.at("products").get_to(sketch.products);
}

/// Every step of a baseline is applied, and every number finite, so that JSON holds it with all its bits.
inline void to_json(nlohmann::ordered_json& json, const BaselineStep& step) {
  json = {{"loss", step.loss},
          {"gradient_norm", step.gradient_norm},
          {"update_number", step.update_number},
          {"gradients", step.gradients},
          {"weights", step.weights}};
}
inline void from_json(const nlohmann::ordered_json& json, BaselineStep& step) {
  step.outcome = Outcome::applied;
  json.at("loss").get_to(step.loss);
  json.at("gradient_norm").get_to(step.gradient_norm);
  json.at("update_number").get_to(step.update_number);
  json.at("gradients").get_to(step.gradients);
  json.at("weights").get_to(step.weights);
}

inline void to_json(nlohmann::ordered_json& json, const Baseline& baseline) {
  json = {{"format", "halfstep baseline 1"},   {"policy", baseline.policy},
          {"optimizer", baseline.optimizer},   {"seed", baseline.seed},
          {"parameters", baseline.parameters}, {"first_weights", baseline.first_weights},
          {"steps", baseline.steps},           {"predictions", baseline.predictions}};
}
inline void from_json(const nlohmann::ordered_json& json, Baseline& baseline) {
  if (json.at("format") != "halfstep baseline 1") throw Error("\"format\" is " + json.at("format").dump());
  json.at("policy").get_to(baseline.policy);
  json.at("optimizer").get_to(baseline.optimizer);
  json.at("seed").get_to(baseline.seed);
  json.at("parameters").get_to(baseline.parameters);
  json.at("first_weights").get_to(baseline.first_weights);
  json.at("steps").get_to(baseline.steps);
  json.at("predictions").get_to(baseline.predictions);
  if (baseline.first_weights.size() != baseline.parameters.size()) {
    throw Error("there are not as many first weights as parameters");
  }
  for (const BaselineStep& step : baseline.steps) {
    if (step.gradients.size() != baseline.parameters.size() ||
        step.weights.size() != baseline.parameters.size()) {
      throw Error("a step has not as many tensors as there are parameters");
    }
  }
}

/// Writes a baseline as JSON, all or nothing. Throws CheckpointError, as `publish` does.
inline void save_baseline(const std::filesystem::path& path, const Baseline& baseline) {
  const std::string text = nlohmann::ordered_json(baseline).dump(1) + '\n';
  publish(system_files(), path, [&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
}

/// Throws Error with the path for a file that cannot be read or is no baseline.
inline Baseline load_baseline(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw Error("cannot read the baseline \"" + path.string() + "\"; is it there?");
  try {
    return nlohmann::ordered_json::parse(file).get<Baseline>();
  } catch (const std::exception& error) {
    throw Error("\"" + path.string() + "\" is no baseline: " + error.what() + "; record it again");
  }
}

}  // namespace halfstep
