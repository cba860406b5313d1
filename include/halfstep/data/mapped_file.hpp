#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/data/file.hpp>
#include <halfstep/error.hpp>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#if __has_include(<sys/mman.h>)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace halfstep::detail {

/// Bytes that do not change, in memory or as a file mapped into it. Copies show the same bytes.
class SharedBytes {
 public:
  explicit SharedBytes(std::vector<std::byte> bytes) {
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    bytes_ = *owner;
    owner_ = owner;
  }

  /// Maps a file, so that only what is looked at is read; where the system has no such thing, reads it. A
  /// file that is cut off while it is mapped ends the program at the next look behind its end, as the system
  /// has it. Throws Error for what is no regular file or cannot be mapped.
  static SharedBytes map(const std::filesystem::path& path) {
#if __has_include(<sys/mman.h>)
    const FileReader checked(path);
    if (checked.size() == 0) return SharedBytes(std::vector<std::byte>{});
    const auto size = static_cast<std::size_t>(checked.size());
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw Error(checked.name() + ": cannot be read: " + std::generic_category().message(errno));
    void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    const int problem = errno;
    ::close(file);
    if (address == MAP_FAILED) {
      throw Error(checked.name() + ": cannot be mapped: " + std::generic_category().message(problem));
    }
    return SharedBytes({static_cast<const std::byte*>(address), size},
                       std::shared_ptr<const void>(address, [size](const void* mapped) {
                         ::munmap(const_cast<void*>(mapped), size);
                       }));
#else
    return SharedBytes(read_file(path));
#endif
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  SharedBytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace halfstep::detail
