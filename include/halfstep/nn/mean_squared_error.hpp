#pragma once

#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/loss_sum.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>

namespace halfstep {

namespace detail {

template <class T, class Target>
struct SquaredErrorTerm {
  const T* prediction;
  const Target* target;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t i) const {
    const float error = static_cast<float>(prediction[i]) - static_cast<float>(target[i]);
    return error * error;
  }
};

template <class T, class Target>
struct SquaredErrorGradientKernel {
  const T* prediction;
  const Target* target;
  const float* sum_gradient;
  GradientTarget<T> prediction_gradient;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    const float error = static_cast<float>(prediction[i]) - static_cast<float>(target[i]);
    store_gradient(prediction_gradient, i, 2.0f * error * *sum_gradient);
  }
};

template <class T, class Target>
struct SquaredErrorBackward {
  Variable<T> prediction;
  Tensor<const Target> target;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> sum_gradient) const {
    if (const auto gradient = tape.gradient_target(prediction)) {
      compute::for_each(tape.device(), prediction.size(),
                        SquaredErrorGradientKernel<T, Target>{prediction.data(), target.data(),
                                                              sum_gradient.data(), gradient});
    }
  }
};

}  // namespace detail

/// (prediction - target)^2, summed over all elements and counted by elements: their mean is PyTorch's
/// mse_loss.
///
/// `prediction` is a variable of any type, `target` a tensor of the same shape in the program's memory.
/// Computed in float; the gradient is rounded once to the prediction's type. Throws ShapeError where the
/// shapes differ, and for an empty batch.
template <class Tape, class Input, class Target>
Loss mean_squared_error(Tape& tape, const Input& prediction, const Tensor<Target>& target) {
  const auto y = tape.variable(prediction);
  using T = typename decltype(y)::value_type;
  using U = typename Tensor<Target>::value_type;
  if (!(y.shape() == target.shape())) {
    throw ShapeError("mean_squared_error: the prediction has shape " + y.shape().text() + ", the target " +
                     target.shape().text() + "; both must be the same");
  }
  if (y.size() == 0) {
    throw ShapeError("mean_squared_error: empty batch, the prediction has shape " + y.shape().text() +
                     "; there is nothing to average");
  }
  const Tensor<const U> expected = tape.upload(target);
  const Tensor<float> total =
      detail::sum_of_terms(tape, y.size(), detail::SquaredErrorTerm<T, U>{y.data(), expected.data()});
  return {tape.record(operation::Loss{}, total, y.requires_gradient(),
                      detail::SquaredErrorBackward<T, U>{y, expected}),
          y.size()};
}

}  // namespace halfstep
