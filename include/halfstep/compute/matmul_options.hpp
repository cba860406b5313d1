#pragma once

#include <concepts>
#include <cstdint>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/error.hpp>
#include <halfstep/numeric/traits.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace halfstep::compute {

/// What happens to a product besides being stored.
template <class Out>
struct MatmulOptions {
  /// One value for each column of the result, added to every row; none if null.
  const Out* bias = nullptr;
  /// Adds the product to what the result holds instead of replacing it.
  bool accumulate = false;
  /// A GPU may multiply float operands as TensorFloat-32: with float's range, but each rounded to 11 significant bits
  /// first. Sums stay float. The host and products of 16-bit operands take no notice.
  bool tensor_float32 = false;
};

/// The element types that products are offered in: both operands alike, the result in their type or in float.
template <class A, class B, class Out>
concept MatmulTypes = std::same_as<std::remove_const_t<A>, std::remove_const_t<B>> &&
    (std::same_as<std::remove_const_t<A>, float> ||
     SixteenBitType<std::remove_const_t<A>>)&&(std::same_as<Out, std::remove_const_t<A>> ||
                                               std::same_as<Out, float>);

namespace detail {

/// What a message says of a matrix.
struct MatrixFacts {
  std::int64_t rows, columns, leading;
  bool is_transposed;

  template <class T>
  explicit MatrixFacts(const Matrix<T>& matrix)
      : rows(matrix.rows), columns(matrix.columns), leading(matrix.leading), is_transposed(matrix.is_transposed) {}
};

inline std::string describe(const char* name, const MatrixFacts& matrix) {
  return std::string(name) + " " + std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) +
         (matrix.is_transposed ? " transposed" : "") + " with stride " + std::to_string(matrix.leading);
}

[[noreturn]] inline void throw_matmul_error(const char* reason, std::string_view operand_type,
                                            std::string_view result_type, const MatrixFacts& a, const MatrixFacts& b,
                                            const MatrixFacts& result) {
  throw ShapeError("matmul (m " + std::to_string(result.rows) + ", n " + std::to_string(result.columns) + ", k " +
                   std::to_string(a.columns) + ", " + std::string(operand_type) + " to " + std::string(result_type) +
                   "): " + reason + "; " + describe("a is", a) + ", " + describe("b is", b) + ", " +
                   describe("the result is", result));
}

template <class A, class B, class Out>
[[noreturn]] void refuse_matmul(const char* reason, const Matrix<A>& a, const Matrix<B>& b, const Matrix<Out>& result) {
  throw_matmul_error(reason, numeric_traits<std::remove_const_t<A>>::name, numeric_traits<Out>::name, MatrixFacts(a),
                     MatrixFacts(b), MatrixFacts(result));
}

template <class T>
bool is_well_formed(const Matrix<T>& matrix) {
  if (matrix.rows < 0 || matrix.columns < 0) return false;
  if (matrix.rows == 0 || matrix.columns == 0) return true;
  return matrix.data != nullptr && matrix.leading >= matrix.stored_columns();
}

/// Throws ShapeError unless result = a * b makes sense.
template <class A, class B, class Out>
void check_matmul(const Matrix<A>& a, const Matrix<B>& b, const Matrix<Out>& result) {
  if (a.columns != b.rows) refuse_matmul("a needs as many columns as b has rows", a, b, result);
  if (result.rows != a.rows) refuse_matmul("the result needs as many rows as a", a, b, result);
  if (result.columns != b.columns) refuse_matmul("the result needs as many columns as b", a, b, result);
  if (result.is_transposed) refuse_matmul("the result must not be a transposed view", a, b, result);
  if (!is_well_formed(a) || !is_well_formed(b) || !is_well_formed(result)) {
    refuse_matmul("a matrix needs memory, sizes of 0 or more, and a stride of at least its stored columns", a,
                  b, result);
  }
}

/// Throws ShapeError unless the batch of products makes sense.
template <class A, class B, class Out>
void check_batched_matmul(std::int64_t count, const MatrixBatch<A>& a, const MatrixBatch<B>& b,
                          const MatrixBatch<Out>& result) {
  check_matmul(a.first, b.first, result.first);
  if (count < 0) refuse_matmul("a batch holds 0 products or more", a.first, b.first, result.first);
  if (count > 1 && result.stride == 0) {
    refuse_matmul("the results of a batch need memory of their own, not a stride of 0", a.first, b.first,
                  result.first);
  }
}

}  // namespace detail
}  // namespace halfstep::compute
