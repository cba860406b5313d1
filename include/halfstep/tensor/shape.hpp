#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

#include <halfstep/error.hpp>

namespace halfstep {

/// The extents of a tensor, outermost first; up to six of them, held in place. The empty shape is a scalar's.
class Shape {
 public:
  static constexpr int largest_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

  /// Throws ShapeError for more than six extents, a negative one, or a product that does not fit 64 bits; an extent
  /// of 0 does not make up for others.
  explicit Shape(std::span<const std::int64_t> extents) {
    if (extents.size() > largest_rank) {
      throw ShapeError("a shape has at most " + std::to_string(largest_rank) + " extents, " +
                       std::to_string(extents.size()) + " were given");
    }
    for (const std::int64_t extent : extents) extents_[rank_++] = extent;
    check();
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[axis < 0 ? axis + rank_ : axis]; }
  /// Number of elements: the product of all extents, 1 for a scalar.
  std::int64_t size() const {
    std::int64_t size = 1;
    for (int axis = 0; axis < rank_; ++axis) size *= extents_[axis];
    return size;
  }
  /// The innermost extent, and the number of rows of that length; a scalar is one row of one.
  std::int64_t columns() const { return rank_ == 0 ? 1 : extents_[rank_ - 1]; }
  std::int64_t rows() const {
    std::int64_t rows = 1;
    for (int axis = 0; axis + 1 < rank_; ++axis) rows *= extents_[axis];
    return rows;
  }
  /// This shape with another innermost extent. Throws ShapeError as the constructor.
  Shape with_columns(std::int64_t columns) const {
    Shape result = *this;
    if (result.rank_ == 0) result.rank_ = 1;
    result.extents_[result.rank_ - 1] = columns;
    result.check();
    return result;
  }

  const std::int64_t* begin() const { return extents_; }
  const std::int64_t* end() const { return extents_ + rank_; }

  friend bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

  /// As people write it: [32, 64].
  std::string text() const {
    std::string result = "[";
    for (int axis = 0; axis < rank_; ++axis) {
      if (axis > 0) result += ", ";
      result += std::to_string(extents_[axis]);
    }
    return result + "]";
  }

 private:
  void check() const {
    std::int64_t size = 1;
    for (const std::int64_t extent : *this) {
      if (extent < 0) throw ShapeError("an extent is negative in shape " + text());
      if (extent == 0) continue;
      if (size > (std::numeric_limits<std::int64_t>::max)() / extent) {
        throw ShapeError("the number of elements does not fit 64 bits in shape " + text());
      }
      size *= extent;
    }
  }

  std::int64_t extents_[largest_rank] = {};
  int rank_ = 0;
};

}  // namespace halfstep
