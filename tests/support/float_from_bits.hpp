#pragma once

#include <cstdint>
#include <cstring>

namespace halfstep::test {

/// The float with these bits, a value that the compiler cannot know and so cannot assume to be finite.
inline float float_from_bits(std::uint32_t bits) {
  volatile std::uint32_t hidden = bits;
  const std::uint32_t copy = hidden;
  float value = 0;
  std::memcpy(&value, &copy, sizeof value);
  return value;
}

}  // namespace halfstep::test
