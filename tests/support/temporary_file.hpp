#pragma once

#include <cstddef>
#include <fstream>
#include <ios>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/temporary_folder.hpp"

namespace halfstep::test {

/// A file of these bytes that is gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes) {
    std::ofstream file(path(), std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::string path() const { return (folder_ / "file").string(); }

 private:
  TemporaryFolder folder_;
};

/// The bytes of a string, zeros included.
inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

}  // namespace halfstep::test
