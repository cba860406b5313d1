#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <halfstep/state/file_system.hpp>
#include <span>
#include <system_error>

namespace halfstep::test {

/// A file system of one file, to be read, under any path. It looks at the bytes where they are and copies
/// none.
class MemoryFile : public FileSystem {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  File open(const std::filesystem::path&) override { return 1; }
  std::int64_t size(File) override { return static_cast<std::int64_t>(bytes_.size()); }
  void close(File) override {}
  std::size_t read(File, std::int64_t offset, std::span<std::byte> bytes) override {
    if (offset < 0) throw std::system_error(EINVAL, std::generic_category(), "read");
    const auto from = (std::min)(static_cast<std::size_t>(offset), bytes_.size());
    const std::size_t count = (std::min)(bytes.size(), bytes_.size() - from);
    if (count > 0) std::memcpy(bytes.data(), bytes_.data() + from, count);
    return count;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace halfstep::test
