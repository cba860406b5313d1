#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <halfstep/evidence/diagnosis.hpp>
#include <halfstep/evidence/number_text.hpp>
#include <optional>
#include <string>

namespace halfstep {

namespace detail {

inline std::string number(double value) {
  // A NaN has no sign that says anything.
  if (non_finite_text(value) == "NaN") return "NaN";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// Scales are powers of two as a rule and are shown in full.
inline std::string scale_number(float scale) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(scale));
  return text;
}

inline std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

inline std::string type_text(DType dtype) {
  return with_floating_type(dtype, nullptr,
                            []<class T>(const T*) { return std::string(numeric_traits<T>::name); });
}

inline std::string in_quotes(const std::string& text) { return "\"" + text + "\""; }

/// `Gelu after "hidden"`
inline std::string operation_text(const TensorEvidence& tensor) {
  std::string text = tensor.operation;
  if (tensor.layer.empty()) {
    text += " before any layer";
  } else {
    text += (tensor.follows_layer ? " after " : " of ") + in_quotes(tensor.layer);
  }
  if (tensor.use > 1) text += " (use " + std::to_string(tensor.use) + ")";
  return text;
}

/// What is not finite in a tensor, in a sentence.
inline std::string non_finite_sentence(const TensorEvidence& tensor) {
  const TensorStatistics& s = tensor.statistics;
  std::string text = "element " + std::to_string(s.first_non_finite) + " is " + std::string(name_of(s.kind)) +
                     "; " + std::to_string(s.non_finite) + " of " + std::to_string(s.size) + " elements (" +
                     percent(s.share(s.non_finite)) + ") are not finite";
  if (s.largest > 0) text += ", the largest finite magnitude is " + number(s.largest);
  return text;
}

inline std::string tensor_line(const TensorEvidence& tensor) {
  std::string text = tensor.name() + ", " + type_text(tensor.dtype) + " " + tensor.shape.text();
  if (!tensor.written_by.empty()) text += ", written by the backward pass of " + tensor.written_by;
  return text;
}

inline std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

}  // namespace detail

inline std::string TensorEvidence::name() const {
  switch (place) {
    case Place::input:
      return "input data " + std::to_string(input);
    case Place::parameter:
      return "parameter " + detail::in_quotes(layer);
    case Place::activation:
      return detail::operation_text(*this);
    case Place::loss:
      return "the loss, " + detail::operation_text(*this);
    case Place::activation_gradient:
      return written_by.empty() ? "gradient of the loss" : "gradient of " + detail::operation_text(*this);
    case Place::parameter_gradient:
      return "gradient of " + detail::in_quotes(layer);
  }
  return "?";
}

inline std::string Diagnosis::text() const {
  std::string text;
  const auto line = [&](const std::string& words) { text += (text.empty() ? "" : "\n") + words; };
  const std::string at = " at loss scale " + detail::scale_number(scale);
  if (attempt > 0) {
    line("attempt " + std::to_string(attempt) + " was skipped for its " + std::string(name_of(skip_cause)) +
         at);
  } else {
    line("computed" + at + "; no window was just skipped");
  }
  const auto describe = [&](const char* which, const TensorEvidence& tensor) {
    line(std::string(which) + ": " + detail::tensor_line(tensor));
    line("  " +
         (micro_batches > 1 ? "micro-batch " + std::to_string(tensor.micro_batch) + ": " : std::string()) +
         detail::non_finite_sentence(tensor));
  };
  if (first) describe("first tensor that is not finite", *first);
  if (first_gradient && first && first_gradient->position != first->position) {
    describe("first gradient that is not finite", *first_gradient);
  }
  if (!first) line("every tensor is finite");
  line("loss " + detail::number(loss));
  if (fitting_scale) line("largest loss scale that fits: " + detail::scale_number(*fitting_scale));
  if (!advice.empty()) line("advice: " + advice);
  return text;
}

inline std::string Diagnosis::table_text() const {
  std::size_t names = 6;
  for (const TensorEvidence& tensor : table) names = (std::max)(names, tensor.name().size());
  std::string text =
      "tensor" + std::string(names - 6, ' ') +
      "  type         amax       amin       mean   is zero   rounded   near overflow   not finite\n";
  for (const TensorEvidence& tensor : table) {
    const TensorStatistics& s = tensor.statistics;
    const std::string type = detail::type_text(tensor.dtype);
    text += tensor.name() + std::string(names - tensor.name().size(), ' ') + "  " + type;
    text += std::string(type.size() < 8 ? 8 - type.size() : 0, ' ');
    const auto cell = [&](std::size_t width, bool known, const std::string& words) {
      text += detail::padded(known ? words : "-", width);
    };
    const bool shown = !tensor.values_hidden;
    cell(10, shown, detail::number(s.largest));
    cell(11, shown, detail::number(s.smallest));
    cell(11, shown, detail::number(s.mean));
    cell(10, shown, detail::percent(s.share(s.zeros)));
    cell(10, s.rounded_to_zero.has_value(), detail::percent(s.share(s.rounded_to_zero.value_or(0))));
    cell(16, shown, detail::percent(s.share(s.near_overflow)));
    text += detail::padded(detail::percent(s.share(s.non_finite)), 13) + "\n";
  }
  return text;
}

}  // namespace halfstep
