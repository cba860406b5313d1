#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <halfstep/tensor/dtype.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep {

/// A stored tensor: elements of one type in row-major order, little-endian. A shape of no dimensions is one
/// element.
struct TensorData {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

/// A tensor to be written, whose bytes are somebody else's.
struct TensorView {
  TensorView(std::string tensor_name, DType type, std::vector<std::int64_t> tensor_shape,
             std::span<const std::byte> tensor_bytes)
      : name(std::move(tensor_name)), dtype(type), shape(std::move(tensor_shape)), bytes(tensor_bytes) {}
  TensorView(const TensorData& tensor) : TensorView(tensor.name, tensor.dtype, tensor.shape, tensor.bytes) {}

  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Strings by name, as a safetensors file carries them beside its tensors.
using Metadata = std::map<std::string, std::string>;

/// What a safetensors file holds, tensors in the order of their bytes.
struct StateFile {
  std::vector<TensorData> tensors;
  Metadata metadata;

  /// Null if there is none of that name.
  const TensorData* find(std::string_view name) const {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }
};

namespace safetensors {

/// Strings of the metadata that are the format's own here; safetensors.hpp says what they hold.
inline constexpr const char* checksums_key = "halfstep.checksums";
inline constexpr const char* header_checksum_key = "halfstep.header_checksum";

/// What a header says of one tensor.
struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< of its first byte, from the file's beginning
  std::int64_t bytes = 0;
  DType dtype = DType::f32;
  std::optional<std::uint32_t> checksum;
};

struct Header {
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes
  Metadata metadata;                ///< without the checksums

  /// Null if there is none of that name.
  const TensorInfo* find(std::string_view name) const {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }
};

/// Above these a file is refused.
struct Limits {
  std::int64_t header_bytes = 100'000'000;  ///< as in the format's reference implementation
  std::int64_t dimensions = 64;             ///< of one tensor
  std::int64_t metadata_entries = 10'000;
};

}  // namespace safetensors
}  // namespace halfstep
