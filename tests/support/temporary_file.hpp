#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfstep::test {

/// A file of these bytes that is gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("halfstep-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::ofstream file(path_, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  explicit TemporaryFile(std::span<const std::byte> bytes)
      : TemporaryFile(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// The bytes of a string, zeros included.
inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace halfstep::test
