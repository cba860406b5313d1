#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/state/checksum.hpp>
#include <halfstep/state/detail/in_threads.hpp>
#include <halfstep/state/detail/safetensors_header.hpp>
#include <halfstep/state/safetensors.hpp>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace halfstep::safetensors {
namespace detail {

using halfstep::detail::read_all;

/// Bytes that are read, and their checksum taken while they are still in the cache.
inline constexpr std::size_t piece = std::size_t{1} << 18;

/// What `call` returns; what it finds wrong becomes a CheckpointError about `path`.
template <class Call>
decltype(auto) while_loading(const std::filesystem::path& path, const Call& call) {
  try {
    return call();
  } catch (const Unsound& unsound) {
    throw CheckpointError(
        "cannot load " + path.string() + ": " + unsound.text +
        "; nothing was loaded from it: copy it again from where it came, or take another checkpoint");
  } catch (const std::system_error& error) {
    throw CheckpointError("cannot load " + path.string() + ": " + error.what() +
                          "; see that it is a file and that this process may read it");
  }
}

inline Header read_header_of(FileSystem& files, FileSystem::File file, const Limits& limits) {
  const std::int64_t size = files.size(file);
  std::array<std::byte, 8> prefix;
  if (size < 8 || read_all(files, file, 0, prefix) != 8) {
    throw Unsound("it has " + std::to_string(size) + " bytes, which is too short for a safetensors file");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  if (length > static_cast<std::uint64_t>((std::max)(limits.header_bytes, std::int64_t{0}))) {
    throw Unsound("its first 8 bytes ask for a header of " + std::to_string(length) +
                  " bytes, more than the limit of " + std::to_string(limits.header_bytes) +
                  ": it is damaged, or no safetensors file");
  }
  if (length > static_cast<std::uint64_t>(size - 8)) {
    throw Unsound("its first 8 bytes ask for a header of " + std::to_string(length) +
                  " bytes, but the file has only " + std::to_string(size) +
                  ": it is truncated, or no safetensors file");
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  if (read_all(files, file, 8, std::as_writable_bytes(std::span(text))) != text.size()) {
    throw Unsound("it became shorter while it was read");
  }
  return parse_header(text, 8 + static_cast<std::int64_t>(length), size, limits);
}

/// Goes through a tensor's bytes in pieces; destination(offset, size) is where to put one.
template <class Destination>
void read_tensor(FileSystem& files, FileSystem::File file, const TensorInfo& tensor,
                 const Destination& destination) {
  std::uint32_t checksum = 0;
  const auto size = static_cast<std::size_t>(tensor.bytes);
  for (std::size_t done = 0; done < size; done += piece) {
    const std::span<std::byte> part = destination(done, (std::min)(piece, size - done));
    if (read_all(files, file, tensor.offset + static_cast<std::int64_t>(done), part) != part.size()) {
      throw Unsound("it became shorter while it was read");
    }
    if (tensor.checksum) checksum = crc32(part, checksum);
  }
  if (tensor.checksum && checksum != *tensor.checksum) {
    throw Unsound("the bytes of tensor " + in_quotes(tensor.name) + " have the checksum " + to_hex(checksum) +
                  ", but were written with " + to_hex(*tensor.checksum) + ": the file is damaged");
  }
}

/// Asks for large pages in memory that is new: a fault for each 2 MiB instead of one for each 4 KiB, and those cost
/// more than reading does.
inline void advise_large_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size) {
#if defined(MADV_HUGEPAGE)
  constexpr std::size_t page = std::size_t{1} << 21;
  if (size < 2 * page) return;
  const std::size_t skipped = page - reinterpret_cast<std::uintptr_t>(memory) % page;
  ::madvise(static_cast<std::byte*>(memory) + skipped, (size - skipped) / page * page, MADV_HUGEPAGE);
#endif
}

/// An empty vector with room for `size` bytes.
inline std::vector<std::byte> room_for(std::size_t size) {
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  advise_large_pages(bytes.data(), size);
  return bytes;
}

}  // namespace detail

inline Reader::Reader(const std::filesystem::path& path, const Limits& limits, FileSystem& files)
    : path_(path),
      files_(files),
      file_(files, detail::while_loading(path, [&] { return files.open(path); })),
      header_(
          detail::while_loading(path, [&] { return detail::read_header_of(files, file_.get(), limits); })) {}

inline void Reader::read(const TensorInfo& tensor, std::span<std::byte> destination) {
  if (static_cast<std::int64_t>(destination.size()) != tensor.bytes) {
    throw CheckpointError("cannot load " + path_.string() + ": tensor " + detail::in_quotes(tensor.name) +
                          " has " + std::to_string(tensor.bytes) + " bytes, and there is space for " +
                          std::to_string(destination.size()));
  }
  detail::while_loading(path_, [&] {
    detail::read_tensor(files_, file_.get(), tensor, [&](std::size_t offset, std::size_t size) {
      return destination.subspan(offset, size);
    });
  });
}

inline TensorData Reader::read(std::string_view name) {
  const TensorInfo* found = header_.find(name);
  if (found == nullptr) {
    throw CheckpointError("cannot load " + path_.string() + ": it has no tensor " + detail::in_quotes(name));
  }
  return take(TensorInfo(*found));
}

inline TensorData Reader::take(TensorInfo&& info) {
  TensorData tensor{std::move(info.name), info.dtype, std::move(info.shape), {}};
  info.name = tensor.name;
  tensor.bytes = detail::room_for(static_cast<std::size_t>(info.bytes));
  detail::while_loading(path_, [&] {
    // Grown piece by piece: a vector's new bytes are zeroes, and those are still in the cache when they are read over.
    detail::read_tensor(files_, file_.get(), info, [&](std::size_t offset, std::size_t size) {
      tensor.bytes.resize(offset + size);
      return std::span(tensor.bytes).subspan(offset, size);
    });
  });
  return tensor;
}

inline void Reader::verify() {
  std::vector<std::byte> buffer;
  for (const TensorInfo& tensor : header_.tensors) {
    detail::while_loading(path_, [&] {
      detail::read_tensor(files_, file_.get(), tensor, [&](std::size_t, std::size_t size) {
        buffer.resize((std::max)(buffer.size(), size));
        return std::span(buffer).first(size);
      });
    });
  }
}

inline StateFile read(const std::filesystem::path& path, const Limits& limits, FileSystem& files) {
  Reader reader(path, limits, files);
  StateFile file;
  std::vector<TensorInfo>& infos = reader.header_.tensors;
  std::int64_t bytes = 0;
  for (const TensorInfo& info : infos) bytes += info.bytes;
  file.tensors.resize(infos.size());
  halfstep::detail::in_threads(infos.size(), bytes, [&](std::size_t i) { file.tensors[i] = reader.take(std::move(infos[i])); });
  file.metadata = std::move(reader.header_.metadata);
  return file;
}

inline Header read_header(const std::filesystem::path& path, const Limits& limits, FileSystem& files) {
  return Reader(path, limits, files).header();
}

}  // namespace halfstep::safetensors
