#pragma once

#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/elementwise.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/math.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>

namespace halfstep {

namespace detail {

struct SiluFunction {
  /// 1 / (1 + e^-x); e^-x may overflow, to the right result.
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE static float sigmoid(float x) { return 1.0f / (1.0f + math::exp(-x)); }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE float value(float x) const { return x * sigmoid(x); }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE float gradient(float x, float dy) const {
    const float s = sigmoid(x);
    return dy * (s * (1.0f + x * (1.0f - s)));
  }
};

template <class T>
struct SwigluKernel {
  const T* gate;
  const T* up;
  T* result;
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    result[i] = static_cast<T>(SiluFunction{}.value(static_cast<float>(gate[i])) * static_cast<float>(up[i]));
  }

  HALFSTEP_HOST_DEVICE bool takes_fours() const {
    return compute::begins_a_four(gate) && compute::begins_a_four(up) && compute::begins_a_four(result);
  }
  HALFSTEP_HOST_DEVICE void on_four(std::int64_t i) const {
    const auto x = compute::floats_of(compute::load_four(gate + i));
    auto values = compute::floats_of(compute::load_four(up + i));
    for (int k = 0; k < 4; ++k) values.of[k] = SiluFunction{}.value(x.of[k]) * values.of[k];
    compute::store_four(result + i, compute::four_of<T>(values));
  }
};

/// The gradients of those of the two that want one, in one pass.
template <class T, bool wants_gate, bool wants_up>
struct SwigluGradientKernel {
  const T* gate;
  const T* up;
  const T* result_gradient;
  GradientTarget<T> gate_gradient;
  GradientTarget<T> up_gradient;
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    const float x = static_cast<float>(gate[i]);
    const float dy = static_cast<float>(result_gradient[i]);
    if constexpr (wants_gate) {
      store_gradient(gate_gradient, i, SiluFunction{}.gradient(x, dy * static_cast<float>(up[i])));
    }
    if constexpr (wants_up) store_gradient(up_gradient, i, dy * SiluFunction{}.value(x));
  }

  HALFSTEP_HOST_DEVICE bool takes_fours() const {
    // A gradient that nobody wants is null, at which fours begin.
    return compute::begins_a_four(gate) && compute::begins_a_four(up) && compute::begins_a_four(result_gradient) &&
           compute::begins_a_four(gate_gradient.data) && compute::begins_a_four(up_gradient.data);
  }
  HALFSTEP_HOST_DEVICE void on_four(std::int64_t i) const {
    const auto x = compute::floats_of(compute::load_four(gate + i));
    const auto dy = compute::floats_of(compute::load_four(result_gradient + i));
    compute::Four<float> values;
    if constexpr (wants_gate) {
      values = compute::floats_of(compute::load_four(up + i));
      for (int k = 0; k < 4; ++k) values.of[k] = SiluFunction{}.gradient(x.of[k], dy.of[k] * values.of[k]);
      store_four_gradients(gate_gradient, i, values);
    }
    if constexpr (wants_up) {
      for (int k = 0; k < 4; ++k) values.of[k] = dy.of[k] * SiluFunction{}.value(x.of[k]);
      store_four_gradients(up_gradient, i, values);
    }
  }
};

template <class T>
struct SwigluBackward {
  Variable<T> gate;
  Variable<T> up;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> result_gradient) const {
    const auto gate_target = tape.gradient_target(gate), up_target = tape.gradient_target(up);
    const auto run = [&]<bool wants_gate, bool wants_up>() {
      compute::for_each(tape.device(), gate.size(),
                        SwigluGradientKernel<T, wants_gate, wants_up>{
                            gate.data(), up.data(), result_gradient.data(), gate_target, up_target});
    };
    if (gate_target && up_target) return run.template operator()<true, true>();
    if (gate_target) return run.template operator()<true, false>();
    if (up_target) return run.template operator()<false, true>();
  }
};

}  // namespace detail

/// The sigmoid linear unit x / (1 + e^-x) of each element, in type T whatever the policy says.
template <class T, class Tape, class Input>
Variable<T> silu(Tape& tape, const Input& input) {
  return detail::record_elementwise<operation::Silu>(tape, cast<T>(tape, input), detail::SiluFunction{});
}

/// The sigmoid linear unit x / (1 + e^-x) of each element (Elfwing et al., Sigmoid-Weighted Linear Units,
/// 2017; also called swish), in the type that the tape's policy gives to operation::Silu. Inside it is float.
template <class Tape, class Input>
auto silu(Tape& tape, const Input& input) {
  return silu<operation_type<typename Tape::Policy, operation::Silu>>(tape, input);
}

/// silu(gate) * up for each element, in type T whatever the policy says.
template <class T, class Tape, class Gate, class Up>
Variable<T> swiglu(Tape& tape, const Gate& gate_input, const Up& up_input) {
  const auto given_gate = tape.variable(gate_input);
  const auto given_up = tape.variable(up_input);
  if (given_gate.shape() != given_up.shape()) {
    throw ShapeError("swiglu: the gate has shape " + given_gate.shape().text() + ", what it gates has " +
                     given_up.shape().text() + "; both must have one shape, as two layers of one width give");
  }
  const Variable<T> gate = cast<T>(tape, given_gate);
  const Variable<T> up = cast<T>(tape, given_up);
  const Tensor<T> result = tape.template allocate<T>(gate.shape());
  compute::for_each(tape.device(), gate.size(),
                    detail::SwigluKernel<T>{gate.data(), up.data(), result.data()});
  return tape.record(operation::Swiglu{}, result, gate.requires_gradient() || up.requires_gradient(),
                     detail::SwigluBackward<T>{gate, up});
}

/// silu(gate) * up for each element, the inside of a gated feed-forward block (Shazeer, GLU Variants Improve
/// Transformer, 2020), in the type that the tape's policy gives to operation::Swiglu:
///
///     down(tape, swiglu(tape, gate(tape, x), up(tape, x)))
///
/// One pass, in float, rounded once; the backward pass computes the silu again and keeps nothing but the two
/// inputs. Throws ShapeError unless both inputs have one shape.
template <class Tape, class Gate, class Up>
auto swiglu(Tape& tape, const Gate& gate, const Up& up) {
  return swiglu<operation_type<typename Tape::Policy, operation::Swiglu>>(tape, gate, up);
}

}  // namespace halfstep
