#pragma once

#include <cstdint>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/matmul.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/initializer.hpp>
#include <halfstep/nn/parameter.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>

namespace halfstep {

namespace detail {

/// dX = dY W in the type of X;  dW += dY^T X and db += column sums of dY in float.
template <class T>
struct LinearBackward {
  Variable<T> input;
  Tensor<const T> weight;
  // By value: `forward` may have computed with a copy of the layer that is gone by now.
  Parameter weight_parameter;
  Parameter bias_parameter;
  bool has_bias;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> output_gradient) const {
    const std::int64_t rows = input.rows(), in = input.columns(), out = output_gradient.columns();
    const auto dy = compute::matrix(output_gradient.data(), rows, out);
    if (const auto target = tape.gradient_target(input)) {
      compute::matmul(tape.device(), dy, compute::matrix(weight.data(), out, in),
                      compute::matrix(target.data, rows, in),
                      {.accumulate = target.accumulate, .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
    }
    if (const auto target = tape.gradient_target(weight_parameter)) {
      compute::matmul(tape.device(), dy.transposed(), compute::matrix(input.data(), rows, in),
                      compute::matrix(target.data, out, in),
                      {.accumulate = target.accumulate, .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
    }
    if (!has_bias) return;
    if (const auto target = tape.gradient_target(bias_parameter)) {
      compute::column_sum(tape.device(), tape.arena(), dy, target.data, target.accumulate);
    }
  }
};

}  // namespace detail

struct LinearOptions {
  bool bias = true;
};

/// y = x W^T + b over the last axis: [..., in_features] -> [..., out_features], with PyTorch's shapes and
/// first values (uniform within 1/sqrt(in_features), weight and bias alike).
///
///     Linear hidden{64, 256};
///     Linear head{256, 10, {.bias = false}};
///
/// Products are summed in float and rounded once, bias included. The gradients of weight and bias are float;
/// that of the input has the input's type. A layer may be used several times in a pass: its gradients add up.
class Linear {
 public:
  /// Throws ConfigurationError unless both sizes are 1 or more.
  Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options = {})
      : Linear(sizes(in_features, out_features), options) {}

  /// [out_features, in_features] and [out_features]. Another initializer, or `frozen`, may be set before a
  /// trainer takes the model in.
  Parameter weight;
  Parameter bias;

  bool has_bias() const { return has_bias_; }
  std::int64_t in_features() const { return weight.shape[1]; }
  std::int64_t out_features() const { return weight.shape[0]; }

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("weight", weight);
    if (has_bias_) visit("bias", bias);
  }

  /// Computes in the type that the tape's policy gives to products. `input` is a variable or a tensor in the
  /// program's memory. Throws ShapeError unless its last extent is `in_features`.
  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input) const {
    return apply<operation_type<typename Tape::Policy, operation::Matmul>>(tape, input);
  }

  /// The same in type T.
  template <class T, class Tape, class Input>
  Variable<T> apply(Tape& tape, const Input& input) const {
    const auto given = tape.variable(input);
    check(given.shape());
    const Variable<T> x = cast<T>(tape, given);
    const Tensor<const T> w = tape.template weight<T>(weight);
    const T* b = has_bias_ ? tape.template weight<T>(bias).data() : nullptr;
    const Tensor<T> result = tape.template allocate<T>(x.shape().with_columns(out_features()));
    compute::matmul(tape.device(), compute::matrix(x.data(), x.rows(), in_features()),
                    compute::matrix(w.data(), out_features(), in_features()).transposed(),
                    compute::matrix(result.data(), x.rows(), out_features()),
                    {.bias = b, .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
    const bool wants_gradient =
        x.requires_gradient() || tape.trains(weight) || (has_bias_ && tape.trains(bias));
    return tape.record(operation::Matmul{}, result, wants_gradient,
                       detail::LinearBackward<T>{x, w, weight, bias, has_bias_});
  }

 private:
  Linear(Shape sizes, LinearOptions options)
      : weight(sizes, Initializer::kaiming_uniform(sizes[1])),
        bias(Shape{options.bias ? sizes[0] : 0}, Initializer::kaiming_uniform(sizes[1])),
        has_bias_(options.bias) {}

  static Shape sizes(std::int64_t in_features, std::int64_t out_features) {
    if (in_features < 1 || out_features < 1) {
      throw ConfigurationError("Linear{" + std::to_string(in_features) + ", " + std::to_string(out_features) +
                               "}: the numbers of input and output features must be 1 or more");
    }
    return {out_features, in_features};
  }

  void check(const Shape& input) const {
    if (input.rank() >= 1 && input.columns() == in_features()) return;
    throw ShapeError("Linear with weight " + weight.shape.text() + " (out, in) got an input of shape " +
                     input.text() + ": its last extent must be " + std::to_string(in_features()) +
                     "; reshape the input or build the layer as Linear{" +
                     std::to_string(input.rank() >= 1 ? input.columns() : 1) + ", " +
                     std::to_string(out_features()) + "}");
  }

  bool has_bias_;
};

}  // namespace halfstep
