#pragma once

#include <cstdint>
#include <halfstep/nn/initializer.hpp>
#include <halfstep/nn/normalization.hpp>
#include <halfstep/nn/parameter.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/shape.hpp>

namespace halfstep {

struct LayerNormOptions {
  /// Added to the variance.
  float epsilon = 1e-5f;
  bool bias = true;
};

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis, [..., width] (Ba et al.,
/// Layer Normalization, 2016), with PyTorch's names, defaults and first values: weight 1, bias 0.
///
///     LayerNorm norm{256};
///     auto y = norm(tape, x);
///     auto [sum, normed] = norm.add(tape, x, branch);   // sum = x + branch, normed = norm(sum)
///
/// `add` reads x and branch once and is, in every bit of results and gradients, halfstep::add followed by the
/// norm.
///
/// Statistics are float, by mean and then variance around it, whatever the types: no float16 input overflows
/// them, and a row of equal numbers gives exactly the bias. A row whose variance does not fit float, from
/// values around 1e19 on, gives NaN. Weight and bias are used in float. The gradients of weight and bias are
/// float sums in an order that depends on shapes alone; that of the input has the input's type.
class LayerNorm {
 public:
  /// Throws ConfigurationError unless the width is 1 or more and epsilon finite and 0 or more.
  explicit LayerNorm(std::int64_t width, LayerNormOptions options = {})
      : weight(detail::norm_shape("LayerNorm", width, options.epsilon), Initializer::ones()),
        bias(Shape{options.bias ? width : 0}, Initializer::zeros()),
        epsilon_(options.epsilon),
        has_bias_(options.bias) {}

  /// [width] each.
  Parameter weight;
  Parameter bias;

  std::int64_t width() const { return weight.shape[0]; }
  float epsilon() const { return epsilon_; }
  bool has_bias() const { return has_bias_; }

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("weight", weight);
    if (has_bias_) visit("bias", bias);
  }

  /// The norm in the type that the tape's policy gives to norms. `input` is a variable of any type or a
  /// tensor in the program's memory. Throws ShapeError unless its last extent is `width`.
  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input) const {
    return apply<operation_type<typename Tape::Policy, operation::LayerNorm>>(tape, input);
  }
  /// The same in type T.
  template <class T, class Tape, class Input>
  Variable<T> apply(Tape& tape, const Input& input) const {
    detail::check_norm_input("LayerNorm", input.shape(), weight);
    return detail::record_norm<operation::LayerNorm, detail::LayerNormRule, T>(tape, input, weight,
                                                                               bias_or_none(), epsilon_);
  }

  /// {x + branch, the norm of that}: the sum in the type that halfstep::add gives it, the norm in the type
  /// that the policy gives to norms. Throws ShapeError unless both have one shape, with `width` as last
  /// extent.
  template <class Tape, class X, class Branch>
  auto add(Tape& tape, const X& x, const Branch& branch) const {
    return add<operation_type<typename Tape::Policy, operation::LayerNorm>>(tape, x, branch);
  }
  /// The same with the norm in type T.
  template <class T, class Tape, class X, class Branch>
  auto add(Tape& tape, const X& x, const Branch& branch) const {
    detail::check_norm_input("LayerNorm", x.shape(), weight);
    return detail::record_normalized_sum<operation::LayerNorm, detail::LayerNormRule, T>(
        tape, x, branch, weight, bias_or_none(), epsilon_);
  }

 private:
  const Parameter* bias_or_none() const { return has_bias_ ? &bias : nullptr; }

  float epsilon_;
  bool has_bias_;
};

}  // namespace halfstep
