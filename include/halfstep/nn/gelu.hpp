#pragma once

#include <cstdint>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/elementwise.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/math.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/policy/operation.hpp>

namespace halfstep {

enum class GeluApproximation {
  none,
  /// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as GPT-2 has it.
  tanh,
};

namespace detail {

/// x Phi(x), Phi being the normal distribution's cumulative function (Hendrycks and Gimpel, Gaussian Error
/// Linear Units, 2016).
struct GeluFunction {
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE static float cumulative(float x) {
    constexpr float one_over_sqrt_2 = 0.70710678118654752f;
    return 0.5f * (1.0f + math::erf(x * one_over_sqrt_2));
  }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE float value(float x) const { return x * cumulative(x); }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE float gradient(float x, float dy) const {
    constexpr float one_over_sqrt_2_pi = 0.39894228040143268f;
    const float density = one_over_sqrt_2_pi * math::exp(-0.5f * x * x);
    return dy * (cumulative(x) + x * density);
  }
};

struct TanhGeluFunction {
  static constexpr float slope = 0.79788456080286536f;  // sqrt(2/pi)
  static constexpr float cubic = 0.044715f;

  /// Beyond 10 the tanh is 1 to the last bit, and x^3 would only overflow. By a mask, because a branch keeps
  /// the loop around from being vectorised; NaN counts as large here and comes back in with the factor x.
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE static float clamped(float x) {
    const std::uint32_t bits = bits_of(x);
    const std::uint32_t magnitude = bits & 0x7fffffffu, limit = bits_of(10.0f);
    return float_of(select(mask_if_less(magnitude, limit), magnitude, limit) | (bits & 0x80000000u));
  }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE static float squashed(float x) {
    const float c = clamped(x);
    return math::tanh(slope * (c + cubic * c * c * c));
  }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE float value(float x) const { return 0.5f * x * (1.0f + squashed(x)); }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE float gradient(float x, float dy) const {
    const float c = clamped(x);
    const float t = squashed(x);
    const float inner = slope * (1.0f + 3.0f * cubic * c * c);
    return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner);
  }
};

}  // namespace detail

/// The Gaussian error linear unit of each element, in type T whatever the policy says.
template <class T, class Tape, class Input>
Variable<T> gelu(Tape& tape, const Input& input, GeluApproximation approximation = GeluApproximation::none) {
  const Variable<T> x = cast<T>(tape, input);
  if (approximation == GeluApproximation::tanh) {
    return detail::record_elementwise<operation::Gelu>(tape, x, detail::TanhGeluFunction{});
  }
  return detail::record_elementwise<operation::Gelu>(tape, x, detail::GeluFunction{});
}

/// The Gaussian error linear unit of each element, exact or by PyTorch's "tanh" approximation, in the type
/// that the tape's policy gives to operation::Gelu. Inside it is float.
template <class Tape, class Input>
auto gelu(Tape& tape, const Input& input, GeluApproximation approximation = GeluApproximation::none) {
  return gelu<operation_type<typename Tape::Policy, operation::Gelu>>(tape, input, approximation);
}

}  // namespace halfstep
