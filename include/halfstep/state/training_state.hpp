#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include <halfstep/data/position.hpp>
#include <halfstep/error.hpp>
#include <halfstep/scaling/step_state.hpp>

namespace halfstep {

/// Everything in a checkpoint that is not a tensor, as it stands in the file's metadata under `key`.
struct TrainingState {
  static constexpr int newest_format = 1;
  static constexpr const char* key = "halfstep.training";

  struct Overflow {
    std::int64_t attempt = 0;
    std::string tensor;
    std::int64_t index = -1;
    float scale = 0;
  };
  struct Window {
    double loss_sum = 0;
    std::int64_t valid_count = 0;
    std::int64_t micro_batches = 0;
    double normalizer = 0;
    float seed = 0;
  };

  int format = newest_format;
  std::string library;
  std::string policy;
  std::string compute_type;
  std::string scaler;
  std::string optimizer;
  StepState step;
  std::optional<Overflow> last_overflow;
  std::uint64_t random_seed = 0;
  std::uint64_t random_passes = 0;
  std::optional<Window> window;  ///< of a save in the middle of one
  std::optional<LoaderPosition> data;
  nlohmann::json user;
};

namespace detail {

/// Floating-point numbers are written as C's "%a" writes them, in hexadecimal ("0x1.8p+3"), or as "inf" and "nan":
/// every bit survives, and so do the values for which JSON has no words. Always with a point, whatever the locale.
inline std::string exact_text(double value) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::hex).ptr;
  std::string text(digits, end);
  const std::size_t sign = text.front() == '-' ? 1 : 0;
  if (text[sign] >= '0' && text[sign] <= '9') text.insert(sign, "0x");
  return text;
}

inline double exact_number(const nlohmann::json& json) {
  const auto text = json.get<std::string>();
  std::string digits = text;
  const std::size_t sign = digits.starts_with('-') ? 1 : 0;
  auto format = std::chars_format::general;
  if (std::string_view(digits).substr(sign).starts_with("0x")) {
    format = std::chars_format::hex;
    digits.erase(sign, 2);
    if (digits.find_first_of("0123456789abcdefABCDEF", sign) != sign) digits.clear();  // a second sign, or a word
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    throw CheckpointError("\"" + text + "\" is no number");
  }
  return value;
}

inline float exact_float(const nlohmann::json& json) { return static_cast<float>(exact_number(json)); }

// Field by field: what braces hold, and each name's length in them, are types of their own to the JSON library, and
// compiling them took longer than all else here.

inline nlohmann::json to_json(const LoaderPosition& position) {
  nlohmann::json document;
  document["epoch"] = position.epoch;
  document["offset"] = position.offset;
  document["seed"] = position.seed;
  document["micro_batches"] = position.micro_batches;
  document["dataset_size"] = position.dataset_size;
  document["dataset"] = position.dataset;
  return document;
}

inline const nlohmann::json& json_field(const nlohmann::json& document, const std::string& name) {
  return document.at(name);
}
inline std::int64_t json_integer(const nlohmann::json& document, const std::string& name) {
  return json_field(document, name).get<std::int64_t>();
}
inline std::uint64_t json_natural(const nlohmann::json& document, const std::string& name) {
  return json_field(document, name).get<std::uint64_t>();
}
inline std::string json_string(const nlohmann::json& document, const std::string& name) {
  return json_field(document, name).get<std::string>();
}

inline LoaderPosition loader_position(const nlohmann::json& document) {
  LoaderPosition position;
  position.epoch = json_integer(document, "epoch");
  position.offset = json_integer(document, "offset");
  position.seed = json_natural(document, "seed");
  position.micro_batches = json_integer(document, "micro_batches");
  position.dataset_size = json_integer(document, "dataset_size");
  position.dataset = json_string(document, "dataset");
  return position;
}

inline nlohmann::json to_json(const TrainingState& state) {
  const StepState& step = state.step;
  const auto exact = [](float value) { return exact_text(static_cast<double>(value)); };
  nlohmann::json document;
  document["format"] = std::int64_t{state.format};
  document["library"] = state.library;
  auto& policy = document["policy"];
  policy["name"] = state.policy;
  policy["compute_type"] = state.compute_type;
  policy["scaler"] = state.scaler;
  document["optimizer"] = state.optimizer;
  auto& scaler = document["scaler"];
  scaler["scale"] = exact(step.scaler.scale);
  scaler["growth_tracker"] = std::int64_t{step.scaler.growth_tracker};
  scaler["hysteresis_left"] = std::int64_t{step.scaler.hysteresis_left};
  auto& counters = document["counters"];
  counters["update_number"] = step.update_number;
  counters["attempts"] = step.attempts;
  counters["skipped"] = step.skipped;
  counters["skipped_in_a_row"] = step.skipped_in_a_row;
  counters["empty"] = step.empty;
  counters["schedule_position"] = step.schedule_position;
  document["random"]["seed"] = state.random_seed;
  document["random"]["passes"] = state.random_passes;
  document["user"] = state.user;
  if (state.last_overflow) {
    auto& overflow = document["last_overflow"];
    overflow["attempt"] = state.last_overflow->attempt;
    overflow["tensor"] = state.last_overflow->tensor;
    overflow["index"] = state.last_overflow->index;
    overflow["scale"] = exact(state.last_overflow->scale);
  }
  if (state.window) {
    auto& window = document["window"];
    window["loss_sum"] = exact_text(state.window->loss_sum);
    window["valid_count"] = state.window->valid_count;
    window["micro_batches"] = state.window->micro_batches;
    window["normalizer"] = exact_text(state.window->normalizer);
    window["seed"] = exact(state.window->seed);
  }
  if (state.data) document["data"] = to_json(*state.data);
  return document;
}

inline TrainingState training_state(const nlohmann::json& document) {
  TrainingState state;
  state.format = static_cast<int>(json_integer(document, "format"));
  if (state.format > TrainingState::newest_format) {
    throw CheckpointError("the checkpoint has format " + std::to_string(state.format) +
                          ", this library reads up to " + std::to_string(TrainingState::newest_format) +
                          "; use a newer halfstep");
  }
  state.library = json_string(document, "library");
  const auto& policy = json_field(document, "policy");
  state.policy = json_string(policy, "name");
  state.compute_type = json_string(policy, "compute_type");
  state.scaler = json_string(policy, "scaler");
  state.optimizer = json_string(document, "optimizer");
  const auto& scaler = json_field(document, "scaler");
  state.step.scaler.scale = exact_float(json_field(scaler, "scale"));
  state.step.scaler.growth_tracker = static_cast<std::int32_t>(json_integer(scaler, "growth_tracker"));
  state.step.scaler.hysteresis_left = static_cast<std::int32_t>(json_integer(scaler, "hysteresis_left"));
  const auto& counters = json_field(document, "counters");
  state.step.update_number = json_integer(counters, "update_number");
  state.step.attempts = json_integer(counters, "attempts");
  state.step.skipped = json_integer(counters, "skipped");
  state.step.skipped_in_a_row = json_integer(counters, "skipped_in_a_row");
  state.step.empty = json_integer(counters, "empty");
  state.step.schedule_position = json_integer(counters, "schedule_position");
  const auto& random = json_field(document, "random");
  state.random_seed = json_natural(random, "seed");
  state.random_passes = json_natural(random, "passes");
  const auto user = document.find("user");
  if (user != document.end()) state.user = *user;
  const auto last_overflow = document.find("last_overflow");
  if (last_overflow != document.end()) {
    state.last_overflow = {json_integer(*last_overflow, "attempt"), json_string(*last_overflow, "tensor"),
                           json_integer(*last_overflow, "index"), exact_float(json_field(*last_overflow, "scale"))};
  }
  const auto window = document.find("window");
  if (window != document.end()) {
    state.window = {exact_number(json_field(*window, "loss_sum")), json_integer(*window, "valid_count"),
                    json_integer(*window, "micro_batches"), exact_number(json_field(*window, "normalizer")),
                    exact_float(json_field(*window, "seed"))};
  }
  const auto data = document.find("data");
  if (data != document.end()) state.data = loader_position(*data);
  return state;
}

}  // namespace detail

}  // namespace halfstep
