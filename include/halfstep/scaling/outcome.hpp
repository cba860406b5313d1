#pragma once

#include <cstdint>

namespace halfstep {

/// What became of a window.
enum class Outcome : std::int32_t {
  applied,       ///< the optimizer moved the weights
  skipped,       ///< something was not finite: weights and optimizer state keep every bit
  no_gradients,  ///< no parameter had a gradient: nothing was learned, about the weights or about the scale
};

/// Why a window was skipped. A smaller loss scale can cure a gradient that overflowed, never a loss that did:
/// the loss is computed before it is scaled.
enum class SkipCause : std::int32_t { none, gradient, loss };

/// What the scaler did after a window. Said by the state machine itself; comparing two scales cannot tell
/// "unchanged" from "at its minimum".
enum class ScaleChange : std::int32_t {
  unchanged,
  grown,               ///< a full interval of applied windows: the scale is larger now
  backed_off,          ///< a gradient was not finite: the scale is smaller now
  held_by_hysteresis,  ///< a gradient was not finite, and hysteresis kept the scale once more
  at_minimum,          ///< a gradient was not finite, and the scale may not go lower: look at data and model
  at_maximum,          ///< a full interval of applied windows, and the scale may not go higher
};

constexpr const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::applied:
      return "applied";
    case Outcome::skipped:
      return "skipped";
    case Outcome::no_gradients:
      return "no gradients";
  }
  return "?";
}

constexpr const char* name_of(SkipCause cause) {
  switch (cause) {
    case SkipCause::none:
      return "none";
    case SkipCause::gradient:
      return "gradient";
    case SkipCause::loss:
      return "loss";
  }
  return "?";
}

constexpr const char* name_of(ScaleChange change) {
  switch (change) {
    case ScaleChange::unchanged:
      return "unchanged";
    case ScaleChange::grown:
      return "grown";
    case ScaleChange::backed_off:
      return "backed off";
    case ScaleChange::held_by_hysteresis:
      return "held by hysteresis";
    case ScaleChange::at_minimum:
      return "at its minimum";
    case ScaleChange::at_maximum:
      return "at its maximum";
  }
  return "?";
}

}  // namespace halfstep
