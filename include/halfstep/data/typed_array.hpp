#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <halfstep/error.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/tensor/dtype.hpp>
#include <halfstep/tensor/shape.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfstep {

/// A number type that elements of a file can be converted to.
template <class T>
concept NumberType = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

/// An array as a file gave it: the type of its elements, known at run time, a shape, and the elements in
/// row-major order.
class TypedArray {
 public:
  /// The elements are the last bytes of `bytes`; what is before them (a file's header) is of no account.
  /// Throws Error where there are fewer than type and shape need.
  TypedArray(std::string name, DType dtype, const Shape& shape, std::vector<std::byte> bytes);

  /// Where it comes from, for messages.
  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return shape_.size(); }
  std::span<const std::byte> bytes() const { return std::span(bytes_).subspan(offset_); }

  /// The elements as they are. Throws Error if their type is not T.
  template <class T>
  Tensor<const T> view() const {
    if (dtype_ != dtype_of<T>) {
      throw Error(name_ + ": the elements are " + std::string(name_of(dtype_)) + ", not " +
                  std::string(name_of(dtype_of<T>)) + "; convert them with to<T>()");
    }
    return {reinterpret_cast<const T*>(bytes().data()), shape_};
  }

  /// The elements converted: rounded once where T is float or double, exact where T is an integer. Throws
  /// Error, with index and value, for the first element that an integer T does not hold, or whose magnitude T
  /// does not.
  template <NumberType T>
  std::vector<T> to() const;

 private:
  std::string name_;
  DType dtype_;
  Shape shape_;
  std::vector<std::byte> bytes_;
  std::size_t offset_;
};

namespace detail {

/// The C++ type that elements of a stored type are computed with: they are read into it without loss.
template <class Function>
decltype(auto) with_dtype(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::f64:
      return function(double{});
    case DType::f32:
      return function(float{});
    case DType::f16:
      return function(float16{});
    case DType::bf16:
      return function(bfloat16{});
    case DType::i64:
      return function(std::int64_t{});
    case DType::i32:
      return function(std::int32_t{});
    case DType::i16:
      return function(std::int16_t{});
    case DType::i8:
      return function(std::int8_t{});
    case DType::u64:
      return function(std::uint64_t{});
    case DType::u32:
      return function(std::uint32_t{});
    case DType::u16:
      return function(std::uint16_t{});
    case DType::u8:
    case DType::boolean:
      break;
  }
  return function(std::uint8_t{});
}

/// Whether T holds a value of this size; NaN and infinities have a place in every floating type, in no
/// integer.
template <NumberType T, class From>
bool holds_value(From value) {
  if constexpr (std::integral<From> && std::integral<T>) {
    return std::in_range<T>(value);
  } else if constexpr (std::integral<From>) {
    return true;
  } else if constexpr (std::integral<T>) {
    constexpr int bits = std::numeric_limits<T>::digits;
    const auto number = static_cast<double>(value);
    const double end = std::ldexp(1.0, bits);
    return is_finite(number) && std::trunc(number) == number && number < end &&
           number >= (std::signed_integral<T> ? -end : 0.0);
  } else if constexpr (std::same_as<From, double> && std::same_as<T, float>) {
    // Half a unit above the largest float, from where rounding gives infinity.
    return !is_finite(value) || std::fabs(value) < 0x1.ffffffp+127;
  } else {
    return true;
  }
}

/// A value as messages show it: to nine digits.
template <class Number>
std::string number_in_message(Number value) {
  if constexpr (std::integral<Number>) {
    return std::to_string(value);
  } else {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
    return text;
  }
}

inline void reverse_bytes_of_elements(std::span<std::byte> bytes, std::int64_t element) {
  const auto size = static_cast<std::size_t>(element);
  for (std::size_t i = 0; size > 1 && i + size <= bytes.size(); i += size) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + size));
  }
}

/// The bytes of so many elements. Throws Error where that does not fit 64 bits.
inline std::int64_t bytes_of_elements(const std::string& name, DType dtype, std::int64_t elements) {
  if (elements > (std::numeric_limits<std::int64_t>::max)() / size_of(dtype)) {
    throw Error(name + ": " + std::to_string(elements) + " elements of " + std::to_string(size_of(dtype)) +
                " bytes are more than any file holds");
  }
  return elements * size_of(dtype);
}

/// An array whose elements are all of a file's bytes after its header. Throws Error unless the shape that the
/// header tells is one, and needs just these bytes.
inline TypedArray array_after_header(const std::string& name, std::vector<std::byte> bytes,
                                     std::int64_t header, DType dtype, std::span<const std::int64_t> extents,
                                     std::endian order) {
  const Shape shape = [&] {
    try {
      return Shape(extents);
    } catch (const ShapeError& error) {
      throw Error(name + ": the header's shape cannot be: " + error.what());
    }
  }();
  const std::int64_t needed = bytes_of_elements(name, dtype, shape.size());
  const std::int64_t found = static_cast<std::int64_t>(bytes.size()) - header;
  if (found != needed) {
    throw Error(name + ": shape " + shape.text() + " of " + std::string(name_of(dtype)) + " needs " +
                std::to_string(needed) + " bytes after the header, which ends at offset " +
                std::to_string(header) + "; there are " + std::to_string(found));
  }
  const auto elements = std::span(bytes).subspan(static_cast<std::size_t>(header));
  if (order != std::endian::native) reverse_bytes_of_elements(elements, size_of(dtype));
  if (dtype == DType::boolean) {
    const auto other =
        std::find_if(elements.begin(), elements.end(), [](std::byte b) { return b > std::byte{1}; });
    if (other != elements.end()) {
      throw Error(name + ": element " + std::to_string(other - elements.begin()) + " of type BOOL is " +
                  std::to_string(static_cast<int>(*other)) + ", expected 0 or 1");
    }
  }
  return TypedArray(name, dtype, shape, std::move(bytes));
}

}  // namespace detail

inline TypedArray::TypedArray(std::string name, DType dtype, const Shape& shape, std::vector<std::byte> bytes)
    : name_(std::move(name)), dtype_(dtype), shape_(shape), bytes_(std::move(bytes)) {
  const auto needed = static_cast<std::size_t>(detail::bytes_of_elements(name_, dtype, shape.size()));
  if (needed > bytes_.size()) {
    throw Error(name_ + ": " + std::to_string(bytes_.size()) + " bytes, but shape " + shape.text() + " of " +
                std::string(name_of(dtype)) + " needs " + std::to_string(needed));
  }
  offset_ = bytes_.size() - needed;
  if (offset_ % static_cast<std::size_t>(size_of(dtype)) != 0) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset_));
    offset_ = 0;
  }
}

template <NumberType T>
std::vector<T> TypedArray::to() const {
  std::vector<T> values(static_cast<std::size_t>(size()));
  detail::with_dtype(dtype_, [&]<class From>(From) {
    const std::span<const std::byte> from = bytes();
    for (std::size_t i = 0; i < values.size(); ++i) {
      From stored;
      std::memcpy(&stored, from.data() + i * sizeof(From), sizeof(From));
      const auto value = [&] {
        if constexpr (std::is_arithmetic_v<From>) {
          return stored;
        } else {
          return static_cast<float>(stored);
        }
      }();
      if (!detail::holds_value<T>(value)) {
        throw Error(name_ + ": element " + std::to_string(i) + " is " + detail::number_in_message(value) +
                    ", which " + std::string(name_of(dtype_of<T>)) + " does not hold");
      }
      values[i] = static_cast<T>(value);
    }
  });
  return values;
}

}  // namespace halfstep
