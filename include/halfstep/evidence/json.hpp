#pragma once

#include <halfstep/evidence/diagnosis.hpp>
#include <halfstep/evidence/number_text.hpp>
#include <halfstep/evidence/report_fields.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace halfstep {

/// A number as JSON. One that is not finite becomes the string "NaN", "Infinity" or "-Infinity": never null,
/// which would hide which of them it was, and never the bare word, which JSON does not have.
inline nlohmann::ordered_json json_number(double value) {
  if (const std::string_view word = non_finite_text(value); !word.empty()) return std::string(word);
  return value;
}
inline nlohmann::ordered_json json_number(float value) { return json_number(with_digits_of(value)); }

/// A report with all of its fields, for nlohmann/json: `nlohmann::ordered_json(report)`. The diagnosis of a
/// skipped window, where there is one, follows as text.
template <class Json>
void to_json(Json& json, const StepReport& report) {
  json = Json::object();
  for_each_field(report, [&](const char* name, const auto& value) {
    if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(value)>>) {
      json[name] = json_number(value);
    } else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::string_view>) {
      json[name] = std::string(value);
    } else {
      json[name] = value;
    }
  });
  if (report.diagnosis != nullptr) json["diagnosis"] = report.diagnosis->text();
}

/// One line, in UTF-8 whatever a model's names hold.
template <class Json>
std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace halfstep
