#pragma once

#include <cmath>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/attention.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <halfstep/nn/rms_norm.hpp>
#include <halfstep/nn/rotary.hpp>
#include <halfstep/nn/swiglu.hpp>

#include "cache.hpp"
#include "sizes.hpp"

namespace gpt {

/// A linear layer with GPT-2's first values: normal of deviation 0.02, and for those that end a residual
/// branch that over sqrt(2 layers), so that the sum of all branches stays of one size (Radford et al.,
/// Language Models are Unsupervised Multitask Learners, 2019).
inline halfstep::Linear linear(std::int64_t in, std::int64_t out, bool bias, std::int64_t branches = 1) {
  halfstep::Linear layer(in, out, {.bias = bias});
  layer.weight.initializer = halfstep::Initializer::normal(0.02f / std::sqrt(static_cast<float>(branches)));
  layer.bias.initializer = halfstep::Initializer::zeros();
  return layer;
}

/// In the place of a cache where there is none.
struct NoCache {};

/// Causal attention whose query, key and value come from one product.
class PackedAttention {
 public:
  explicit PackedAttention(const ModelSizes& sizes)
      : c_attn_(linear(sizes.width, sizes.width + 2 * sizes.key_value_width(), true)),
        c_proj_(linear(sizes.width, sizes.width, true, 2 * sizes.layers)),
        heads_(sizes.heads),
        key_value_heads_(sizes.key_value_heads) {}

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("c_attn", c_attn_);
    visit("c_proj", c_proj_);
  }

  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input, std::int64_t, NoCache&) const {
    return c_proj_(tape, attention(tape, c_attn_(tape, input), options(0)));
  }

  template <class Tape, class Input, class T, halfstep::Device D>
  auto operator()(Tape& tape, const Input& input, std::int64_t layer, KeyValueCache<T, D>& cache) const {
    const auto packed = halfstep::cast<T>(tape, c_attn_(tape, input));
    const std::int64_t width = c_proj_.in_features(), others = (packed.columns() - width) / 2;
    const auto query = tape.template allocate<T>({1, packed.rows(), width});
    halfstep::compute::for_each(
        tape.device(), query.size(),
        typename KeyValueCache<T, D>::CopyColumns{packed.data(), query.data(), packed.columns(), 0, width});
    const auto keys = cache.keys(tape, layer, packed, width);
    const auto values = cache.values(tape, layer, packed, width + others);
    const halfstep::Variable<T> queries{halfstep::Tensor<const T>(query.data(), query.shape()), nullptr};
    return c_proj_(tape, attention(tape, queries, keys, values, options(cache.tokens())));
  }

 private:
  halfstep::AttentionOptions options(std::int64_t position) const {
    return {.heads = heads_, .key_value_heads = key_value_heads_, .first_query_position = position};
  }
  halfstep::Linear c_attn_, c_proj_;
  std::int64_t heads_, key_value_heads_;
};

/// Causal attention with rotary positions and grouped heads.
class RotaryAttention {
 public:
  explicit RotaryAttention(const ModelSizes& sizes)
      : query_(linear(sizes.width, sizes.width, false)),
        key_(linear(sizes.width, sizes.key_value_width(), false)),
        value_(linear(sizes.width, sizes.key_value_width(), false)),
        output_(linear(sizes.width, sizes.width, false, 2 * sizes.layers)),
        head_width_(sizes.head_width()),
        heads_(sizes.heads),
        key_value_heads_(sizes.key_value_heads) {}

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("q_proj", query_);
    visit("k_proj", key_);
    visit("v_proj", value_);
    visit("o_proj", output_);
  }

  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input, std::int64_t, NoCache&) const {
    return output_(tape, attention(tape, turned(tape, query_(tape, input), 0),
                                   turned(tape, key_(tape, input), 0), value_(tape, input), options(0)));
  }

  template <class Tape, class Input, class T, halfstep::Device D>
  auto operator()(Tape& tape, const Input& input, std::int64_t layer, KeyValueCache<T, D>& cache) const {
    const std::int64_t position = cache.tokens();
    const auto query = halfstep::cast<T>(tape, turned(tape, query_(tape, input), position));
    const auto key = halfstep::cast<T>(tape, turned(tape, key_(tape, input), position));
    const auto value = halfstep::cast<T>(tape, value_(tape, input));
    return output_(tape, attention(tape, query, cache.keys(tape, layer, key, 0),
                                   cache.values(tape, layer, value, 0), options(position)));
  }

 private:
  template <class Tape, class Input>
  auto turned(Tape& tape, const Input& input, std::int64_t position) const {
    return rotary(tape, input,
                  halfstep::RotaryOptions{.head_width = head_width_, .first_position = position});
  }
  halfstep::AttentionOptions options(std::int64_t position) const {
    return {.heads = heads_, .key_value_heads = key_value_heads_, .first_query_position = position};
  }
  halfstep::Linear query_, key_, value_, output_;
  std::int64_t head_width_, heads_, key_value_heads_;
};

class GeluMlp {
 public:
  explicit GeluMlp(const ModelSizes& sizes)
      : c_fc_(linear(sizes.width, 4 * sizes.width, true)),
        c_proj_(linear(4 * sizes.width, sizes.width, true, 2 * sizes.layers)) {}
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("c_fc", c_fc_);
    visit("c_proj", c_proj_);
  }
  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input) const {
    return c_proj_(tape, gelu(tape, c_fc_(tape, input), halfstep::GeluApproximation::tanh));
  }

 private:
  halfstep::Linear c_fc_, c_proj_;
};

/// With 8/3 times the width inside, rounded up to 32: three matrices then hold what GeluMlp's two do.
class SwigluMlp {
 public:
  explicit SwigluMlp(const ModelSizes& sizes)
      : gate_(linear(sizes.width, inside(sizes), false)),
        up_(linear(sizes.width, inside(sizes), false)),
        down_(linear(inside(sizes), sizes.width, false, 2 * sizes.layers)) {}
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("gate_proj", gate_);
    visit("up_proj", up_);
    visit("down_proj", down_);
  }
  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input) const {
    return down_(tape, swiglu(tape, gate_(tape, input), up_(tape, input)));
  }

 private:
  static std::int64_t inside(const ModelSizes& sizes) { return (sizes.width * 8 / 3 + 31) / 32 * 32; }
  halfstep::Linear gate_, up_, down_;
};

/// One layer: attention, then a feed-forward network, each on the norm of what came and added to it.
template <class Norm, class Attention, class Mlp>
class Block {
 public:
  explicit Block(const ModelSizes& sizes)
      : ln_1_(sizes.width), attn_(sizes), ln_2_(sizes.width), mlp_(sizes), dropout_(sizes.dropout) {}

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("ln_1", ln_1_);
    visit("attn", attn_);
    visit("ln_2", ln_2_);
    visit("mlp", mlp_);
  }

  template <class Tape, class Input, class Cache>
  auto operator()(Tape& tape, const Input& x, std::int64_t layer, Cache& cache) const {
    const auto attended = dropout(tape, attn_(tape, ln_1_(tape, x), layer, cache), dropout_);
    const auto [sum, normed] = ln_2_.add(tape, x, attended);
    return add(tape, sum, dropout(tape, mlp_(tape, normed), dropout_));
  }

 private:
  Norm ln_1_;
  Attention attn_;
  Norm ln_2_;
  Mlp mlp_;
  float dropout_;
};

using Gpt2Block = Block<halfstep::LayerNorm, PackedAttention, GeluMlp>;
using LlamaBlock = Block<halfstep::RmsNorm, RotaryAttention, SwigluMlp>;

}  // namespace gpt
