#pragma once

#include <cstdint>
#include <halfstep/compute/convert.hpp>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <type_traits>

namespace halfstep {

namespace operation {
struct Cast {};
}  // namespace operation

namespace detail {

template <class From, class To>
struct CastGradientKernel {
  const To* output_gradient;
  GradientTarget<From> input_gradient;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    store_gradient(input_gradient, i, static_cast<float>(output_gradient[i]));
  }

  HALFSTEP_HOST_DEVICE bool takes_fours() const {
    return compute::begins_a_four(output_gradient) && compute::begins_a_four(input_gradient.data);
  }
  HALFSTEP_HOST_DEVICE void on_four(std::int64_t i) const {
    store_four_gradients(input_gradient, i, compute::floats_of(compute::load_four(output_gradient + i)));
  }
};

template <class From, class To>
struct CastBackward {
  Variable<From> input;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const To> output_gradient) const {
    if (const auto target = tape.gradient_target(input)) {
      compute::for_each(tape.device(), input.size(),
                        CastGradientKernel<From, To>{output_gradient.data(), target});
    }
  }
};

}  // namespace detail

/// The input in type T: itself where that is its type, else a copy rounded to nearest even. Operations take
/// their operands through it, so a model seldom needs to call it.
///
/// `input` is a variable or a tensor in the program's memory, of any shape. The gradient goes back rounded to
/// the input's type.
template <class T, class Tape, class Input>
Variable<T> cast(Tape& tape, const Input& input) {
  const auto variable = tape.variable(input);
  using From = typename decltype(variable)::value_type;
  if constexpr (std::is_same_v<From, T>) {
    return variable;
  } else {
    const Tensor<T> result = tape.template allocate<T>(variable.shape());
    compute::convert(tape.device(), variable.data(), result.data(), variable.size());
    return tape.record(operation::Cast{}, result, variable.requires_gradient(),
                       detail::CastBackward<From, T>{variable});
  }
}

}  // namespace halfstep
