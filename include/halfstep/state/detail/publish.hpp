#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <halfstep/state/publish.hpp>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace halfstep {
namespace detail {

inline std::string_view advice_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space, or save elsewhere";
    case EACCES:
    case EPERM:
    case EROFS:
      return "see that this process may write in the folder, or save elsewhere";
    case ENOENT:
    case ENOTDIR:
      return "see that the folder exists";
    default:
      return "see to the disk, or save elsewhere";
  }
}

/// What `call` returns; a failed system call becomes a CheckpointError about `path`.
template <class Call>
decltype(auto) while_saving(const std::filesystem::path& path, std::string_view outcome, const Call& call) {
  try {
    return call();
  } catch (const std::system_error& error) {
    throw CheckpointError("cannot save " + path.string() + ": " + error.what() + "; " + std::string(outcome) +
                          "; " + std::string(advice_for(error.code().value())));
  }
}

inline constexpr std::string_view untouched = "the previous generation is untouched";

inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

inline constexpr std::string_view temporary_suffix = ".halfstep-partial";

inline bool is_temporary(std::string_view name) {
  return name.starts_with('.') && name.ends_with(temporary_suffix);
}

/// A saving process holds a shared lock on the folder for as long as its temporary is there, and a killed one
/// holds none. So whoever gets the folder alone finds temporaries that nobody will finish. Where folders
/// cannot be locked, or something cannot be removed, it stays: that costs space, and no save.
inline void remove_left_overs(FileSystem& files, FileSystem::File folder, const std::filesystem::path& path) {
  try {
    if (files.lock(folder, FileSystem::Lock::exclusive_if_free)) {
      for (const std::string& name : files.list(path)) {
        if (is_temporary(name)) files.unlink(path / name);
      }
    }
  } catch (const std::system_error&) {
  }
  try {
    files.lock(folder, FileSystem::Lock::shared);
  } catch (const std::system_error&) {
  }
}

/// A file of a name that nobody else uses, removed on the way out unless it has become something else.
class Temporary {
 public:
  Temporary(FileSystem& files, const std::filesystem::path& target) : files_(files), target_(target) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (path_.empty()) return;
    try {
      files_.unlink(path_);
    } catch (...) {
    }
  }

  /// Creates it.
  FileSystem::File create() {
    const std::filesystem::path folder = folder_of(target_);
    const std::string stem = "." + target_.filename().string() + "." + std::to_string(::getpid()) + "-";
    for (int attempt = 0;; ++attempt) {
      std::filesystem::path path = folder / (stem + std::to_string(attempt) + std::string(temporary_suffix));
      try {
        const FileSystem::File file = files_.create(path);
        path_ = std::move(path);
        return file;
      } catch (const std::system_error& error) {
        if (error.code().value() != EEXIST || attempt == 1000) throw;
      }
    }
  }

  void rename_to_target() {
    files_.rename(path_, target_);
    path_.clear();
  }

 private:
  FileSystem& files_;
  const std::filesystem::path& target_;
  std::filesystem::path path_;
};

/// Small pieces go to the file together, large ones as they are.
class BufferedFile {
 public:
  BufferedFile(FileSystem& files, FileSystem::File file) : files_(files), file_(file) {
    buffer_.reserve(capacity);
  }

  void write(std::span<const std::byte> bytes) {
    if (bytes.size() > capacity - buffer_.size()) flush();
    if (bytes.size() >= capacity) {
      write_all(files_, file_, bytes);
    } else {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }
  }

  void flush() {
    write_all(files_, file_, buffer_);
    buffer_.clear();
  }

 private:
  static constexpr std::size_t capacity = std::size_t{1} << 16;

  FileSystem& files_;
  FileSystem::File file_;
  std::vector<std::byte> buffer_;
};

}  // namespace detail

inline void publish(FileSystem& files, const std::filesystem::path& path,
                    const std::function<void(const ByteSink&)>& writer) {
  const auto attempt = [&](const auto& call) { return detail::while_saving(path, detail::untouched, call); };
  const std::filesystem::path folder_path = detail::folder_of(path);
  detail::OpenFile folder(files, attempt([&] { return files.open_directory(folder_path); }));
  detail::remove_left_overs(files, folder.get(), folder_path);

  detail::Temporary temporary(files, path);
  detail::OpenFile file(files, attempt([&] { return temporary.create(); }));
  detail::BufferedFile buffered(files, file.get());
  writer([&](std::span<const std::byte> bytes) { attempt([&] { buffered.write(bytes); }); });
  attempt([&] {
    buffered.flush();
    files.fsync(file.get());
    file.close();
    temporary.rename_to_target();
  });
  detail::while_saving(
      path, "the new file is in place, but a loss of power may still bring back what was there before",
      [&] { files.fsync_directory(folder.get()); });
}

inline void make_folder(FileSystem& files, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.has_filename() ? folder : detail::folder_of(folder);
  const std::filesystem::path parent = detail::folder_of(path);
  const auto make = [&] {
    if (!files.mkdir(path)) return;
    detail::OpenFile above(files, files.open_directory(parent));
    files.fsync_directory(above.get());
  };
  detail::while_saving(path, "nothing is saved", [&] {
    try {
      make();
    } catch (const std::system_error& error) {
      if (error.code().value() != ENOENT || parent == path) throw;
      make_folder(files, parent);
      make();
    }
  });
}

}  // namespace halfstep
