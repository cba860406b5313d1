#pragma once

namespace halfstep {

/// A layer that computes in T whatever the policy says, with that layer's constructors and parameters:
///
///     ComputeIn<float, Linear> head{256, 10};
///
/// `Layer` offers `template <class T> apply(tape, input) const`. Its master weights are where all are; the
/// numbers that it computes with are those masters where T is float.
template <class T, class Layer>
struct ComputeIn : Layer {
  using Layer::Layer;

  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input) const {
    return Layer::template apply<T>(tape, input);
  }
  /// Of a norm: the residual add with the norm in T.
  template <class Tape, class X, class Branch>
  auto add(Tape& tape, const X& x, const Branch& branch) const {
    return Layer::template add<T>(tape, x, branch);
  }
};

}  // namespace halfstep
