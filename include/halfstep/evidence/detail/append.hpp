#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace halfstep::detail {

inline std::string last_system_error() { return std::generic_category().message(errno); }

inline void write_to_standard_error(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
}

/// A descriptor that is only added to, in whole pieces. Where a call fails, errno says why.
class AppendedFile {
 public:
  AppendedFile() = default;
  explicit AppendedFile(const char* path) noexcept
      : file_(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {}
  AppendedFile(AppendedFile&& other) noexcept
      : file_(std::exchange(other.file_, -1)), torn_at_(other.torn_at_) {}
  AppendedFile& operator=(AppendedFile&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(torn_at_, other.torn_at_);
    return *this;
  }
  ~AppendedFile() {
    if (file_ >= 0) ::close(file_);
  }

  bool is_open() const noexcept { return file_ >= 0; }
  bool is_empty() const noexcept { return status().st_size == 0; }
  /// No folder names the file any more: what is written to it goes nowhere.
  bool was_removed() const noexcept {
    const struct stat now = status();
    return S_ISREG(now.st_mode) && now.st_nlink == 0;
  }

  /// All of the bytes or, in a regular file, none.
  bool append(std::string_view bytes) noexcept {
    if (!cut_what_is_torn()) return false;
    const struct stat before = status();
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(written));
      } else if (written == 0 || errno != EINTR) {
        const int reason = written == 0 ? ENOSPC : errno;
        torn_at_ = S_ISREG(before.st_mode) ? before.st_size : -1;
        cut_what_is_torn();
        errno = reason;
        return false;
      }
    }
    return true;
  }

 private:
  struct stat status() const noexcept {
    struct stat result {};
    if (::fstat(file_, &result) != 0) result = {};
    return result;
  }
  /// Takes back the half record that a failed write left. False where even that fails: nothing may follow it.
  bool cut_what_is_torn() noexcept {
    if (torn_at_ >= 0 && ::ftruncate(file_, torn_at_) != 0) return false;
    torn_at_ = -1;
    return true;
  }

  int file_ = -1;
  off_t torn_at_ = -1;
};

}  // namespace halfstep::detail
