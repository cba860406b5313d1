#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <halfstep/error.hpp>
#include <ios>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace halfstep::detail {

/// A regular file's size and its bytes at any place.
class FileReader {
 public:
  /// Throws Error for what is no regular file or cannot be opened.
  explicit FileReader(const std::filesystem::path& path) : name_(path.string()) {
    std::error_code problem;
    const std::uintmax_t size = std::filesystem::file_size(path, problem);
    if (problem) throw Error(name_ + ": cannot be read: " + problem.message());
    size_ = static_cast<std::int64_t>(size);
    errno = 0;
    file_.open(path, std::ios::binary);
    if (!file_) throw Error(name_ + ": cannot be read: " + std::generic_category().message(errno));
  }

  const std::string& name() const { return name_; }
  std::int64_t size() const { return size_; }

  /// Fills `bytes` from the file at `offset`. The caller has checked that they are inside.
  void read(std::int64_t offset, std::span<std::byte> bytes) {
    const auto wanted = static_cast<std::streamsize>(bytes.size());
    file_.clear();
    file_.seekg(offset);
    file_.read(reinterpret_cast<char*>(bytes.data()), wanted);
    if (file_.gcount() != wanted) {
      throw Error(name_ + ": only " + std::to_string(file_.gcount()) + " of " + std::to_string(wanted) +
                  " bytes at offset " + std::to_string(offset) + " could be read; did the file change?");
    }
  }

 private:
  std::string name_;
  std::int64_t size_ = 0;
  std::ifstream file_;
};

/// The memory for bytes of which there are really so many.
inline std::vector<std::byte> allocate_bytes(const std::string& name, std::int64_t size) {
  try {
    return std::vector<std::byte>(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw Error(name + ": there is no memory for its " + std::to_string(size) + " bytes");
}

/// All of a file.
inline std::vector<std::byte> read_file(const std::filesystem::path& path) {
  FileReader file(path);
  std::vector<std::byte> bytes = allocate_bytes(file.name(), file.size());
  file.read(0, bytes);
  return bytes;
}

/// Some of a file's text between quotation marks, whatever it holds.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > longest ? "...\"" : "\"");
}

/// So that bytes are read as text.
inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An unsigned number of `size` bytes, its lowest byte first or last.
inline std::uint64_t read_little_endian(const std::byte* bytes, int size) {
  std::uint64_t value = 0;
  for (int i = size; i-- > 0;) value = value << 8 | static_cast<std::uint64_t>(bytes[i]);
  return value;
}
inline std::uint64_t read_big_endian(const std::byte* bytes, int size) {
  std::uint64_t value = 0;
  for (int i = 0; i < size; ++i) value = value << 8 | static_cast<std::uint64_t>(bytes[i]);
  return value;
}

}  // namespace halfstep::detail
