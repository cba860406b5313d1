#pragma once

#include <cstdint>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/elementwise.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/policy/operation.hpp>

namespace halfstep {

namespace detail {

/// NaN passes: an activation must not hide what went wrong before it. By masks, because a branch keeps the
/// loop around from being vectorised.
struct ReluFunction {
  HALFSTEP_HOST_DEVICE static std::uint32_t kept(float x) {
    const std::uint32_t bits = bits_of(x);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t is_negative = 0u - (bits >> 31);
    const std::uint32_t is_nan = mask_if_less(0x7f800000u, magnitude);
    return (mask_if_less(0u, magnitude) & ~is_negative) | is_nan;
  }
  HALFSTEP_HOST_DEVICE float value(float x) const { return float_of(bits_of(x) & kept(x)); }
  HALFSTEP_HOST_DEVICE float gradient(float x, float dy) const { return float_of(bits_of(dy) & kept(x)); }
};

}  // namespace detail

/// max(x, 0) for each element, in type T whatever the policy says.
template <class T, class Tape, class Input>
Variable<T> relu(Tape& tape, const Input& input) {
  return detail::record_elementwise<operation::Relu>(tape, cast<T>(tape, input), detail::ReluFunction{});
}

/// max(x, 0) for each element, in the type that the tape's policy gives to operation::Relu. The gradient at 0
/// is 0.
template <class Tape, class Input>
auto relu(Tape& tape, const Input& input) {
  return relu<operation_type<typename Tape::Policy, operation::Relu>>(tape, input);
}

}  // namespace halfstep
