#pragma once

#include <charconv>
#include <cstdint>
#include <halfstep/numeric/traits.hpp>
#include <string>
#include <string_view>

namespace halfstep {

/// How logs write numbers that are not finite, which JSON cannot: Python's float() and JavaScript's Number()
/// read these three words. Empty for a finite number.
inline std::string_view non_finite_text(double value) {
  if (is_finite(value)) return {};
  const std::uint64_t bits = detail::bits_of(value);
  if ((bits & 0x000fffffffffffffu) != 0) return "NaN";
  return bits >> 63 == 0 ? "Infinity" : "-Infinity";
}

/// The fewest digits that give the same float or double again when they are read, or one of the words above.
template <class T>
std::string number_text(T value) {
  if (const std::string_view word = non_finite_text(static_cast<double>(value)); !word.empty())
    return std::string(word);
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

/// The double that is written with the digits of this float: a log then says 0.001 rather than
/// 0.0010000000474974513, and as a float it is the same.
inline double with_digits_of(float value) {
  if (!is_finite(value)) return static_cast<double>(value);
  const std::string digits = number_text(value);
  double result = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

}  // namespace halfstep
