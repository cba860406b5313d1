#pragma once

#include <cstdint>
#include <halfstep/nn/initializer.hpp>
#include <halfstep/nn/normalization.hpp>
#include <halfstep/nn/parameter.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/policy/operation.hpp>

namespace halfstep {

struct RmsNormOptions {
  /// Added to the mean square. LLaMA's models have 1e-5 or 1e-6; PyTorch, where none is given, the spacing of
  /// its input's type at 1: 1.2e-7 for float.
  float epsilon = 1e-5f;
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight over the last axis, [..., width] (Zhang and Sennrich, Root Mean
/// Square Layer Normalization, 2019), with PyTorch's name and first values: weight 1.
///
///     RmsNorm norm{256};
///     auto y = norm(tape, x);
///     auto [sum, normed] = norm.add(tape, x, branch);   // sum = x + branch, normed = norm(sum)
///
/// `add` reads x and branch once and is, in every bit of results and gradients, halfstep::add followed by the
/// norm.
///
/// The mean square is float, whatever the types: no float16 input overflows it. A row whose squares do not
/// fit float, from values around 1e19 on, gives NaN. The weight is used in float; its gradient is a float sum
/// in an order that depends on shapes alone; that of the input has the input's type.
class RmsNorm {
 public:
  /// Throws ConfigurationError unless the width is 1 or more and epsilon finite and 0 or more.
  explicit RmsNorm(std::int64_t width, RmsNormOptions options = {})
      : weight(detail::norm_shape("RmsNorm", width, options.epsilon), Initializer::ones()),
        epsilon_(options.epsilon) {}

  /// [width].
  Parameter weight;

  std::int64_t width() const { return weight.shape[0]; }
  float epsilon() const { return epsilon_; }

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("weight", weight);
  }

  /// The norm in the type that the tape's policy gives to norms. `input` is a variable of any type or a
  /// tensor in the program's memory. Throws ShapeError unless its last extent is `width`.
  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input) const {
    return apply<operation_type<typename Tape::Policy, operation::RmsNorm>>(tape, input);
  }
  /// The same in type T.
  template <class T, class Tape, class Input>
  Variable<T> apply(Tape& tape, const Input& input) const {
    detail::check_norm_input("RmsNorm", input.shape(), weight);
    return detail::record_norm<operation::RmsNorm, detail::RmsNormRule, T>(tape, input, weight, nullptr,
                                                                           epsilon_);
  }

  /// {x + branch, the norm of that}: the sum in the type that halfstep::add gives it, the norm in the type
  /// that the policy gives to norms. Throws ShapeError unless both have one shape, with `width` as last
  /// extent.
  template <class Tape, class X, class Branch>
  auto add(Tape& tape, const X& x, const Branch& branch) const {
    return add<operation_type<typename Tape::Policy, operation::RmsNorm>>(tape, x, branch);
  }
  /// The same with the norm in type T.
  template <class T, class Tape, class X, class Branch>
  auto add(Tape& tape, const X& x, const Branch& branch) const {
    detail::check_norm_input("RmsNorm", x.shape(), weight);
    return detail::record_normalized_sum<operation::RmsNorm, detail::RmsNormRule, T>(tape, x, branch, weight,
                                                                                     nullptr, epsilon_);
  }

 private:
  float epsilon_;
};

}  // namespace halfstep
