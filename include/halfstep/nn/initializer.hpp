#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/numeric/philox.hpp>
#include <halfstep/numeric/traits.hpp>
#include <span>
#include <string>
#include <string_view>

namespace halfstep {

/// How a parameter gets its first values. A value depends on the seed, the parameter's name and the element's
/// index alone (Philox, Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011): not on the device,
/// the number of threads, or the other parameters of the model.
///
/// The makers throw ConfigurationError for numbers that make no sense.
class Initializer {
 public:
  /// All zeros.
  constexpr Initializer() = default;

  static constexpr Initializer zeros() { return constant(0.0f); }
  static constexpr Initializer ones() { return constant(1.0f); }
  static constexpr Initializer constant(float value) { return {Kind::constant, value}; }
  /// Uniform in [-bound, bound).
  static Initializer uniform(float bound) { return {Kind::uniform, checked("uniform", "bound", bound)}; }
  /// Normal around 0.
  static Initializer normal(float standard_deviation) {
    return {Kind::normal, checked("normal", "standard_deviation", standard_deviation)};
  }
  /// Uniform within 1/sqrt(fan_in): what PyTorch gives the weight and the bias of a linear layer, where
  /// fan_in is the number of input features. (It calls kaiming_uniform_ with a = sqrt(5).)
  static Initializer kaiming_uniform(std::int64_t fan_in) {
    return uniform(static_cast<float>(1.0 / std::sqrt(checked("kaiming_uniform", fan_in))));
  }
  /// Uniform within sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, Understanding the Difficulty of Training
  /// Deep Feedforward Neural Networks, 2010).
  static Initializer xavier_uniform(std::int64_t fan_in, std::int64_t fan_out) {
    return uniform(static_cast<float>(
        std::sqrt(6.0 / (checked("xavier_uniform", fan_in) + checked("xavier_uniform", fan_out)))));
  }

  /// Writes the first values of the parameter `name`.
  void fill(std::span<float> values, std::uint64_t seed, std::string_view name) const {
    if (kind_ == Kind::constant) {
      std::fill(values.begin(), values.end(), number_);
      return;
    }
    const std::uint64_t stream = hash_name(name);
    for (std::size_t begin = 0; begin < values.size(); begin += 4) {
      const auto four = four_values(random_block(seed, stream, begin / 4));
      const std::size_t count = (std::min)(std::size_t{4}, values.size() - begin);
      for (std::size_t i = 0; i < count; ++i) values[begin + i] = number_ * four[i];
    }
  }

 private:
  enum class Kind { constant, uniform, normal };

  constexpr Initializer(Kind kind, float number) : kind_(kind), number_(number) {}

  /// Uniform in [-1, 1) or standard normal.
  std::array<float, 4> four_values(const PhiloxBlock& block) const {
    const auto& words = block.words;
    if (kind_ == Kind::normal) {
      const auto [a, b] = halfstep::normal(words[0], words[1]);
      const auto [c, d] = halfstep::normal(words[2], words[3]);
      return {a, b, c, d};
    }
    std::array<float, 4> values;
    for (std::size_t i = 0; i < 4; ++i) values[i] = 2.0f * halfstep::uniform(words[i]) - 1.0f;
    return values;
  }

  static float checked(const char* maker, const char* what, float number) {
    if (is_finite(number) && number >= 0.0f) return number;
    throw ConfigurationError(std::string("Initializer::") + maker + ": " + what + " is " +
                             std::to_string(number) + "; it must be finite and not negative");
  }
  static double checked(const char* maker, std::int64_t fan) {
    if (fan >= 1) return static_cast<double>(fan);
    throw ConfigurationError(std::string("Initializer::") + maker + ": a fan is " + std::to_string(fan) +
                             "; it must be 1 or more");
  }

  Kind kind_ = Kind::constant;
  float number_ = 0.0f;
};

}  // namespace halfstep
