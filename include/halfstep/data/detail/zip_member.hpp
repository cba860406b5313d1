#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <halfstep/data/detail/zip_archive.hpp>
#include <halfstep/error.hpp>
#include <string>
#include <vector>

namespace halfstep::detail {

/// zlib's decompression of bytes without a header of their own.
class Inflater {
 public:
  explicit Inflater(const std::string& name) : name_(name) {
    constexpr int no_header = -MAX_WBITS;
    if (inflateInit2(&stream_, no_header) != Z_OK) throw Error(name_ + ": zlib could not be started");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  /// Unpacks `packed_size` bytes at an offset into `size` of them. The memory grows with what really comes
  /// out.
  std::vector<std::byte> unpack(const ByteSource& source, std::int64_t offset, std::int64_t packed_size,
                                std::int64_t size) {
    constexpr std::int64_t piece = 65536;
    std::vector<std::byte> result = allocate_bytes(name_, (std::min)(size, piece));
    std::array<std::byte, piece> input;
    std::byte beyond{};
    std::int64_t made = 0;
    int status = Z_OK;
    while (status == Z_OK) {
      if (stream_.avail_in == 0 && packed_size > 0) {
        const auto count = (std::min)(packed_size, piece);
        source.read(offset, std::span(input).first(static_cast<std::size_t>(count)));
        stream_.next_in = reinterpret_cast<Bytef*>(input.data());
        stream_.avail_in = static_cast<uInt>(count);
        offset += count;
        packed_size -= count;
      }
      if (made == static_cast<std::int64_t>(result.size()) && made < size) {
        result.resize(static_cast<std::size_t>((std::min)(size, 2 * made)));
      }
      // Where all is there, one byte more would be one too many.
      const bool full = made == size;
      const std::int64_t room = full ? 1 : (std::min)(static_cast<std::int64_t>(result.size()) - made, piece);
      stream_.next_out = reinterpret_cast<Bytef*>(full ? &beyond : result.data() + made);
      stream_.avail_out = static_cast<uInt>(room);
      status = inflate(&stream_, Z_NO_FLUSH);
      made += room - static_cast<std::int64_t>(stream_.avail_out);
      if (made > size)
        fail("gives more than the " + std::to_string(size) + " bytes that the directory tells");
    }
    if (status != Z_STREAM_END) {
      fail(std::string("cannot be unpacked: ") + (stream_.msg != nullptr ? stream_.msg : "it ends too soon"));
    }
    if (made != size || stream_.avail_in > 0 || packed_size > 0) {
      fail("gives " + std::to_string(made) + " of the " + std::to_string(size) +
           " bytes that the directory tells, " + std::to_string(packed_size + stream_.avail_in) +
           " packed bytes being left over");
    }
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(name_ + ": " + what); }

  const std::string& name_;
  z_stream stream_{};
};

/// The bytes of a member, unpacked, their checksum checked.
inline std::vector<std::byte> read_zip_member(const ByteSource& source, const ZipEntry& entry,
                                              const std::string& name) {
  constexpr std::uint64_t encrypted = 1, stored = 0, deflated = 8;
  // No byte that deflate packed gives more than this many (zlib's technical details).
  constexpr std::int64_t largest_ratio = 1032;
  if ((entry.flags & encrypted) != 0) throw Error(name + ": is encrypted, which is not read");
  if (entry.size == ZipDirectory::too_large || entry.packed_size == ZipDirectory::too_large ||
      entry.offset == ZipDirectory::too_large) {
    throw Error(name + ": is larger than 4 GiB, which is not read; save it as .npy");
  }
  const std::int64_t begin = find_packed_bytes(source, entry, name);
  std::vector<std::byte> bytes;
  if (entry.method == stored) {
    if (entry.size != entry.packed_size)
      throw Error(name + ": is stored as it is, but with two sizes; it is damaged");
    bytes = source.read(begin, entry.size);
  } else if (entry.method == deflated) {
    if (entry.size / largest_ratio > entry.packed_size) {
      throw Error(name + ": " + std::to_string(entry.packed_size) + " packed bytes cannot give " +
                  std::to_string(entry.size));
    }
    bytes = Inflater(name).unpack(source, begin, entry.packed_size, entry.size);
  } else {
    throw Error(name + ": is packed by method " + std::to_string(entry.method) +
                ", expected 0 (stored) or 8 (deflate)");
  }
  const std::uint64_t crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc != entry.crc) {
    throw Error(name + ": its checksum (CRC-32) is " + std::to_string(crc) + ", the archive says " +
                std::to_string(entry.crc) + "; it is damaged");
  }
  return bytes;
}

}  // namespace halfstep::detail
