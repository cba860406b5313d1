#pragma once

#include <cstdint>
#include <halfstep/error.hpp>
#include <string>

namespace gpt {

enum class Architecture {
  /// GPT-2's: learned positions, LayerNorm, GELU, biases, the head tied to the token embedding.
  gpt2,
  /// LLaMA's: rotary positions, RmsNorm, SwiGLU, no biases, grouped heads, a head of its own.
  llama
};

struct ModelSizes {
  Architecture architecture = Architecture::gpt2;
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  /// Heads of keys and values, each shared by heads / key_value_heads query heads; 0 for as many as query
  /// heads.
  std::int64_t key_value_heads = 0;
  /// The most tokens of a sequence.
  std::int64_t context = 64;
  std::int64_t vocabulary = 256;
  float dropout = 0;
  /// Keep only each layer's result of a training pass, and compute its inside again going backward.
  bool recompute = false;

  std::int64_t head_width() const { return width / heads; }
  std::int64_t key_value_width() const {
    return head_width() * (key_value_heads == 0 ? heads : key_value_heads);
  }

  /// Throws ConfigurationError with the numbers that do not fit.
  void validate() const {
    const auto at_least_1 = [](const char* name, std::int64_t number) {
      if (number >= 1) return;
      throw halfstep::ConfigurationError(std::string("gpt: ") + name + " is " + std::to_string(number) +
                                         "; it must be 1 or more");
    };
    at_least_1("layers", layers);
    at_least_1("width", width);
    at_least_1("heads", heads);
    at_least_1("context", context);
    at_least_1("vocabulary", vocabulary);
    if (width % heads != 0) {
      throw halfstep::ConfigurationError("gpt: " + std::to_string(heads) +
                                         " heads do not divide a width of " + std::to_string(width) +
                                         "; each head takes width / heads of it");
    }
    if (key_value_heads < 0 || (key_value_heads > 0 && heads % key_value_heads != 0)) {
      throw halfstep::ConfigurationError("gpt: " + std::to_string(key_value_heads) +
                                         " heads of keys and values do not divide " + std::to_string(heads) +
                                         " heads");
    }
    if (architecture == Architecture::llama && head_width() % 2 != 0) {
      throw halfstep::ConfigurationError("gpt: a head is " + std::to_string(head_width()) +
                                         " wide; rotary positions need an even width");
    }
    if (!(dropout >= 0.0f && dropout < 1.0f)) {
      throw halfstep::ConfigurationError("gpt: dropout is " + std::to_string(dropout) +
                                         "; it must be at least 0 and less than 1");
    }
  }
};

}  // namespace gpt
