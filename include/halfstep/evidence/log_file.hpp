#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <halfstep/error.hpp>
#include <halfstep/evidence/detail/append.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace halfstep {

/// What a log calls, once, when it cannot be written any more.
using LogNotice = std::function<void(const std::string& message)>;

/// The notice that goes to standard error.
inline void notify_on_standard_error(const std::string& message) { detail::write_to_standard_error(message); }

struct LogFileOptions {
  /// What the file begins with, if it is new or empty: a CSV file's first line.
  std::string header = {};
  /// Records are lines: where a program was killed in the middle of one, the next begins a line of its own.
  bool lines = false;
  LogNotice notice = notify_on_standard_error;
};

/// A file that records are added to, each written whole as it comes, so that a program that dies loses none.
/// An existing file is continued, never cut.
///
/// Training outlives its log: once the file is open, nothing here throws. A record that cannot be written
/// (the disk is full, the folder is gone) is counted as lost, the notice is called the first time, and every
/// later record is tried anew; what a failed write left behind is cut off, so that a file never holds half a
/// record. A file that was removed is begun again.
class LogFile {
 public:
  /// Throws Error where the file cannot be opened, and where it holds something that does not begin with the header:
  /// before training begins, a wrong path is better said than lived with.
  explicit LogFile(std::filesystem::path path, LogFileOptions options = {})
      : path_(std::move(path)), options_(std::move(options)) {
    if (!open()) {
      throw Error("cannot open the log \"" + path_.string() + "\": " + detail::last_system_error() +
                  "; is the folder there, and may this user write in it?");
    }
    if (!begins_with_header()) {
      throw Error("the log \"" + path_.string() + "\" does not begin with the line \"" +
                  options_.header.substr(0, options_.header.find('\n')) +
                  "\": it is another kind of file, or of another version; give the log a path of its own");
    }
  }

  void write(std::string_view record) noexcept {
    const bool removed = file_.is_open() && file_.was_removed();
    if (removed) file_ = {};
    if ((file_.is_open() || open()) && file_.append(record)) {
      if (removed) notify("was removed while it was written to; a new one is begun");
      return;
    }
    const std::string reason = detail::last_system_error();
    ++lost_;
    notify("cannot be written: " + reason +
           "; training goes on, and records that cannot be written are lost");
  }

  /// Records that could not be written.
  std::int64_t lost() const { return lost_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  bool open() noexcept {
    file_ = detail::AppendedFile(path_.c_str());
    if (file_.is_open() && file_.append(file_.is_empty() ? options_.header : end_of_torn_line())) return true;
    file_ = {};
    return false;
  }
  /// A line break, if the file's last line has none.
  std::string_view end_of_torn_line() const noexcept {
    if (!options_.lines || !is_regular()) return {};
    try {
      std::ifstream file(path_, std::ios::binary);
      file.seekg(-1, std::ios::end);
      const int last = file.get();
      return file && last != '\n' ? "\n" : "";
    } catch (...) {
      return {};
    }
  }
  bool begins_with_header() const {
    if (options_.header.empty() || !is_regular()) return true;
    std::string begin(options_.header.size(), '\0');
    std::ifstream file(path_, std::ios::binary);
    if (!file.is_open()) return true;  // not ours to read
    return file.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == options_.header;
  }
  bool is_regular() const noexcept {
    std::error_code none;
    return std::filesystem::is_regular_file(path_, none);
  }

  void notify(const std::string& what) noexcept {
    if (std::exchange(noticed_, true) || options_.notice == nullptr) return;
    try {
      options_.notice("halfstep: the log \"" + path_.string() + "\" " + what);
    } catch (...) {
      // Whoever listens to a log must not stop training either.
    }
  }

  std::filesystem::path path_;
  LogFileOptions options_;
  detail::AppendedFile file_;
  std::int64_t lost_ = 0;
  bool noticed_ = false;
};

}  // namespace halfstep
