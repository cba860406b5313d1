#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <halfstep/state/safetensors.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "state/memory_file.hpp"

namespace halfstep::test {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

inline std::string content(const std::filesystem::path& path) {
  std::string text(static_cast<std::size_t>(std::filesystem::file_size(path)), '\0');
  std::ifstream(path, std::ios::binary).read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

inline void put(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// The bytes that the format gives a file.
inline std::string written(const StateFile& file) {
  std::string text;
  safetensors::write(
      [&](std::span<const std::byte> part) {
        text.append(reinterpret_cast<const char*>(part.data()), part.size());
      },
      file);
  return text;
}

inline StateFile parsed(std::string_view text, const safetensors::Limits& limits = {}) {
  MemoryFile files(bytes_of(text));
  return safetensors::read("run/some.safetensors", limits, files);
}

/// A file by hand: the header's length, unless another one is claimed, the header, and so many bytes of data.
inline std::string file_of(std::string_view header, std::size_t data_bytes = 0) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 255u);
  text += header;
  for (std::size_t i = 0; i < data_bytes; ++i) text += static_cast<char>(i);
  return text;
}
inline std::string file_that_claims(std::uint64_t length, std::string_view header,
                                    std::size_t data_bytes = 0) {
  std::string text = file_of(header, data_bytes);
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(length >> (8 * i) & 255u);
  return text;
}

}  // namespace halfstep::test
