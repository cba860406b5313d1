#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/state/file_system.hpp>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfstep::test {

/// The real file system, with a note of every call, and with failures when they are asked for.
class FaultyFiles : public FileSystem {
 public:
  enum class Fault {
    once,        ///< call number `at` fails, and does nothing
    done,        ///< call number `at` does its work and fails all the same
    ever_after,  ///< from call number `at` on, everything fails
  };

  /// The names of the calls so far.
  std::vector<std::string> calls;

  /// Counts from 0, beginning now.
  void fail_at(int at, Fault fault, int error) {
    calls.clear();
    at_ = at;
    fault_ = fault;
    error_ = error;
  }
  void fail_calls_named(std::string name, int error) {
    calls.clear();
    at_ = -1;
    name_ = std::move(name);
    error_ = error;
  }
  void fail_no_more() {
    at_ = -1;
    name_.clear();
  }
  /// Writes and reads take at most so many bytes.
  void transfer_at_most(std::size_t bytes) { largest_transfer_ = bytes; }

  File create(const std::filesystem::path& path) override {
    return call(
        "create", [&] { return FileSystem::create(path); }, [&](File file) { FileSystem::close(file); });
  }
  File open(const std::filesystem::path& path) override {
    return call(
        "open", [&] { return FileSystem::open(path); }, [&](File file) { FileSystem::close(file); });
  }
  File open_directory(const std::filesystem::path& path) override {
    return call(
        "open_directory", [&] { return FileSystem::open_directory(path); },
        [&](File file) { FileSystem::close(file); });
  }
  std::size_t write(File file, std::span<const std::byte> bytes) override {
    return call("write", [&] {
      return FileSystem::write(file, bytes.first((std::min)(bytes.size(), largest_transfer_)));
    });
  }
  std::size_t read(File file, std::int64_t offset, std::span<std::byte> bytes) override {
    return call("read", [&] {
      return FileSystem::read(file, offset, bytes.first((std::min)(bytes.size(), largest_transfer_)));
    });
  }
  std::int64_t size(File file) override {
    return call("size", [&] { return FileSystem::size(file); });
  }
  // No test here cuts the power, and waiting for the disk takes long.
  void fsync(File) override {
    call("fsync", [] {});
  }
  void fsync_directory(File) override {
    call("fsync_directory", [] {});
  }
  /// As the system does, it takes the descriptor even where it fails.
  void close(File file) override {
    FileSystem::close(file);
    call("close", [] {});
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    call("rename", [&] { FileSystem::rename(from, to); });
  }
  void unlink(const std::filesystem::path& path) override {
    call("unlink", [&] { FileSystem::unlink(path); });
  }
  bool mkdir(const std::filesystem::path& path) override {
    return call("mkdir", [&] { return FileSystem::mkdir(path); });
  }
  std::vector<std::string> list(const std::filesystem::path& folder) override {
    return call("list", [&] { return FileSystem::list(folder); });
  }
  bool lock(File file, Lock kind) override {
    return call("lock", [&] { return FileSystem::lock(file, kind); });
  }

 private:
  struct Nothing {
    template <class T>
    void operator()(const T&) const {}
  };

  template <class Work, class Undo = Nothing>
  std::invoke_result_t<const Work&> call(const char* name, const Work& work, const Undo& undo = {}) {
    const int number = static_cast<int>(calls.size());
    calls.push_back(name);
    const bool now =
        name_ == name || (at_ >= 0 && (fault_ == Fault::ever_after ? number >= at_ : number == at_));
    if (!now) return work();
    if (fault_ == Fault::done && at_ >= 0) {
      if constexpr (std::is_void_v<std::invoke_result_t<const Work&>>) {
        work();
      } else {
        undo(work());
      }
    }
    throw std::system_error(error_, std::generic_category(), name);
  }

  int at_ = -1;
  Fault fault_ = Fault::once;
  int error_ = EIO;
  std::string name_;
  std::size_t largest_transfer_ = std::size_t{1} << 30;
};

}  // namespace halfstep::test
