#pragma once

#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/numeric/traits.hpp>
#include <string>

namespace gpt {

struct SamplingOptions {
  /// Logits are divided by it; 0 takes the most likely token every time.
  double temperature = 1;
  /// Only so many of the most likely tokens can be drawn; 0 for all.
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;

  /// Throws ConfigurationError.
  void validate() const {
    if (!(temperature >= 0 && halfstep::is_finite(temperature)) || top_k < 0) {
      throw halfstep::ConfigurationError("gpt: temperature is " + std::to_string(temperature) +
                                         " and top-k " + std::to_string(top_k) +
                                         "; they must be finite and not negative");
    }
  }
};

}  // namespace gpt
