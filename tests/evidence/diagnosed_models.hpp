#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <halfstep/halfstep.hpp>
#include <halfstep/nn/attention.hpp>
#include <halfstep/nn/convolution.hpp>
#include <halfstep/nn/embedding.hpp>
#include <halfstep/nn/head_cross_entropy.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <halfstep/nn/mean_squared_error.hpp>
#include <halfstep/nn/pooling.hpp>
#include <halfstep/nn/rms_norm.hpp>
#include <halfstep/nn/rotary.hpp>
#include <halfstep/nn/swiglu.hpp>

#include "support/classifier.hpp"
#include "support/given_gradients.hpp"
#include "support/one_of.hpp"

// The models whose steps are diagnosed, as one type.

namespace halfstep::test::diagnosed {

/// float16 with a scaler that a test may choose, and an end. A page must write its name with care.
struct HalfPolicy : ChosenScalerPolicy {
  static constexpr std::string_view name = "float16 <chosen>";
  static constexpr std::int64_t stop_after_skips = 40;
};

/// The operations of a classifier, some of them twice, one layer in float.
struct EveryOperation {
  Linear first{4, 6}, second{6, 6};
  ComputeIn<float, Linear> head{6, 3};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    visit("blocks.second", second);
    visit("head", head);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Points& points) const {
    const auto x = dropout(tape, gelu(tape, first(tape, points.images())), 0.25f);
    return cross_entropy(tape, head(tape, relu(tape, relu(tape, second(tape, x)))), points.targets());
  }
};

/// One layer four times over, whose inside is kept or computed again.
struct Repeated {
  bool again = false;
  Linear first{4, 8}, layer{8, 8}, head{8, 3};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    visit("layer", layer);
    visit("head", head);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Points& points) const {
    const auto block = [this](auto& t, const auto& x) { return gelu(t, layer(t, dropout(t, gelu(t, x), 0.1f))); };
    auto x = first(tape, points.images());
    for (int i = 0; i < 4; ++i) x = again ? recompute(tape, x, block) : block(tape, x);
    return cross_entropy(tape, head(tape, x), points.targets());
  }
};

struct Text {
  std::vector<std::int32_t> tokens{0, 3, 1, 4, 2, 3}, next{3, 1, 4, 2, 3, 0};
  Tensor<const std::int32_t> read() const { return {tokens.data(), {2, 3}}; }
  Tensor<const std::int32_t> wanted() const { return {next.data(), {2, 3}}; }
};

struct LanguageModel {
  Embedding embedding{5, 8};
  Linear query{8, 8}, key{8, 8}, value{8, 8}, gate{8, 6}, up{8, 6}, down{6, 8}, head{8, 5};
  LayerNorm norm{8};
  RmsNorm last_norm{8};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("embedding", embedding);
    visit("query", query);
    visit("key", key);
    visit("value", value);
    visit("norm", norm);
    visit("gate", gate);
    visit("up", up);
    visit("down", down);
    visit("last_norm", last_norm);
    visit("head", head);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Text& text) const {
    const auto x = embedding(tape, text.read());
    const RotaryOptions turn{.head_width = 4};
    const auto attended = attention(tape, rotary(tape, query(tape, x), turn), rotary(tape, key(tape, x), turn),
                                    value(tape, x), {.heads = 2});
    const auto [sum, normed] = norm.add(tape, x, attended);
    const auto y = add(tape, sum, down(tape, swiglu(tape, gate(tape, normed), up(tape, normed))));
    return cross_entropy(tape, head(tape, last_norm(tape, silu(tape, y))), text.wanted());
  }
};

/// The head that computes logits and loss together, over the embedding's own weight.
struct TiedModel {
  Embedding embedding{5, 8};
  Linear middle{8, 8};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("embedding", embedding);
    visit("middle", middle);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Text& text) const {
    return head_cross_entropy(tape, middle(tape, embedding(tape, text.read())), embedding.weight, text.wanted());
  }
};

struct Images {
  std::vector<float> pixels = std::vector<float>(2 * 6 * 6, 0.25f), wanted{0, 1, 1, 0};
  Tensor<const float> read() const { return {pixels.data(), {2, 6, 6, 1}}; }
  Tensor<const float> targets() const { return {wanted.data(), {2, 1, 1, 2}}; }
};

struct ImageModel {
  Convolution2d first{1, 3, 3}, second{3, 2, 1};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    visit("second", second);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Images& images) const {
    const auto pooled = max_pool2d(tape, first(tape, images.read()), 2);
    return mean_squared_error(tape, average_pool2d(tape, second(tape, pooled), 2), images.targets());
  }
};

struct Row {
  Tensor<const float> inputs, targets;
};

/// sum of (x W1^T) W2^T in the compute type: gradients are products of weights and the loss scale.
struct TwoProducts {
  Linear inner{1, 3, {.bias = false}}, outer{3, 1, {.bias = false}};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("inner", inner);
    visit("outer", outer);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Row& row) const {
    const auto y = outer(tape, inner(tape, row.inputs));
    return row.targets.size() > 0 ? mean_squared_error(tape, y, row.targets) : sum(tape, y);
  }
};

using DiagnosedModel =
    OneOf<Classifier, EveryOperation, Repeated, LanguageModel, TiedModel, ImageModel, TwoProducts, GivenGradients>;
template <class Policy>
using DiagnosedTrainer = Trainer<DiagnosedModel, SGD, Policy>;

}  // namespace halfstep::test::diagnosed
