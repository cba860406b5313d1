#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <halfstep/evidence/baseline.hpp>
#include <halfstep/state/publish.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfstep {

namespace detail {

inline constexpr std::string_view baseline_format = "halfstep baseline 1";

// Field by field, and lists by loops: what braces hold, each name's length in them and each kind of list are types of
// their own to the JSON library, and compiling them took longer than all else here.

template <class T>
nlohmann::ordered_json json_list(const std::vector<T>& values) {
  auto list = nlohmann::ordered_json::array();
  for (const T& value : values) list.push_back(nlohmann::ordered_json(value));
  return list;
}
/// `what`: the name of what is read, for a refusal.
template <class T>
void read_json(const nlohmann::ordered_json& json, const std::string& /*what*/, T& value) {
  value = json.get<T>();
}
template <class T>
void read_json(const nlohmann::ordered_json& json, const std::string& what, std::vector<T>& values) {
  if (!json.is_array()) throw Error(what + " is no list, but " + json.type_name());
  const std::string of_element = "an element of " + what;
  values.clear();
  for (const nlohmann::ordered_json& element : json) read_json(element, of_element, values.emplace_back());
}
template <class T>
void read_field(const nlohmann::ordered_json& json, const std::string& name, T& value) {
  read_json(json.at(name), '"' + name + '"', value);
}

}  // namespace detail

inline void to_json(nlohmann::ordered_json& json, const TensorSketch& sketch) {
  json = nlohmann::ordered_json::object();
  json["norm"] = sketch.norm;
  json["products"] = nlohmann::ordered_json::array();
  for (const double product : sketch.products) json["products"].push_back(nlohmann::ordered_json(product));
}
inline void from_json(const nlohmann::ordered_json& json, TensorSketch& sketch) {
  detail::read_field(json, "norm", sketch.norm);
  std::vector<double> products;
  detail::read_field(json, "products", products);
  if (products.size() != sketch.products.size()) {
    throw Error("a tensor has " + std::to_string(products.size()) + " products, not " +
                std::to_string(sketch.products.size()));
  }
  std::copy(products.begin(), products.end(), sketch.products.begin());
}

/// Every step of a baseline is applied, and every number finite, so that JSON holds it with all its bits.
inline void to_json(nlohmann::ordered_json& json, const BaselineStep& step) {
  json = nlohmann::ordered_json::object();
  json["loss"] = step.loss;
  json["gradient_norm"] = step.gradient_norm;
  json["update_number"] = step.update_number;
  json["gradients"] = detail::json_list(step.gradients);
  json["weights"] = detail::json_list(step.weights);
}
inline void from_json(const nlohmann::ordered_json& json, BaselineStep& step) {
  step.outcome = Outcome::applied;
  detail::read_field(json, "loss", step.loss);
  detail::read_field(json, "gradient_norm", step.gradient_norm);
  detail::read_field(json, "update_number", step.update_number);
  detail::read_field(json, "gradients", step.gradients);
  detail::read_field(json, "weights", step.weights);
}

inline void to_json(nlohmann::ordered_json& json, const Baseline& baseline) {
  json = nlohmann::ordered_json::object();
  json["format"] = std::string(detail::baseline_format);
  json["policy"] = baseline.policy;
  json["optimizer"] = baseline.optimizer;
  json["seed"] = baseline.seed;
  json["parameters"] = detail::json_list(baseline.parameters);
  json["first_weights"] = detail::json_list(baseline.first_weights);
  json["steps"] = detail::json_list(baseline.steps);
  json["predictions"] = nlohmann::ordered_json::array();
  for (const auto& prediction : baseline.predictions) json["predictions"].push_back(detail::json_list(prediction));
}
inline void from_json(const nlohmann::ordered_json& json, Baseline& baseline) {
  const auto& format = json.at(std::string("format"));
  if (!format.is_string() || format.get_ref<const std::string&>() != detail::baseline_format) {
    throw Error("\"format\" is " + format.dump());
  }
  detail::read_field(json, "policy", baseline.policy);
  detail::read_field(json, "optimizer", baseline.optimizer);
  detail::read_field(json, "seed", baseline.seed);
  detail::read_field(json, "parameters", baseline.parameters);
  detail::read_field(json, "first_weights", baseline.first_weights);
  detail::read_field(json, "steps", baseline.steps);
  detail::read_field(json, "predictions", baseline.predictions);
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
