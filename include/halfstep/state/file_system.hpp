#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace halfstep {

/// The system calls that saving and loading make, one virtual function each, so that a test can let any of
/// them fail. The functions of this class are POSIX's own: a call that a signal interrupts is made again, and
/// any other failure is thrown as std::system_error with the call's errno.
///
/// A `File` is a descriptor; whoever opens it closes it. Several threads may `read` one at once.
class FileSystem {
 public:
  using File = int;

  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  virtual ~FileSystem() = default;

  /// Creates a file to write; fails with EEXIST where the name is taken.
  virtual File create(const std::filesystem::path& path);
  /// Opens an existing file to read. Never waits, not even for a named pipe.
  virtual File open(const std::filesystem::path& path);
  /// Opens a folder, for `lock` and `fsync_directory`.
  virtual File open_directory(const std::filesystem::path& path);

  /// Writes a beginning of the bytes, at least one of them, and returns how many.
  virtual std::size_t write(File file, std::span<const std::byte> bytes);
  /// Reads bytes that begin at `offset`; returns how many, 0 at the file's end.
  virtual std::size_t read(File file, std::int64_t offset, std::span<std::byte> bytes);
  /// The length of a regular file; fails for anything else.
  virtual std::int64_t size(File file);

  virtual void fsync(File file);
  virtual void fsync_directory(File folder);
  /// The descriptor is gone even if this throws.
  virtual void close(File file);

  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to);
  virtual void unlink(const std::filesystem::path& path);
  /// False where the folder exists already.
  virtual bool mkdir(const std::filesystem::path& path);
  /// The names in a folder, in no particular order.
  virtual std::vector<std::string> list(const std::filesystem::path& folder);

  enum class Lock {
    shared,            ///< beside other shared locks; waits while another process holds it exclusively
    exclusive_if_free  ///< alone; does not wait
  };
  /// Locks an open file or folder until it is closed, or turns the lock that is held into the other kind.
  /// False: somebody else holds it (exclusive_if_free).
  virtual bool lock(File file, Lock kind);
};

/// The one for those who bring none of their own.
FileSystem& system_files();

}  // namespace halfstep

#include <halfstep/state/detail/file_system.hpp>
