#pragma once

#include <type_traits>

namespace halfstep {

/// What a policy can be asked about. An operation belongs to the group that it derives from.
namespace operation {
struct Matmul {};
struct Attention : Matmul {};
struct Convolution : Matmul {};
struct Activation {};
struct Relu : Activation {};
struct Gelu : Activation {};
struct Silu : Activation {};
struct Swiglu : Activation {};
struct Rotary : Activation {};
struct Softmax {};
struct Normalization {};
struct LayerNorm : Normalization {};
struct RmsNorm : Normalization {};
/// Looking rows up, in float by default; the product with a tied embedding is a Matmul.
struct Embedding {};
struct Loss {};

/// A list of operations or whole groups, for a policy's `in_float` and `in_compute_type`.
template <class... Operations>
struct List {
  template <class Operation>
  static constexpr bool holds = (std::is_base_of_v<Operations, Operation> || ...);
};
}  // namespace operation

namespace detail {

template <class Policy, class Operation>
constexpr bool listed_in_float() {
  if constexpr (requires { typename Policy::in_float; }) return Policy::in_float::template holds<Operation>;
  return false;
}

template <class Policy, class Operation>
constexpr bool listed_in_compute_type() {
  if constexpr (requires { typename Policy::in_compute_type; }) {
    return Policy::in_compute_type::template holds<Operation>;
  }
  return false;
}

template <class Policy>
constexpr bool says_tensor_float32() {
  if constexpr (requires { Policy::tensor_float32; }) return Policy::tensor_float32;
  return false;
}

template <class Operation>
inline constexpr bool computes_in_16_bits_by_default =
    std::is_base_of_v<operation::Matmul, Operation> || std::is_base_of_v<operation::Activation, Operation>;

template <class Policy, class Operation>
constexpr bool uses_compute_type() {
  if constexpr (std::is_base_of_v<operation::Loss, Operation>) return false;
  if (listed_in_float<Policy, Operation>()) return false;
  return listed_in_compute_type<Policy, Operation>() || computes_in_16_bits_by_default<Operation>;
}

}  // namespace detail

/// The type in which an operation takes its operands and stores its result: products and activations in the
/// policy's compute_type, softmax, norms and losses in float. A policy moves an operation with one line,
/// `using in_float = operation::List<operation::Gelu>;` or `using in_compute_type = ...`; a loss is float always.
/// Inside, sums, statistics and transcendental functions are float in every case.
template <class Policy, class Operation>
using operation_type = std::conditional_t<detail::uses_compute_type<Policy, Operation>(),
                                          typename Policy::compute_type, float>;

/// May a GPU multiply float operands as TensorFloat-32? Where a policy says `static constexpr bool tensor_float32 =
/// true;`, and not where it says nothing. Products of 16-bit operands are what they are in either case.
template <class Policy>
inline constexpr bool uses_tensor_float32 = detail::says_tensor_float32<Policy>();

}  // namespace halfstep
