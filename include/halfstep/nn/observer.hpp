#pragma once

#include <halfstep/nn/variable.hpp>
#include <halfstep/tensor/dtype.hpp>
#include <halfstep/tensor/shape.hpp>
#include <string_view>

namespace halfstep {

/// What a tensor is in the computation of a step.
enum class Place {
  input,                ///< the program's data, as the model hands it to an operation
  parameter,            ///< a parameter's numbers in the type that an operation computes with
  activation,           ///< an operation's result
  loss,                 ///< the operation's result that the backward pass starts from
  activation_gradient,  ///< the gradient of an operation's result
  parameter_gradient,
};

constexpr std::string_view name_of(Place place) {
  switch (place) {
    case Place::input:
      return "input data";
    case Place::parameter:
      return "parameter";
    case Place::activation:
      return "activation";
    case Place::loss:
      return "loss";
    case Place::activation_gradient:
      return "activation gradient";
    case Place::parameter_gradient:
      return "parameter gradient";
  }
  return "?";
}

/// A tensor that was just computed, or is about to be read for the first time. It lies in device memory and
/// is as the observer sees it until the observer returns.
struct Observation {
  Place place = Place::activation;
  /// Of an activation: the operation that computed it, by the name of its tag.
  std::string_view operation = {};
  /// Of an activation, and of the activation whose gradient this is; null where no gradient is wanted.
  const detail::GradientSlot* slot = nullptr;
  /// Of a gradient: the result of the operation whose backward pass wrote it; null for the loss's own.
  const detail::GradientSlot* through = nullptr;
  /// Position of the parameter, for the two places that are about one.
  int parameter = -1;
  const void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape{0};
};

/// Is shown each tensor of a pass in the order of the computation: in the forward pass inputs, parameters and
/// results; in the backward pass each gradient when the operation that wrote or added to it has ended. A loss
/// is shown as an activation: only who called the model knows which result it returned.
class TapeObserver {
 public:
  virtual void see(const Observation& observation) = 0;

 protected:
  ~TapeObserver() = default;
};

namespace detail {

/// The name of a type without its namespaces, as the compiler spells it.
template <class T>
constexpr std::string_view short_type_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t begin = text.find("T = ") + 4;
  text = text.substr(begin, text.find_first_of(";]", begin) - begin);
  const std::size_t arguments = text.find('<');
  const std::size_t colon = text.substr(0, arguments).rfind("::");
  return colon == std::string_view::npos ? text : text.substr(colon + 2);
}

}  // namespace detail

}  // namespace halfstep
