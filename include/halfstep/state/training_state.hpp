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
  const auto& text = json.get_ref<const std::string&>();
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

inline nlohmann::json to_json(const LoaderPosition& position) {
  return {{"epoch", position.epoch},
          {"offset", position.offset},
          {"seed", position.seed},
          {"micro_batches", position.micro_batches},
          {"dataset_size", position.dataset_size},
          {"dataset", position.dataset}};
}

inline LoaderPosition loader_position(const nlohmann::json& document) {
  LoaderPosition position;
  position.epoch = document.at("epoch").get<std::int64_t>();
  position.offset = document.at("offset").get<std::int64_t>();
  position.seed = document.at("seed").get<std::uint64_t>();
  position.micro_batches = document.at("micro_batches").get<std::int64_t>();
  position.dataset_size = document.at("dataset_size").get<std::int64_t>();
  position.dataset = document.at("dataset").get<std::string>();
  return position;
}

inline nlohmann::json to_json(const TrainingState& state) {
  using nlohmann::json;
  const StepState& step = state.step;
  json document = {
      {"format", state.format},
      {"library", state.library},
      {"policy", {{"name", state.policy}, {"compute_type", state.compute_type}, {"scaler", state.scaler}}},
      {"optimizer", state.optimizer},
      {"scaler",
       {{"scale", exact_text(static_cast<double>(step.scaler.scale))},
        {"growth_tracker", step.scaler.growth_tracker},
        {"hysteresis_left", step.scaler.hysteresis_left}}},
      {"counters",
       {{"update_number", step.update_number},
        {"attempts", step.attempts},
        {"skipped", step.skipped},
        {"skipped_in_a_row", step.skipped_in_a_row},
        {"empty", step.empty},
        {"schedule_position", step.schedule_position}}},
      {"random", {{"seed", state.random_seed}, {"passes", state.random_passes}}},
      {"user", state.user}};
  if (state.last_overflow) {
    document["last_overflow"] = {{"attempt", state.last_overflow->attempt},
                                 {"tensor", state.last_overflow->tensor},
                                 {"index", state.last_overflow->index},
                                 {"scale", exact_text(static_cast<double>(state.last_overflow->scale))}};
  }
  if (state.window) {
    document["window"] = {{"loss_sum", exact_text(state.window->loss_sum)},
                          {"valid_count", state.window->valid_count},
                          {"micro_batches", state.window->micro_batches},
                          {"normalizer", exact_text(state.window->normalizer)},
                          {"seed", exact_text(static_cast<double>(state.window->seed))}};
  }
  if (state.data) document["data"] = to_json(*state.data);
  return document;
}

inline TrainingState training_state(const nlohmann::json& document) {
  TrainingState state;
  state.format = document.at("format").get<int>();
  if (state.format > TrainingState::newest_format) {
    throw CheckpointError("the checkpoint has format " + std::to_string(state.format) +
                          ", this library reads up to " + std::to_string(TrainingState::newest_format) +
                          "; use a newer halfstep");
  }
  state.library = document.at("library").get<std::string>();
  state.policy = document.at("policy").at("name").get<std::string>();
  state.compute_type = document.at("policy").at("compute_type").get<std::string>();
  state.scaler = document.at("policy").at("scaler").get<std::string>();
  state.optimizer = document.at("optimizer").get<std::string>();
  const auto& scaler = document.at("scaler");
  state.step.scaler.scale = exact_float(scaler.at("scale"));
  state.step.scaler.growth_tracker = scaler.at("growth_tracker").get<std::int32_t>();
  state.step.scaler.hysteresis_left = scaler.at("hysteresis_left").get<std::int32_t>();
  const auto& counters = document.at("counters");
  state.step.update_number = counters.at("update_number").get<std::int64_t>();
  state.step.attempts = counters.at("attempts").get<std::int64_t>();
  state.step.skipped = counters.at("skipped").get<std::int64_t>();
  state.step.skipped_in_a_row = counters.at("skipped_in_a_row").get<std::int64_t>();
  state.step.empty = counters.at("empty").get<std::int64_t>();
  state.step.schedule_position = counters.at("schedule_position").get<std::int64_t>();
  state.random_seed = document.at("random").at("seed").get<std::uint64_t>();
  state.random_passes = document.at("random").at("passes").get<std::uint64_t>();
  if (document.contains("user")) state.user = document.at("user");
  if (document.contains("last_overflow")) {
    const auto& overflow = document.at("last_overflow");
    state.last_overflow = {overflow.at("attempt").get<std::int64_t>(), overflow.at("tensor").get<std::string>(),
                           overflow.at("index").get<std::int64_t>(), exact_float(overflow.at("scale"))};
  }
  if (document.contains("window")) {
    const auto& window = document.at("window");
    state.window = {exact_number(window.at("loss_sum")), window.at("valid_count").get<std::int64_t>(),
                    window.at("micro_batches").get<std::int64_t>(), exact_number(window.at("normalizer")),
                    exact_float(window.at("seed"))};
  }
  if (document.contains("data")) state.data = loader_position(document.at("data"));
  return state;
}

}  // namespace detail

}  // namespace halfstep
