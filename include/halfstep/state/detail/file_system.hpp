#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/state/file_system.hpp>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace halfstep {
namespace detail {

[[noreturn]] inline void throw_errno(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

/// What the system call returned, made again as long as a signal interrupts it.
template <class Call>
auto uninterrupted(const char* name, const Call& call) {
  while (true) {
    const auto result = call();
    if (result >= 0) return result;
    if (errno != EINTR) throw_errno(name);
  }
}

// Linux transfers at most 0x7ffff000 bytes a call.
inline constexpr std::size_t largest_transfer = std::size_t{1} << 30;

}  // namespace detail

inline FileSystem::File FileSystem::create(const std::filesystem::path& path) {
  return detail::uninterrupted(
      "open", [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
}

inline FileSystem::File FileSystem::open(const std::filesystem::path& path) {
  return detail::uninterrupted(
      "open", [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
}

inline FileSystem::File FileSystem::open_directory(const std::filesystem::path& path) {
  return detail::uninterrupted("open",
                               [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
}

inline std::size_t FileSystem::write(File file, std::span<const std::byte> bytes) {
  const std::size_t count = (std::min)(bytes.size(), detail::largest_transfer);
  return static_cast<std::size_t>(
      detail::uninterrupted("write", [&] { return ::write(file, bytes.data(), count); }));
}

inline std::size_t FileSystem::read(File file, std::int64_t offset, std::span<std::byte> bytes) {
  const std::size_t count = (std::min)(bytes.size(), detail::largest_transfer);
  return static_cast<std::size_t>(detail::uninterrupted(
      "read", [&] { return ::pread(file, bytes.data(), count, static_cast<::off_t>(offset)); }));
}

inline std::int64_t FileSystem::size(File file) {
  struct ::stat facts = {};
  detail::uninterrupted("fstat", [&] { return ::fstat(file, &facts); });
  if (S_ISDIR(facts.st_mode)) {
    errno = EISDIR;
    detail::throw_errno("fstat");
  }
  if (!S_ISREG(facts.st_mode)) {
    errno = EINVAL;
    detail::throw_errno("fstat");
  }
  return static_cast<std::int64_t>(facts.st_size);
}

inline void FileSystem::fsync(File file) {
#if defined(F_FULLFSYNC)
  // There fsync alone leaves the data in the drive's cache.
  if (::fcntl(file, F_FULLFSYNC) == 0) return;
#endif
  detail::uninterrupted("fsync", [&] { return ::fsync(file); });
}

inline void FileSystem::fsync_directory(File folder) {
  detail::uninterrupted("fsync", [&] { return ::fsync(folder); });
}

inline void FileSystem::close(File file) {
  // Interrupted, the descriptor is closed all the same, and a second call might close another thread's.
  if (::close(file) != 0 && errno != EINTR) detail::throw_errno("close");
}

inline void FileSystem::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  detail::uninterrupted("rename", [&] { return ::rename(from.c_str(), to.c_str()); });
}

inline void FileSystem::unlink(const std::filesystem::path& path) {
  detail::uninterrupted("unlink", [&] { return ::unlink(path.c_str()); });
}

inline bool FileSystem::mkdir(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return true;
  const int error = errno;
  struct ::stat facts = {};
  if (error == EEXIST && ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) return false;
  errno = error;
  detail::throw_errno("mkdir");
}

inline std::vector<std::string> FileSystem::list(const std::filesystem::path& folder) {
  ::DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) detail::throw_errno("opendir");
  struct Closer {
    ::DIR* stream;
    ~Closer() { ::closedir(stream); }
  } closer{stream};
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const ::dirent* entry = ::readdir(stream);
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) detail::throw_errno("readdir");
  return names;
}

inline bool FileSystem::lock(File file, Lock kind) {
  const int operation = kind == Lock::shared ? LOCK_SH : LOCK_EX | LOCK_NB;
  while (::flock(file, operation) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) detail::throw_errno("flock");
  }
  return true;
}

inline FileSystem& system_files() {
  static FileSystem files;
  return files;
}

namespace detail {

/// Closes on the way out, and is deaf to errors then; `close` reports them.
class OpenFile {
 public:
  OpenFile(FileSystem& files, FileSystem::File file) : files_(files), file_(file) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    try {
      close();
    } catch (...) {
    }
  }

  FileSystem::File get() const { return file_; }
  void close() {
    if (file_ >= 0) files_.close(std::exchange(file_, -1));
  }

 private:
  FileSystem& files_;
  FileSystem::File file_;
};

inline void write_all(FileSystem& files, FileSystem::File file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t written = files.write(file, bytes);
    if (written == 0) throw std::system_error(EIO, std::generic_category(), "write");
    bytes = bytes.subspan(written);
  }
}

/// Fills `bytes`; returns how many the file had.
inline std::size_t read_all(FileSystem& files, FileSystem::File file, std::int64_t offset,
                            std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::size_t read = files.read(file, offset + static_cast<std::int64_t>(done), bytes.subspan(done));
    if (read == 0) break;
    done += read;
  }
  return done;
}

}  // namespace detail
}  // namespace halfstep
