#pragma once

#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/elementwise.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/policy/operation.hpp>

namespace halfstep {

namespace detail {

/// Written so that NaN passes: an activation must not hide what went wrong before it.
struct ReluFunction {
  HALFSTEP_HOST_DEVICE float value(float x) const { return x <= 0.0f ? 0.0f : x; }
  HALFSTEP_HOST_DEVICE float gradient(float x, float dy) const { return x <= 0.0f ? 0.0f : dy; }
};

}  // namespace detail

/// max(x, 0) for each element, in type T whatever the policy says.
template <class T, class Tape, class Input>
Variable<T> relu(Tape& tape, const Input& input) {
  return detail::record_elementwise<operation::Relu>(tape, cast<T>(tape, input), detail::ReluFunction{});
}

/// max(x, 0) for each element, in the type that the tape's policy gives to operation::Relu. The gradient at 0 is 0.
template <class Tape, class Input>
auto relu(Tape& tape, const Input& input) {
  return relu<operation_type<typename Tape::Policy, operation::Relu>>(tape, input);
}

}  // namespace halfstep
