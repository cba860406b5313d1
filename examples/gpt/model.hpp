#pragma once

#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/embedding.hpp>
#include <halfstep/nn/head_cross_entropy.hpp>
#include <halfstep/nn/recompute.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "blocks.hpp"
#include "cache.hpp"
#include "sizes.hpp"

namespace gpt {

/// A layer of either architecture.
class Layer {
 public:
  explicit Layer(const ModelSizes& sizes) : block_(made(sizes)) {}

  template <class Visitor>
  void parameters(Visitor&& visit) {
    std::visit([&](auto& block) { block.parameters(visit); }, block_);
  }
  template <class Tape, class Input, class Cache>
  auto operator()(Tape& tape, const Input& x, std::int64_t layer, Cache& cache) const {
    return std::visit([&](const auto& block) { return block(tape, x, layer, cache); }, block_);
  }

 private:
  using Any = std::variant<Gpt2Block, LlamaBlock>;
  static Any made(const ModelSizes& sizes) {
    if (sizes.architecture == Architecture::llama) return LlamaBlock(sizes);
    return Gpt2Block(sizes);
  }
  Any block_;
};

/// A decoder-only transformer of sizes that are known at run time. The parameters of the architecture gpt2
/// have the names of the published GPT-2: wte.weight, h.0.attn.c_attn.weight, ... ln_f.bias.
class Model {
 public:
  /// Throws ConfigurationError for sizes that do not fit together.
  explicit Model(const ModelSizes& sizes) : Model(checked(sizes), 0) {}

  const ModelSizes& sizes() const { return sizes_; }

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("wte", tokens_);
    if (positions_) visit("wpe", *positions_);
    visit("h", layers_);
    std::visit([&](auto& norm) { visit("ln_f", norm); }, norm_);
    if (head_) visit("lm_head", *head_);
  }

  /// The logits of every token's successor, [batch, length, vocabulary], for tokens [batch, length]. Throws
  /// ShapeError for another rank, for more tokens than the context has and for a token outside the
  /// vocabulary.
  template <class Tape>
  auto forward(Tape& tape, const halfstep::Tensor<const std::int32_t>& tokens) const {
    NoCache none;
    return logits(tape, hidden(tape, tokens, 0, none));
  }

  /// The logits of the last token's successor, [1, 1, vocabulary], for tokens [1, length] that follow those
  /// in the cache, which then holds these too. Only for inference.
  template <class Tape, class T, halfstep::Device D>
  auto forward(Tape& tape, const halfstep::Tensor<const std::int32_t>& tokens,
               KeyValueCache<T, D>* cache) const {
    const auto all = hidden(tape, tokens, cache->tokens(), *cache);
    using Number = typename decltype(all)::value_type;
    const std::int64_t before = (all.rows() - 1) * all.columns();
    const halfstep::Variable<Number> last{
        halfstep::Tensor<const Number>(all.data() + before, {1, 1, all.columns()}), nullptr};
    const auto result = logits(tape, last);
    cache->advance(all.rows());
    return result;
  }

  /// Next-token cross-entropy. `Batch` has `inputs` and `targets`, both [batch, length].
  template <class Tape, class Batch>
  halfstep::Loss loss(Tape& tape, const Batch& batch) const {
    NoCache none;
    const auto last = hidden(tape, batch.inputs, 0, none);
    return head_cross_entropy(tape, last, head_ ? head_->weight : tokens_.weight, batch.targets);
  }

 private:
  Model(const ModelSizes& sizes, int)
      : sizes_(sizes), tokens_(sizes.vocabulary, sizes.width), norm_(final_norm(sizes)) {
    constexpr float deviation = 0.02f;
    tokens_.weight.initializer = halfstep::Initializer::normal(deviation);
    if (sizes.architecture == Architecture::gpt2) {
      positions_.emplace(sizes.context, sizes.width);
      positions_->weight.initializer = halfstep::Initializer::normal(deviation);
    } else {
      head_.emplace(linear(sizes.width, sizes.vocabulary, false));
    }
    for (std::int64_t layer = 0; layer < sizes.layers; ++layer) layers_.emplace_back(sizes);
  }
  static const ModelSizes& checked(const ModelSizes& sizes) {
    sizes.validate();
    return sizes;
  }
  using Norm = std::variant<halfstep::LayerNorm, halfstep::RmsNorm>;
  static Norm final_norm(const ModelSizes& sizes) {
    if (sizes.architecture == Architecture::llama) return halfstep::RmsNorm(sizes.width);
    return halfstep::LayerNorm(sizes.width);
  }

  void check(const halfstep::Shape& tokens, std::int64_t position) const {
    if (tokens.rank() != 2 || tokens.size() == 0) {
      throw halfstep::ShapeError("gpt: tokens of shape " + tokens.text() +
                                 "; they must be [batch, length], 1 or more each");
    }
    if (position + tokens[1] <= sizes_.context) return;
    throw halfstep::ShapeError("gpt: " + std::to_string(tokens[1]) + " tokens" +
                               (position > 0 ? " after " + std::to_string(position) + " others" : "") +
                               " do not fit into the model's context of " + std::to_string(sizes_.context) +
                               "; give shorter sequences or a model with a larger context");
  }

  template <class Tape, class Cache>
  auto hidden(Tape& tape, const halfstep::Tensor<const std::int32_t>& tokens, std::int64_t position,
              Cache& cache) const {
    check(tokens.shape(), position);
    auto x = embedded(tape, tokens, position);
    std::int64_t number = 0;
    for (const Layer& layer : layers_) x = through(tape, layer, x, number++, cache);
    return std::visit([&](const auto& norm) { return norm(tape, x); }, norm_);
  }
  struct RunLayer {
    const Layer* layer;
    std::int64_t number;
    template <class Tape, class Input>
    auto operator()(Tape& tape, const Input& x) const {
      NoCache none;
      return (*layer)(tape, x, number, none);
    }
  };
  template <class Tape, class Input, class Cache>
  auto through(Tape& tape, const Layer& layer, const Input& x, std::int64_t number, Cache& cache) const {
    if constexpr (std::is_same_v<Cache, NoCache>) {
      if (sizes_.recompute) return recompute(tape, x, RunLayer{&layer, number});
    }
    return layer(tape, x, number, cache);
  }
  template <class Tape>
  auto embedded(Tape& tape, const halfstep::Tensor<const std::int32_t>& tokens, std::int64_t position) const {
    auto x = tokens_(tape, tokens);
    if (positions_) x = add(tape, x, positions_->rows(tape, position, tokens.shape()[1]));
    return dropout(tape, x, sizes_.dropout);
  }
  template <class Tape, class Input>
  auto logits(Tape& tape, const Input& last) const {
    return head_ ? (*head_)(tape, last) : tokens_.project(tape, last);
  }

  ModelSizes sizes_;
  halfstep::Embedding tokens_;
  std::optional<halfstep::Embedding> positions_;
  std::vector<Layer> layers_;
  Norm norm_;
  std::optional<halfstep::Linear> head_;
};

/// GPT-2's groups: no decay on biases, norms and embeddings, so only the matrices of products decay.
inline bool decays(const halfstep::ParameterInfo& parameter) {
  return parameter.shape.rank() == 2 && parameter.name != "wte.weight" && parameter.name != "wpe.weight";
}

}  // namespace gpt
