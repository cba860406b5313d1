#pragma once

#include <cstdint>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/normalization_rows.hpp>
#include <halfstep/nn/parameter.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/option_fault.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>

namespace halfstep {

/// What a norm with a fused residual gives: the sum x + branch, and its norm.
template <class S, class Y>
struct NormalizedSum {
  Variable<S> sum;
  Variable<Y> normed;
};

namespace detail {

template <class Rule, class X, class Y>
struct NormBackward {
  Variable<X> input;
  Parameter weight;
  Parameter bias;
  bool has_bias;
  const float* weight_values;
  const RowNorm* norms;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const Y> output_gradient) const {
    run(tape, output_gradient, tape.gradient_target(input), GoesNowhere{});
  }

  template <class Tape, class Onward>
  void run(Tape& tape, Tensor<const Y> output_gradient, const GradientTarget<X>& target,
           const Onward& onward) const {
    const RowBlocks blocks{input.rows(), input.columns()};
    const auto weight_target = tape.gradient_target(weight);
    const auto bias_target = has_bias ? tape.gradient_target(bias) : GradientTarget<float>{};
    float* weight_partials = partials(tape, blocks, weight_target);
    float* bias_partials = partials(tape, blocks, bias_target);
    compute::for_each_task(
        tape.device(), blocks.tasks(),
        NormGradientRows<Rule, X, Y, Onward>{blocks, input.data(), output_gradient.data(), weight_values,
                                             norms, target, onward, weight_partials, bias_partials});
    add_up(tape, blocks, weight_partials, weight_target);
    add_up(tape, blocks, bias_partials, bias_target);
  }

 private:
  template <class Tape>
  static float* partials(Tape& tape, const RowBlocks& blocks, const GradientTarget<float>& target) {
    return target ? tape.arena().template allocate<float>(blocks.partials<typename Tape::DeviceType>() * blocks.width) : nullptr;
  }
  template <class Tape>
  static void add_up(Tape& tape, const RowBlocks& blocks, float* partials,
                     const GradientTarget<float>& target) {
    if (!target) return;
    if constexpr (!Tape::DeviceType::shares_host_memory) {
      const auto rows = compute::matrix<const float>(partials, blocks.teams(), blocks.width);
      return compute::column_sum(tape.device(), tape.arena(), rows, target.data, target.accumulate);
    } else {
      compute::for_each_chunk(tape.device(), (blocks.width + compute::chunk_size - 1) / compute::chunk_size,
                            compute::detail::ColumnSumTotal{partials, blocks.tasks(), blocks.width,
                                                            target.accumulate, target.data});
    }
  }
};

/// The backward pass of norm and residual together: all that uses the sum has given its gradient by now, so
/// that the norm's is added to it and goes on to the two terms in the same pass.
template <class Rule, class A, class B, class S, class Y>
struct NormalizedSumBackward {
  NormBackward<Rule, S, Y> norm;
  Variable<A> a;
  Variable<B> b;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const Y> output_gradient) const {
    const GradientTarget<S> target = tape.gradient_target(norm.input);
    if (!target) return norm.run(tape, output_gradient, target, GoesNowhere{});
    norm.run(tape, output_gradient, target, gradient_of_terms(tape, a, b, target.data));
    // Nothing is left for the sum's own backward pass.
    norm.input.slot()->written = false;
  }
};

/// A norm of the rows of `input`, which `rows` gives or makes: what of it goes into `result`, and what its
/// backward pass keeps.
template <class Rule, class X, class Rows, class Y, class Tape>
NormBackward<Rule, X, Y> normalize(Tape& tape, const Variable<X>& input, const Rows& rows,
                                   const Parameter& weight, const Parameter* bias, float epsilon,
                                   const Tensor<Y>& result) {
  const RowBlocks blocks{input.rows(), input.columns()};
  const float* w = tape.template weight<float>(weight).data();
  const float* b = bias != nullptr ? tape.template weight<float>(*bias).data() : nullptr;
  RowNorm* norms = tape.arena().template allocate<RowNorm>(blocks.rows);
  compute::for_each_task(tape.device(), blocks.tasks(),
                         NormalizeRows<Rule, Rows, Y>{blocks, rows, w, b, epsilon, norms, result.data()});
  return {input, weight, bias != nullptr ? *bias : Parameter{}, bias != nullptr, w, norms};
}

template <class Tape>
bool trains_norm(const Tape& tape, const Parameter& weight, const Parameter* bias) {
  return tape.trains(weight) || (bias != nullptr && tape.trains(*bias));
}

inline void check_norm_input(const char* name, const Shape& input, const Parameter& weight) {
  const std::int64_t width = weight.shape.size();
  if (input.rank() >= 1 && input.columns() == width) return;
  throw ShapeError(std::string(name) + "{" + std::to_string(width) + "} got an input of shape " +
                   input.text() + ": its last extent must be " + std::to_string(width) +
                   "; reshape the input or build the norm as " + name + "{" +
                   std::to_string(input.columns()) + "}");
}

/// The norm of `input` in type Y.
template <class Operation, class Rule, class Y, class Tape, class Input>
Variable<Y> record_norm(Tape& tape, const Input& given, const Parameter& weight, const Parameter* bias,
                        float epsilon) {
  const auto x = tape.variable(given);
  using X = typename decltype(x)::value_type;
  const Tensor<Y> result = tape.template allocate<Y>(x.shape());
  const auto backward = normalize<Rule>(tape, x, StoredRows<X>{x.data()}, weight, bias, epsilon, result);
  return tape.record(Operation{}, result, x.requires_gradient() || trains_norm(tape, weight, bias), backward);
}

/// The sum of the two in their wider type, and its norm in type Y.
template <class Operation, class Rule, class Y, class Tape, class InputA, class InputB>
auto record_normalized_sum(Tape& tape, const InputA& given_x, const InputB& given_branch,
                           const Parameter& weight, const Parameter* bias, float epsilon) {
  const auto a = tape.variable(given_x);
  const auto b = tape.variable(given_branch);
  using A = typename decltype(a)::value_type;
  using B = typename decltype(b)::value_type;
  using S = sum_type<A, B>;
  if (a.shape() != b.shape()) {
    throw ShapeError("the residual add of a norm: x has shape " + a.shape().text() + ", the branch " +
                     b.shape().text() + "; both must have one shape");
  }
  const Tensor<S> sum = tape.template allocate<S>(a.shape());
  const Tensor<Y> result = tape.template allocate<Y>(a.shape());
  auto backward =
      normalize<Rule>(tape, Variable<S>{sum, nullptr}, SummedRows<A, B, S>{a.data(), b.data(), sum.data()},
                      weight, bias, epsilon, result);
  // The sum stands first on the tape, so that its backward pass would come after the norm's.
  const bool terms_want = a.requires_gradient() || b.requires_gradient();
  const Variable<S> total = tape.record(operation::Add{}, sum, terms_want, AddBackward<A, B, S>{a, b});
  backward.input = total;
  const Variable<Y> normed = tape.record(Operation{}, result, terms_want || trains_norm(tape, weight, bias),
                                         NormalizedSumBackward<Rule, A, B, S, Y>{backward, a, b});
  return NormalizedSum<S, Y>{total, normed};
}

/// The shape of a norm's parameters, once its numbers are known to be sound.
inline Shape norm_shape(const char* name, std::int64_t width, float epsilon) {
  if (width < 1) {
    throw ConfigurationError(std::string(name) + "{" + std::to_string(width) +
                             "}: the width, the last extent of its inputs, must be 1 or more");
  }
  if (!(epsilon >= 0.0f && is_finite(epsilon))) {
    throw ConfigurationError(std::string(name) + ": epsilon is " +
                             describe_number(static_cast<double>(epsilon)) +
                             "; it must be finite and 0 or more");
  }
  return {width};
}

}  // namespace detail
}  // namespace halfstep
