#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <halfstep/error.hpp>

namespace halfstep::detail {

/// The bytes that `count` values of T take. Throws DeviceError where there is no such number: multiplied blindly, a
/// count of 2^62 floats would ask for none at all and be given them.
template <class T>
std::size_t byte_count(std::int64_t count) {
  constexpr std::int64_t most = (std::numeric_limits<std::int64_t>::max)() / (2 * static_cast<std::int64_t>(sizeof(T)));
  if (count < 0 || count > most) {
    throw DeviceError("no memory for " + std::to_string(count) + " values of " + std::to_string(sizeof(T)) +
                      " bytes each; use a smaller model, batch or window");
  }
  return static_cast<std::size_t>(count) * sizeof(T);
}

}  // namespace halfstep::detail
