#pragma once

#include <cstdint>
#include <type_traits>

#include <halfstep/tensor/shape.hpp>

namespace halfstep {

/// A view of contiguous, row-major elements with a shape. It owns nothing and costs nothing to copy; whoever made
/// the memory keeps it alive. The memory is the program's or a device's, as the function that takes it says.
template <class T>
class Tensor {
 public:
  using value_type = std::remove_const_t<T>;

  Tensor() = default;
  Tensor(T* data, Shape shape) : data_(data), shape_(shape) {}
  /// A view that may write is also one that may only read.
  template <class U>
    requires(std::is_same_v<const U, T>)
  Tensor(const Tensor<U>& other) : data_(other.data()), shape_(other.shape()) {}

  T* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return shape_.size(); }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t columns() const { return shape_.columns(); }
  T& operator[](std::int64_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size(); }

  /// The same elements in another shape of as many. Throws ShapeError otherwise.
  Tensor reshaped(Shape shape) const {
    if (shape.size() != shape_.size()) {
      throw ShapeError("a tensor of shape " + shape_.text() + " cannot be seen as " + shape.text() +
                       ": the numbers of elements differ");
    }
    return Tensor(data_, shape);
  }

 private:
  T* data_ = nullptr;
  Shape shape_{0};
};

}  // namespace halfstep
