#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

/// The 16-bit formats once more, by textbook arithmetic in double: nothing here is shared with what it
/// checks.
namespace reference {

struct Format {
  int fraction_bits;
  int bias;

  int exponent_mask() const { return (1 << (15 - fraction_bits)) - 1; }
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(exponent_mask() << fraction_bits); }
};

inline constexpr Format float16{10, 15};
inline constexpr Format bfloat16{7, 127};

/// The value of a finite pattern; for the pattern of infinity the next power of two, as if there were no
/// infinity.
inline double value(Format format, unsigned bits) {
  const int exponent = static_cast<int>(bits & 0x7fffu) >> format.fraction_bits;
  const int fraction = static_cast<int>(bits) & ((1 << format.fraction_bits) - 1);
  const int hidden = exponent == 0 ? 0 : 1 << format.fraction_bits;
  const int scale = (exponent == 0 ? 1 : exponent) - format.bias - format.fraction_bits;
  const double magnitude = std::ldexp(static_cast<double>(hidden + fraction), scale);
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

/// `x` rounded once, to nearest, ties to even; any NaN gives 0x7fff.
inline std::uint16_t round(Format format, double x) {
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  const std::uint64_t magnitude = bits & 0x7fffffffffffffffu;
  if (magnitude > 0x7ff0000000000000u) return 0x7fff;
  const unsigned sign = (bits >> 63) != 0 ? 0x8000u : 0u;
  if (magnitude == 0x7ff0000000000000u) return static_cast<std::uint16_t>(sign | format.infinity());
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent-1), 2^exponent)
  const int smallest = 2 - format.bias;
  if (x == 0 || exponent < smallest) exponent = smallest;
  // In units of the last place; the scaling is exact, and nearbyint rounds ties to even.
  const double units = std::nearbyint(std::ldexp(std::fabs(x), format.fraction_bits + 1 - exponent));
  // A subnormal has exponent field 0 and no hidden bit; units that reach 2^fraction_bits carry into the
  // field.
  const long pattern =
      static_cast<long>(exponent - smallest) * (1L << format.fraction_bits) + static_cast<long>(units);
  const long limited = pattern < format.infinity() ? pattern : format.infinity();
  return static_cast<std::uint16_t>(sign | static_cast<unsigned>(limited));
}

/// Floats that tell right rounding from wrong: every value of the format, every tie between neighbours, and
/// the floats next to both; then every exponent with random fractions, infinities and NaNs of many payloads.
inline std::vector<std::uint32_t> telling_floats(Format format) {
  std::vector<std::uint32_t> result;
  for (unsigned bits = 0; bits <= format.infinity(); ++bits) {
    const double here = value(format, bits);
    const double tie = (here + value(format, bits + 1)) / 2;
    for (const double x : {here, tie}) {
      const auto at = __builtin_bit_cast(std::uint32_t, static_cast<float>(x));
      for (const std::uint32_t near : {at - 1, at, at + 1}) {
        result.push_back(near & 0x7fffffffu);
        result.push_back(near | 0x80000000u);
      }
    }
  }
  std::uint32_t random = 12345;
  for (std::uint32_t high = 0; high < 512; ++high) {
    for (const std::uint32_t low : {0u, 1u, 0x1000u, 0x3fffffu, 0x400000u, 0x400001u, 0x7fffffu}) {
      result.push_back(high << 23 | low);
    }
    for (int i = 0; i < 500; ++i) {
      random = random * 1664525u + 1013904223u;
      result.push_back(high << 23 | random >> 9);
    }
  }
  return result;
}

inline bool is_nan_bits(std::uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

}  // namespace reference
