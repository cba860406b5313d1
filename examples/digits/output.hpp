#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <halfstep/evidence/json.hpp>
#include <nlohmann/json.hpp>

#include "training.hpp"

/// Validation labels that differ from float32's; none if float32 was not trained in this run.
inline std::optional<int> label_flips(const TrainingResult& result, const std::vector<TrainingResult>& all) {
  for (const TrainingResult& reference : all) {
    if (reference.policy != halfstep::Float32Policy::name) continue;
    int flips = 0;
    for (std::size_t i = 0; i < result.predictions.size(); ++i) {
      flips += result.predictions[i] != reference.predictions[i];
    }
    return flips;
  }
  return std::nullopt;
}

inline void print_table(const std::vector<TrainingResult>& results) {
  fmt::print("\n{:<10} {:>19} {:>11} {:>8} {:>8} {:>10} {:>12}\n", "policy", "validation accuracy", "final loss",
             "updates", "skipped", "samples/s", "label flips");
  for (const TrainingResult& result : results) {
    const auto flips = label_flips(result, results);
    fmt::print("{:<10} {:>17.2f} % {:>11.5f} {:>8} {:>8} {:>10.0f} {:>12}\n", result.policy,
               100 * result.validation_accuracy, result.final_loss, result.state.update_number, result.state.skipped,
               result.samples_per_second, flips ? std::to_string(*flips) : "-");
  }
}

/// Throws halfstep::Error where the file cannot be written.
inline void write_json(const std::string& path, const std::vector<TrainingResult>& results,
                       const TrainingOptions& options) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const TrainingResult& result : results) {
    nlohmann::ordered_json run = {{"policy", result.policy},
                          {"validation_accuracy", result.validation_accuracy},
                          {"validation_loss", halfstep::json_number(result.validation_loss)},
                          {"final_loss", halfstep::json_number(result.final_loss)},
                          {"updates", result.state.update_number},
                          {"skipped", result.state.skipped},
                          {"attempts", result.state.attempts},
                          {"final_scale", result.state.scaler.scale},
                          {"samples_per_second", result.samples_per_second},
                          {"predictions", result.predictions}};
    if (const auto flips = label_flips(result, results)) run["label_flips"] = *flips;
    for (const auto& report : result.steps) run["steps"].push_back(report);
    runs.push_back(std::move(run));
  }
  const nlohmann::ordered_json document = {
      {"epochs", options.epochs}, {"seed", options.seed}, {"batch_size", options.batch_size}, {"runs", runs}};
  std::ofstream file(path);
  file << document.dump(1) << '\n';
  file.close();
  if (!file) throw halfstep::Error("cannot write " + path + "; is the folder there, and is the disk full?");
}
