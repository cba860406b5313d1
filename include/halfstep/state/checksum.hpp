#pragma once

#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <halfstep/state/detail/crc32_x86.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace halfstep {

namespace detail {

inline std::uint32_t zlib_crc32(std::span<const std::byte> bytes, std::uint32_t so_far) {
  return static_cast<std::uint32_t>(::crc32_z(so_far, reinterpret_cast<const ::Bytef*>(bytes.data()),
                                              static_cast<::z_size_t>(bytes.size())));
}

}  // namespace detail

/// CRC-32 as in zlib, gzip and PNG. `so_far` is the checksum of the bytes that come before these.
inline std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t so_far = 0) {
  // zlib alone manages about 1 GB/s, less than a disk.
  if (bytes.size() >= 256 && detail::cpu_folds_crc32()) {
    const std::size_t folded = bytes.size() / 64 * 64;
    std::array<std::byte, 16> sixteen;
    // The state is the checksum with all bits inverted, and zlib does that by itself.
    detail::fold_crc32(~so_far, bytes.data(), folded, sixteen.data());
    so_far = detail::zlib_crc32(sixteen, ~0u);
    bytes = bytes.subspan(folded);
  }
  return bytes.empty() ? so_far : detail::zlib_crc32(bytes, so_far);
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
