#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <halfstep/nn/parameter_store.hpp>

namespace halfstep {

/// An exception from the optimizer's options for some parameters. Made by `parameters_named` or
/// `parameters_where`, and read as a sentence: parameters_named("*.bias").no_decay().
class ParameterRule {
 public:
  /// `description` says in messages which parameters are meant.
  ParameterRule(std::string description, std::function<bool(const ParameterInfo&)> matches)
      : description_(std::move(description)), matches_(std::move(matches)) {}

  /// Their weight decay times this; 0 is no decay.
  ParameterRule weight_decay_factor(float factor) && {
    weight_decay_factor_ = factor;
    return std::move(*this);
  }
  ParameterRule no_decay() && { return std::move(*this).weight_decay_factor(0.0f); }
  /// Their learning rate is the schedule's times this.
  ParameterRule learning_rate_factor(float factor) && {
    learning_rate_factor_ = factor;
    return std::move(*this);
  }
  /// No gradient, no update, no decay.
  ParameterRule freeze() && {
    freeze_ = true;
    return std::move(*this);
  }

  bool matches(const ParameterInfo& parameter) const { return matches_(parameter); }
  const std::string& description() const { return description_; }
  const std::optional<float>& weight_decay_factor() const { return weight_decay_factor_; }
  const std::optional<float>& learning_rate_factor() const { return learning_rate_factor_; }
  bool freezes() const { return freeze_; }

 private:
  std::string description_;
  std::function<bool(const ParameterInfo&)> matches_;
  std::optional<float> weight_decay_factor_;
  std::optional<float> learning_rate_factor_;
  bool freeze_ = false;
};

namespace detail {

/// Shell-style matching of whole names: `*` stands for any characters, `?` for one.
constexpr bool matches_pattern(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  std::size_t star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == name[n] || pattern[p] == '?') && pattern[p] != '*') {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace detail

/// A rule for the parameters whose name matches: "*.bias", "blocks.?.weight", "head.weight". A trainer refuses a
/// rule that matches none.
inline ParameterRule parameters_named(std::string pattern) {
  auto matches = [pattern](const ParameterInfo& parameter) {
    return detail::matches_pattern(pattern, parameter.name);
  };
  return ParameterRule("parameters named \"" + pattern + "\"", std::move(matches));
}

/// A rule for the parameters that a predicate accepts, such as those with one extent: biases and norms.
inline ParameterRule parameters_where(std::function<bool(const ParameterInfo&)> predicate) {
  if (predicate == nullptr) throw ConfigurationError("parameters_where: the predicate is empty; give it a function");
  return ParameterRule("parameters that a predicate accepts", std::move(predicate));
}

}  // namespace halfstep
