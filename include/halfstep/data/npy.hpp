#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/data/detail/npy_header.hpp>
#include <halfstep/data/file.hpp>
#include <halfstep/data/typed_array.hpp>
#include <halfstep/error.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep {

/// Reads an array that NumPy saved (`numpy.save`; NumPy Enhancement Proposal 1, format versions 1.0, 2.0
/// and 3.0). Element types: f2, f4, f8, i1 to i8, u1 to u8 and b1, of either byte order; at most 6 axes; in C
/// order. Throws Error for any other file, one that is cut off or too long included.
TypedArray read_npy(const std::filesystem::path& path);

/// The same for bytes in memory; `name` stands for the file in messages.
TypedArray parse_npy(std::vector<std::byte> bytes, const std::string& name);

inline TypedArray parse_npy(std::vector<std::byte> bytes, const std::string& name) {
  constexpr std::string_view magic = "\x93NUMPY";
  constexpr std::size_t before_length = 8;
  const std::string_view text = detail::text_of(bytes);
  if (!text.starts_with(magic) || text.size() < before_length) {
    throw Error(name + ": is no .npy file: it does not begin with \\x93NUMPY and a version");
  }
  const auto major = static_cast<int>(bytes[6]), minor = static_cast<int>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    throw Error(name + ": has format version " + std::to_string(major) + "." + std::to_string(minor) +
                ", expected 1.0, 2.0 or 3.0");
  }
  const int bytes_of_length = major == 1 ? 2 : 4;
  const std::size_t begin = before_length + static_cast<std::size_t>(bytes_of_length);
  const std::uint64_t length =
      text.size() < begin ? 0 : detail::read_little_endian(bytes.data() + before_length, bytes_of_length);
  if (text.size() < begin || length > text.size() - begin) {
    throw Error(name + ": ends after " + std::to_string(text.size()) + " bytes, within its header");
  }
  const auto header = detail::NpyHeaderReader(text.substr(begin, length), name).read();
  return detail::array_after_header(name, std::move(bytes), static_cast<std::int64_t>(begin + length),
                                    header.dtype, std::span(header.extents).first(header.rank), header.order);
}

inline TypedArray read_npy(const std::filesystem::path& path) {
  return parse_npy(detail::read_file(path), path.string());
}

}  // namespace halfstep
