#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <zlib.h>

namespace halfstep {

/// CRC-32 as in zlib, gzip and PNG. `so_far` is the checksum of the bytes that come before these.
inline std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t so_far = 0) {
  return static_cast<std::uint32_t>(
      ::crc32_z(so_far, reinterpret_cast<const ::Bytef*>(bytes.data()), static_cast<::z_size_t>(bytes.size())));
}

namespace detail {

/// Eight lower-case hexadecimal digits.
inline std::string to_hex(std::uint32_t value) {
  std::string digits(8, '0');
  for (std::size_t i = 0; i < 8; ++i) digits[7 - i] = "0123456789abcdef"[value >> (4 * i) & 15u];
  return digits;
}

/// None for anything but eight lower-case hexadecimal digits.
inline std::optional<std::uint32_t> from_hex(std::string_view digits) {
  if (digits.size() != 8) return std::nullopt;
  std::uint32_t value = 0;
  for (const char digit : digits) {
    const std::size_t place = std::string_view("0123456789abcdef").find(digit);
    if (place == std::string_view::npos) return std::nullopt;
    value = value << 4 | static_cast<std::uint32_t>(place);
  }
  return value;
}

}  // namespace detail
}  // namespace halfstep
