#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cache.hpp"
#include "generate_options.hpp"
#include "model.hpp"

namespace gpt {

/// Draws a token by its logits. The same seed and draw give the same token. Throws halfstep::Error where
/// logits are not finite.
inline std::int32_t choose(std::span<const float> logits, const SamplingOptions& options,
                           std::uint64_t draw) {
  for (const float logit : logits) {
    if (!halfstep::is_finite(logit)) {
      throw halfstep::Error(
          "the model's logits are not finite, so no token can be drawn; did its training diverge?");
    }
  }
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (options.temperature == 0) return *std::min_element(tokens.begin(), tokens.end(), likelier);
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < tokens.size()) {
    std::nth_element(tokens.begin(), tokens.begin() + (options.top_k - 1), tokens.end(), likelier);
    tokens.resize(static_cast<std::size_t>(options.top_k));
    std::sort(tokens.begin(), tokens.end());
  }
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> sums;
  double sum = 0;
  for (const std::int32_t token : tokens) {
    const double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
    sums.push_back(sum += std::exp((logit - largest) / options.temperature));
  }
  constexpr std::uint64_t apart_from_training = 0x73616d706c696e67U;
  const auto block = halfstep::random_block(options.seed, apart_from_training, draw);
  // 53 random bits: with 24, tokens less likely than 6e-8 could not be told apart.
  const auto bits = (std::uint64_t{block.words[0]} << 32 | block.words[1]) >> 11;
  const double place = static_cast<double>(bits) * 0x1p-53 * sum;
  const auto found = std::upper_bound(sums.begin(), sums.end(), place);
  return tokens[static_cast<std::size_t>(std::min(found, sums.end() - 1) - sums.begin())];
}

/// Goes on from a prompt, token by token, with a cache of keys and values. Where the context is full, the
/// last half of it is what the next tokens are given by. `each(token)` is called for each. Throws ShapeError
/// for an empty prompt and one longer than the context, and for a token outside the vocabulary.
template <class Policy, class Optimizer, halfstep::Device D, class Function>
void generate(halfstep::Trainer<Model, Optimizer, Policy, D>& trainer, std::vector<std::int32_t> tokens,
              std::int64_t count, const SamplingOptions& options, const Function& each) {
  options.validate();
  const ModelSizes& sizes = trainer.model().sizes();
  if (tokens.empty() || static_cast<std::int64_t>(tokens.size()) > sizes.context) {
    throw halfstep::ShapeError("a prompt of " + std::to_string(tokens.size()) +
                               " tokens cannot be gone on from: it must "
                               "have 1 or more, and at most the model's context of " +
                               std::to_string(sizes.context));
  }
  using T = halfstep::operation_type<Policy, halfstep::operation::Attention>;
  KeyValueCache<T, D> cache(sizes);
  for (std::int64_t draw = 0; draw < count; ++draw) {
    if (static_cast<std::int64_t>(tokens.size()) > sizes.context) {
      tokens.erase(tokens.begin(), tokens.end() - (sizes.context + 1) / 2);
      cache.clear();
    }
    const auto known = static_cast<std::size_t>(cache.tokens());
    const halfstep::Tensor<const std::int32_t> unseen(tokens.data() + known,
                                                      {1, static_cast<std::int64_t>(tokens.size() - known)});
    const auto logits = trainer.predict(unseen, &cache);
    const std::int32_t token = choose({logits.data(), static_cast<std::size_t>(logits.size())}, options,
                                      static_cast<std::uint64_t>(draw));
    tokens.push_back(token);
    each(token);
  }
}

}  // namespace gpt
