#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <halfstep/data/file.hpp>
#include <halfstep/error.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep::detail {

/// Bytes that can be read at any place: a file's, or those in memory.
class ByteSource {
 public:
  explicit ByteSource(const std::filesystem::path& path) {
    const auto file = std::make_shared<FileReader>(path);
    name_ = file->name();
    size_ = file->size();
    read_ = [file](std::int64_t offset, std::span<std::byte> bytes) { file->read(offset, bytes); };
  }
  ByteSource(std::vector<std::byte> bytes, std::string name)
      : name_(std::move(name)), size_(static_cast<std::int64_t>(bytes.size())) {
    const auto all = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    read_ = [all](std::int64_t offset, std::span<std::byte> to) {
      std::copy_n(all->begin() + offset, to.size(), to.begin());
    };
  }

  const std::string& name() const { return name_; }
  std::int64_t size() const { return size_; }
  /// Throws Error unless all of them lie inside; nothing is allocated then.
  void read(std::int64_t offset, std::span<std::byte> bytes) const {
    require_inside(offset, static_cast<std::int64_t>(bytes.size()));
    read_(offset, bytes);
  }
  std::vector<std::byte> read(std::int64_t offset, std::int64_t size) const {
    require_inside(offset, size);
    std::vector<std::byte> bytes = allocate_bytes(name_, size);
    read_(offset, bytes);
    return bytes;
  }

 private:
  void require_inside(std::int64_t offset, std::int64_t size) const {
    if (offset < 0 || size < 0 || offset > size_ || size > size_ - offset) {
      throw Error(name_ + ": " + std::to_string(size) + " bytes at offset " + std::to_string(offset) +
                  " are outside the file of " + std::to_string(size_) + "; it is damaged or cut off");
    }
  }

  std::string name_;
  std::int64_t size_ = 0;
  std::function<void(std::int64_t, std::span<std::byte>)> read_;
};

/// What the directory of an archive says of one member.
struct ZipEntry {
  std::string_view name;
  std::uint64_t flags = 0;
  std::uint64_t method = 0;
  std::uint64_t crc = 0;
  std::int64_t packed_size = 0;
  std::int64_t size = 0;
  std::int64_t offset = 0;  ///< of its own header
};

/// The directory of a zip archive (PKWARE, APPNOTE.TXT - .ZIP File Format Specification, 4.3). The bytes as
/// they lie in the file, and read anew at every look: they take no more memory than they are.
class ZipDirectory {
 public:
  static constexpr std::int64_t too_large = 0xffffffff;  ///< stands for a number that only ZIP64 holds

  explicit ZipDirectory(const ByteSource& source) : name_(source.name()) {
    constexpr std::int64_t end_size = 22, longest_comment = 65535;
    constexpr std::string_view end_signature = "PK\5\6";
    const std::int64_t tail_size = (std::min)(source.size(), end_size + longest_comment);
    const std::vector<std::byte> tail = source.read(source.size() - tail_size, tail_size);
    std::size_t at = std::string_view::npos;
    if (tail_size >= end_size) {
      at = text_of(tail).rfind(end_signature, static_cast<std::size_t>(tail_size - end_size));
    }
    if (at == std::string_view::npos) {
      throw Error(name_ + ": is no zip archive, or cut off: there is no directory at its end");
    }
    const std::byte* const end = tail.data() + at;
    const std::uint64_t parts = read_little_endian(end + 4, 4);
    count_ = static_cast<std::int64_t>(read_little_endian(end + 10, 2));
    const auto size = static_cast<std::int64_t>(read_little_endian(end + 12, 4));
    const auto offset = static_cast<std::int64_t>(read_little_endian(end + 16, 4));
    if (parts != 0) throw Error(name_ + ": is a part of an archive in several parts, which are not read");
    if (count_ == 0xffff || size == too_large || offset == too_large) {
      throw Error(name_ +
                  ": is a ZIP64 archive of more than 4 GiB, which is not read; save large arrays as .npy");
    }
    bytes_ = source.read(offset, size);
    std::int64_t found = 0;
    for_each([&found](const ZipEntry&) { ++found; });
    if (found != count_) {
      throw Error(name_ + ": the directory has " + std::to_string(found) + " members, but its end says " +
                  std::to_string(count_));
    }
  }

  std::int64_t count() const { return count_; }

  /// Calls function(entry) for every member, in the directory's order. Throws Error for a directory that is
  /// damaged.
  template <class Function>
  void for_each(const Function& function) const {
    constexpr std::string_view signature = "PK\1\2";
    constexpr std::size_t fixed_size = 46;
    for (std::size_t at = 0; at < bytes_.size();) {
      const std::string_view rest = text_of(bytes_).substr(at);
      const std::byte* const entry = bytes_.data() + at;
      std::size_t size = fixed_size, name_size = 0;
      if (rest.size() >= fixed_size) {
        name_size = read_little_endian(entry + 28, 2);
        size += name_size + read_little_endian(entry + 30, 2) + read_little_endian(entry + 32, 2);
      }
      if (!rest.starts_with(signature) || rest.size() < size) {
        throw Error(name_ + ": the directory is damaged " + std::to_string(at) +
                    " bytes after its beginning");
      }
      function(ZipEntry{.name = rest.substr(fixed_size, name_size),
                        .flags = read_little_endian(entry + 8, 2),
                        .method = read_little_endian(entry + 10, 2),
                        .crc = read_little_endian(entry + 16, 4),
                        .packed_size = static_cast<std::int64_t>(read_little_endian(entry + 20, 4)),
                        .size = static_cast<std::int64_t>(read_little_endian(entry + 24, 4)),
                        .offset = static_cast<std::int64_t>(read_little_endian(entry + 42, 4))});
      at += size;
    }
  }

 private:
  std::string name_;
  std::int64_t count_ = 0;
  std::vector<std::byte> bytes_;
};

/// The place of a member's packed bytes, behind its own header.
inline std::int64_t find_packed_bytes(const ByteSource& source, const ZipEntry& entry,
                                      const std::string& name) {
  constexpr std::int64_t fixed_size = 30;
  const std::vector<std::byte> header = source.read(entry.offset, fixed_size);
  if (!text_of(header).starts_with("PK\3\4")) {
    throw Error(name + ": offset " + std::to_string(entry.offset) +
                ", where the directory has it, holds no member's header; the archive is damaged");
  }
  return entry.offset + fixed_size + static_cast<std::int64_t>(read_little_endian(header.data() + 26, 2)) +
         static_cast<std::int64_t>(read_little_endian(header.data() + 28, 2));
}

}  // namespace halfstep::detail
