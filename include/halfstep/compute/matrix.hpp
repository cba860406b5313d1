#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace halfstep::compute {

/// A view of a matrix stored by rows: element (i, j) of what is stored lies at `data[i * leading + j]`. It
/// owns nothing. A transposed view shows the same storage with rows and columns exchanged; `rows` and
/// `columns` are always those that one sees, `leading` is always the distance between two stored rows, in
/// elements.
template <class T>
struct Matrix {
  using value_type = std::remove_const_t<T>;

  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t leading = 0;
  bool is_transposed = false;

  /// A view that may write is also one that may only read.
  template <std::same_as<const T> U>
  requires(!std::is_const_v<T>) operator Matrix<U>() const {
    return {data, rows, columns, leading, is_transposed};
  }
  Matrix transposed() const { return {data, columns, rows, leading, !is_transposed}; }
  T& operator()(std::int64_t i, std::int64_t j) const {
    return is_transposed ? data[j * leading + i] : data[i * leading + j];
  }
  /// The view that starts at element (row, column) and has the given size.
  Matrix block(std::int64_t row, std::int64_t column, std::int64_t block_rows,
               std::int64_t block_columns) const {
    const std::int64_t offset = is_transposed ? column * leading + row : row * leading + column;
    return {data + offset, block_rows, block_columns, leading, is_transposed};
  }
  std::int64_t stored_columns() const { return is_transposed ? rows : columns; }
};

/// The matrix of `rows` x `columns` elements at `data`, its rows `leading` elements apart.
template <class T>
Matrix<T> matrix(T* data, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  return {data, rows, columns, leading, false};
}

/// The matrix of `rows` x `columns` elements at `data`, its rows without gaps.
template <class T>
Matrix<T> matrix(T* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns, columns, false};
}

/// Matrices of one shape, `stride` elements from the first of one to the first of the next. A stride of 0
/// shows the same matrix every time.
template <class T>
struct MatrixBatch {
  Matrix<T> first;
  std::int64_t stride = 0;

  Matrix<T> operator[](std::int64_t index) const {
    Matrix<T> item = first;
    item.data += index * stride;
    return item;
  }
  template <std::same_as<const T> U>
  requires(!std::is_const_v<T>) operator MatrixBatch<U>() const { return {first, stride}; }
  MatrixBatch transposed() const { return {first.transposed(), stride}; }
};

}  // namespace halfstep::compute
