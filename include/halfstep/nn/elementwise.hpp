#pragma once

#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/tensor/tensor.hpp>

namespace halfstep::detail {

/// y = f(x), in float, rounded once.
template <class T, class Function>
struct ElementwiseKernel {
  Function function;
  const T* input;
  T* output;
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    output[i] = static_cast<T>(function.value(static_cast<float>(input[i])));
  }

  HALFSTEP_HOST_DEVICE bool takes_fours() const {
    return compute::begins_a_four(input) && compute::begins_a_four(output);
  }
  HALFSTEP_HOST_DEVICE void on_four(std::int64_t i) const {
    auto values = compute::floats_of(compute::load_four(input + i));
    for (float& value : values.of) value = function.value(value);
    compute::store_four(output + i, compute::four_of<T>(values));
  }
};

/// dx = dy f'(x), in float, rounded once.
template <class T, class Function>
struct ElementwiseGradientKernel {
  Function function;
  const T* input;
  const T* output_gradient;
  GradientTarget<T> input_gradient;
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    const float x = static_cast<float>(input[i]);
    store_gradient(input_gradient, i, function.gradient(x, static_cast<float>(output_gradient[i])));
  }

  HALFSTEP_HOST_DEVICE bool takes_fours() const {
    return compute::begins_a_four(input) && compute::begins_a_four(output_gradient) &&
           compute::begins_a_four(input_gradient.data);
  }
  HALFSTEP_HOST_DEVICE void on_four(std::int64_t i) const {
    const auto x = compute::floats_of(compute::load_four(input + i));
    auto values = compute::floats_of(compute::load_four(output_gradient + i));
    for (int k = 0; k < 4; ++k) values.of[k] = function.gradient(x.of[k], values.of[k]);
    store_four_gradients(input_gradient, i, values);
  }
};

template <class T, class Function>
struct ElementwiseBackward {
  Function function;
  Variable<T> input;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> output_gradient) const {
    if (const auto target = tape.gradient_target(input)) {
      compute::for_each(
          tape.device(), input.size(),
          ElementwiseGradientKernel<T, Function>{function, input.data(), output_gradient.data(), target});
    }
  }
};

/// Records y = f(x) for each element. `Function` has `value(x)`, and `gradient(x, dy)` that gives dy f'(x),
/// both on floats and for host and device. The backward pass needs nothing but the input.
template <class Operation, class T, class Function, class Tape>
Variable<T> record_elementwise(Tape& tape, const Variable<T>& input, const Function& function) {
  const Tensor<T> result = tape.template allocate<T>(input.shape());
  compute::for_each(tape.device(), input.size(),
                    ElementwiseKernel<T, Function>{function, input.data(), result.data()});
  return tape.record(Operation{}, result, input.requires_gradient(),
                     ElementwiseBackward<T, Function>{function, input});
}

}  // namespace halfstep::detail
