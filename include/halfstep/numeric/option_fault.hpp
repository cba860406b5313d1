#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <string>

namespace halfstep::detail {

/// Neither infinite nor NaN, told by the exponent's bits: -ffast-math deletes every other form of the
/// question.
HALFSTEP_HOST_DEVICE constexpr bool has_finite_bits(double value) {
  return ((bits_of(value) >> 52) & 0x7ffu) != 0x7ffu;
}

/// Finite as a float: what a number must be that the arithmetic of a step will hold in float.
constexpr bool is_finite_as_float(double value) {
  constexpr double largest_float = 0x1.fffffep127;
  return has_finite_bits(value) && value <= largest_float && value >= -largest_float;
}

/// The first rule that an options struct breaks, or none. A constexpr function that returns one serves both
/// the static_assert on a policy's constant and the exception for a number known at run time only.
struct OptionFault {
  const char* option = nullptr;
  double found = 0;
  const char* rule = nullptr;
  const char* other_option = nullptr;  // the option it disagrees with, where the rule speaks of two
  double other_found = 0;

  constexpr explicit operator bool() const { return option != nullptr; }
};

/// The shortest text that reads back as this number; in float where the number is a float, so that 0.1f reads
/// 0.1.
inline std::string describe_number(double value) {
  if (!has_finite_bits(value)) {
    const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, value);
    if ((bits << 12) != 0) return "NaN";
    return (bits >> 63) != 0 ? "-infinity" : "infinity";
  }
  std::array<char, 40> text{};
  const bool is_float = is_finite_as_float(value) && static_cast<double>(static_cast<float>(value)) == value;
  const auto end = is_float
                       ? std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value)).ptr
                       : std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// Throws ConfigurationError "<owner>: <option> is <found>[ and <other> is <found>]; <rule>." if there is a
/// fault.
inline void throw_if_fault(const char* owner, const OptionFault& fault) {
  if (!fault) return;
  std::string message = std::string(owner) + ": " + fault.option + " is " + describe_number(fault.found);
  if (fault.other_option != nullptr) {
    message += std::string(" and ") + fault.other_option + " is " + describe_number(fault.other_found);
  }
  throw ConfigurationError(message + "; " + fault.rule + ".");
}

}  // namespace halfstep::detail
