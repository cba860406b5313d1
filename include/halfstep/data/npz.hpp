#pragma once

#include <cstddef>
#include <filesystem>
#include <halfstep/data/detail/zip_archive.hpp>
#include <halfstep/data/detail/zip_member.hpp>
#include <halfstep/data/file.hpp>
#include <halfstep/data/npy.hpp>
#include <halfstep/data/typed_array.hpp>
#include <halfstep/error.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep {

/// The named arrays of a file that `numpy.savez` or `numpy.savez_compressed` wrote: a zip archive of .npy
/// files. Needs zlib: link halfstep::state. An array is read when it is asked for, and held against the
/// archive's checksum. One object serves one thread; it moves but does not copy, for copies would read
/// through the same open file. One that was moved from may only be destroyed or assigned to.
///
/// Every call throws Error for an archive that is damaged or of a kind that NumPy does not write: encrypted,
/// in several parts, packed by anything but deflate; and for one of more than 4 GiB.
class NpzFile {
 public:
  /// Reads the directory of the archive.
  explicit NpzFile(const std::filesystem::path& path) : source_(path), directory_(source_) {}
  /// The same for bytes in memory; `name` stands for the file in messages.
  NpzFile(std::vector<std::byte> bytes, std::string name)
      : source_(std::move(bytes), std::move(name)), directory_(source_) {}
  NpzFile(NpzFile&&) = default;
  NpzFile& operator=(NpzFile&&) = default;

  /// The arrays' names, as they were given to NumPy, in the order of the file.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(directory_.count()));
    directory_.for_each([&names](const detail::ZipEntry& entry) { names.emplace_back(array_name(entry)); });
    return names;
  }

  /// Throws ConfigurationError for a name that is not there.
  TypedArray array(std::string_view name) const {
    detail::ZipEntry found;
    int count = 0;
    directory_.for_each([&](const detail::ZipEntry& entry) {
      if (array_name(entry) != name) return;
      found = entry;
      ++count;
    });
    const std::string full_name = source_.name() + "[" + detail::quoted(name) + "]";
    if (count == 0)
      throw ConfigurationError(full_name + ": there is no such array; names() lists those that are");
    if (count > 1) throw Error(full_name + ": is in the archive " + std::to_string(count) + " times");
    return parse_npy(detail::read_zip_member(source_, found, full_name), full_name);
  }

 private:
  static std::string_view array_name(const detail::ZipEntry& entry) {
    constexpr std::string_view suffix = ".npy";
    std::string_view name = entry.name;
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
    return name;
  }

  detail::ByteSource source_;
  detail::ZipDirectory directory_;
};

}  // namespace halfstep
