#pragma once

#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/nn/loss_sum.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>

namespace halfstep {

namespace detail {

template <class T>
struct ValueTerm {
  const T* values;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t i) const { return static_cast<float>(values[i]); }
};

template <class T>
struct SumGradientKernel {
  const float* sum_gradient;
  GradientTarget<T> input_gradient;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    store_gradient(input_gradient, i, *sum_gradient);
  }
};

template <class T>
struct SumBackward {
  Variable<T> input;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> sum_gradient) const {
    if (const auto target = tape.gradient_target(input)) {
      compute::for_each(tape.device(), input.size(), SumGradientKernel<T>{sum_gradient.data(), target});
    }
  }
};

}  // namespace detail

/// The sum of all elements as a loss that counts as one sample: for losses that are sums rather than means.
/// An empty input sums to 0. The sum is float; the gradient is 1 for each element, in the input's type.
template <class Tape, class Input>
Loss sum(Tape& tape, const Input& input) {
  const auto x = tape.variable(input);
  using T = typename decltype(x)::value_type;
  const Tensor<float> total = detail::sum_of_terms(tape, x.size(), detail::ValueTerm<T>{x.data()});
  return {tape.record(operation::Loss{}, total, x.requires_gradient(), detail::SumBackward<T>{x}), 1};
}

}  // namespace halfstep
