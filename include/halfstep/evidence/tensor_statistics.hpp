#pragma once

#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/tensor/dtype.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace halfstep {

enum class NonFinite { none, positive_infinity, negative_infinity, nan };

constexpr std::string_view name_of(NonFinite kind) {
  switch (kind) {
    case NonFinite::none:
      return "finite";
    case NonFinite::positive_infinity:
      return "+inf";
    case NonFinite::negative_infinity:
      return "-inf";
    case NonFinite::nan:
      return "NaN";
  }
  return "?";
}

/// What one read of a tensor tells of it, in the type in which it is stored. The sum behind the mean runs in
/// the order of the elements, so that all of it is the same for every number of threads.
struct TensorStatistics {
  std::int64_t size = 0;
  /// Elements that are infinite or NaN; position and kind of the first of them.
  std::int64_t non_finite = 0;
  std::int64_t first_non_finite = -1;
  NonFinite kind = NonFinite::none;
  /// Magnitudes of the finite elements: the largest, and the smallest that is not zero; 0 where there is
  /// none.
  double largest = 0;
  double smallest = 0;
  /// Of the finite elements; 0 where there is none.
  double mean = 0;
  /// Finite elements that would overflow if they were doubled: within one binade of overflow.
  std::int64_t near_overflow = 0;
  /// Elements stored as zero, whatever the reason.
  std::int64_t zeros = 0;
  /// Of these, the ones known to be zero because they were too small for the type; see Diagnosis::table.
  std::optional<std::int64_t> rounded_to_zero;

  double share(std::int64_t count) const {
    return size == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(size);
  }
};

/// The statistics of `size` elements in the program's memory.
template <FloatingType T>
TensorStatistics measure_tensor(const T* values, std::int64_t size) {
  using Number = typename numeric_traits<T>::arithmetic_type;
  constexpr Number half_of_largest = numeric_traits<T>::largest / 2;
  TensorStatistics result;
  result.size = size;
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto value = static_cast<Number>(values[i]);
    if (!is_finite(value)) {
      if (result.non_finite++ == 0) {
        result.first_non_finite = i;
        result.kind = is_nan(value) ? NonFinite::nan
                      : value > 0   ? NonFinite::positive_infinity
                                    : NonFinite::negative_infinity;
      }
      continue;
    }
    const Number magnitude = value < 0 ? -value : value;
    sum += static_cast<double>(value);
    if (magnitude == 0) {
      ++result.zeros;
      continue;
    }
    const auto wide = static_cast<double>(magnitude);
    if (wide > result.largest) result.largest = wide;
    if (result.smallest == 0 || wide < result.smallest) result.smallest = wide;
    if (magnitude > half_of_largest) ++result.near_overflow;
  }
  const std::int64_t finite = size - result.non_finite;
  if (finite > 0) result.mean = sum / static_cast<double>(finite);
  return result;
}

/// Calls `function(const T* values)` with the type that `dtype` names: one of the floating types. Throws
/// ConfigurationError for another.
template <class Function>
decltype(auto) with_floating_type(DType dtype, const void* values, const Function& function) {
  switch (dtype) {
    case DType::f64:
      return function(static_cast<const double*>(values));
    case DType::f32:
      return function(static_cast<const float*>(values));
    case DType::f16:
      return function(static_cast<const float16*>(values));
    case DType::bf16:
      return function(static_cast<const bfloat16*>(values));
    default:
      throw ConfigurationError("a tensor of " + std::string(name_of(dtype)) +
                               " holds no floating-point numbers; statistics are for F64, F32, F16 and BF16");
  }
}

/// The largest finite magnitude of a floating type.
inline double largest_of(DType dtype) {
  return with_floating_type(dtype, nullptr, []<class T>(const T*) -> double {
    return static_cast<double>(numeric_traits<T>::largest);
  });
}

}  // namespace halfstep
