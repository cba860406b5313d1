#pragma once

#include <halfstep/evidence/json.hpp>
#include <nlohmann/json.hpp>

#include "results.hpp"

namespace gpt {

inline nlohmann::ordered_json json_of(const Results& results) {
  using halfstep::json_number;
  using Json = nlohmann::ordered_json;
  const ModelSizes& sizes = results.sizes;
  Json document;
  document["policy"] = results.policy;
  document["model"] = {{"architecture", sizes.architecture == Architecture::llama ? "llama" : "gpt2"},
                       {"layers", sizes.layers},
                       {"width", sizes.width},
                       {"heads", sizes.heads},
                       {"context", sizes.context},
                       {"vocabulary", sizes.vocabulary},
                       {"weights", results.weights}};
  document["tokens_per_second"] = json_number(results.tokens_per_second);
  document["peak_flops"] = json_number(results.peak);
  document["model_flop_utilisation"] = json_number(results.utilisation);
  document["evaluations"] = Json::array();
  for (const auto& [step, held_out] : results.evaluations) {
    document["evaluations"].push_back({{"step", step},
                                       {"nats_per_token", json_number(held_out.nats_per_token())},
                                       {"nats_per_byte", json_number(held_out.nats_per_byte())},
                                       {"tokens", held_out.tokens},
                                       {"bytes", held_out.bytes}});
  }
  document["steps"] = Json::array();
  for (const halfstep::StepReport& report : results.steps) document["steps"].push_back(report);
  return document;
}

}  // namespace gpt
