#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpt {

/// A character of UTF-8 text and the bytes that it takes; where the bytes are no UTF-8, one byte that is not
/// valid.
struct Character {
  char32_t code = 0;
  std::size_t size = 1;
  bool valid = false;
};

/// The character that begins at `position`, which lies inside the text.
inline Character character_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[position + i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || position + size > text.size()) return {};
  char32_t code = first & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < smallest[size] || surrogate || code > 0x10ffff) return {};
  return {code, size, true};
}

/// Requires a code below 0x800: those of the byte-level characters are.
inline std::string utf8_of(char32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

}  // namespace gpt
