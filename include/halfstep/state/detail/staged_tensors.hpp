#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <halfstep/compute/chunks.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/state/detail/in_threads.hpp>
#include <halfstep/state/safetensors.hpp>

namespace halfstep::detail {

/// A file's bytes cannot be trusted: a matter of the file, not of what it is loaded into.
struct DamagedFile : CheckpointError {
  using CheckpointError::CheckpointError;
};

/// A flat buffer of a trainer's in the making: what lies between the segments is zero, the rest is to be written.
template <Device D>
class StagedBuffer {
 public:
  StagedBuffer() = default;
  StagedBuffer(D& device, std::int64_t size, std::span<const compute::Segment> segments)
      : buffer_(Buffer<float, D>::uninitialized(device, size)) {
    safetensors::detail::advise_large_pages(buffer_.data(), buffer_.bytes());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const std::int64_t next = i + 1 < segments.size() ? segments[i + 1].offset : size;
      std::fill(buffer_.data() + segments[i].offset + segments[i].size, buffer_.data() + next, 0.0f);
    }
  }
  float* data() const { return buffer_.data(); }
  Buffer<float, D>& get() { return buffer_; }

 private:
  Buffer<float, D> buffer_;
};

/// A file of which names, types, shapes and metadata are known, and whose bytes are read to where they belong.
class OutlineReader {
 public:
  /// Throws CheckpointError for a header that is not sound.
  OutlineReader(const std::filesystem::path& path, FileSystem& files) : reader_(path, {}, files) {
    for (const safetensors::TensorInfo& info : reader_.header().tensors) {
      outline_.tensors.push_back({info.name, info.dtype, info.shape, {}});
    }
    outline_.metadata = reader_.header().metadata;
  }
  OutlineReader(const OutlineReader&) = delete;
  OutlineReader& operator=(const OutlineReader&) = delete;

  /// What the file holds; tensors have no bytes until `read` gives them some.
  const StateFile& outline() const { return outline_; }

  /// Reads each tensor to its place; where that is null, into the outline. Throws DamagedFile, also for what a checksum
  /// finds.
  void read(const std::vector<float*>& places) {
    const auto& infos = reader_.header().tensors;
    std::int64_t bytes = 0;
    for (const auto& info : infos) bytes += info.bytes;
    try {
      in_threads(infos.size(), bytes, [&](std::size_t i) {
        if (places[i] == nullptr) {
          outline_.tensors[i].bytes = std::move(reader_.read(infos[i].name).bytes);
        } else {
          const auto size = static_cast<std::size_t>(infos[i].bytes);
          reader_.read(infos[i], {reinterpret_cast<std::byte*>(places[i]), size});
        }
      });
    } catch (const CheckpointError& error) {
      throw DamagedFile(error.what());
    }
  }
  /// Reads everything and keeps nothing. Throws as `read`.
  void verify() {
    try {
      reader_.verify();
    } catch (const CheckpointError& error) {
      throw DamagedFile(error.what());
    }
  }

 private:
  safetensors::Reader reader_;
  StateFile outline_;
};

}  // namespace halfstep::detail
