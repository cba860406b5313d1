#pragma once

#include <cstdint>

#include <halfstep/tensor/tensor.hpp>

namespace halfstep {

namespace detail {

/// Where the gradient of one variable comes together during the backward pass. The slots of a pass are numbered in the
/// order in which its operations were recorded.
struct GradientSlot {
  void* data = nullptr;
  GradientSlot* next = nullptr;
  int number = 0;
  bool written = false;
};

}  // namespace detail

/// A value that the tape knows: what was computed and, where the backward pass needs it, a place for its gradient.
/// Values lie in device memory and live until the tape begins anew.
template <class T>
class Variable {
 public:
  using value_type = T;

  Variable() = default;
  Variable(Tensor<const T> value, detail::GradientSlot* slot) : value_(value), slot_(slot) {}

  const Tensor<const T>& value() const { return value_; }
  const T* data() const { return value_.data(); }
  const Shape& shape() const { return value_.shape(); }
  std::int64_t size() const { return value_.size(); }
  std::int64_t rows() const { return value_.rows(); }
  std::int64_t columns() const { return value_.columns(); }

  bool requires_gradient() const { return slot_ != nullptr; }
  detail::GradientSlot* slot() const { return slot_; }

 private:
  Tensor<const T> value_;
  detail::GradientSlot* slot_ = nullptr;
};

/// A loss over one micro-batch: the *sum* over its valid samples (or tokens, or elements), a scalar in device
/// memory, and their number. The trainer divides by the number in the whole window, so that the mean is the same
/// however a window is cut into micro-batches.
struct Loss {
  Variable<float> sum;
  std::int64_t count = 0;
};

/// Where an operation writes the gradient of one of its inputs; empty if nobody wants it. The first to write
/// overwrites, later ones add: `accumulate` says which.
template <class T>
struct GradientTarget {
  T* data = nullptr;
  bool accumulate = false;
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace halfstep
