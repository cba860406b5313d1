#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <halfstep/error.hpp>
#include <halfstep/state/file_system.hpp>
#include <halfstep/state/publish.hpp>
#include <halfstep/tensor/dtype.hpp>

namespace halfstep {

/// A stored tensor: elements of one type in row-major order, little-endian. A shape of no dimensions is one element.
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
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }
};

/// The safetensors format, https://huggingface.co/docs/safetensors: 8 bytes with the length of a JSON header, the header,
/// the tensors' bytes without gaps. Python's safetensors and every other reader of the format open what `write` makes.
///
/// Two strings of the metadata are the format's own here, and other readers pass over them:
///   halfstep.checksums        a JSON object: for each tensor, the CRC-32 of its bytes in 8 hexadecimal digits
///   halfstep.header_checksum  the CRC-32 of the rest: names, types, shapes and metadata
/// A file that has them is checked against them; one from elsewhere has none and is taken as it is.
namespace safetensors {

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
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }
};

/// Above these a file is refused.
struct Limits {
  std::int64_t header_bytes = 100'000'000;  ///< as in the format's reference implementation
  std::int64_t dimensions = 64;             ///< of one tensor
  std::int64_t metadata_entries = 10'000;
};

/// Hands the bytes of a file with these tensors, in this order, to `sink`: publish(files, path, [&](auto& sink) { write(sink,
/// tensors, metadata); }). The data begin at a multiple of 8 bytes. Throws CheckpointError, before the first byte, for a
/// name that is taken, reserved or no UTF-8, a shape that is negative or does not fit the number of bytes, and for
/// metadata under the reserved keys.
void write(const ByteSink& sink, std::span<const TensorView> tensors, const Metadata& metadata = {});
void write(const ByteSink& sink, const StateFile& file);

/// An open file whose header has been read and found sound: every tensor lies inside the file, as long as its shape and type
/// demand, without overlaps and gaps. Nothing is believed before it is checked, and nothing is allocated that the file's real
/// length does not cover.
///
/// All functions throw CheckpointError with the path, what was found, and what to do about it.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path, const Limits& limits = {}, FileSystem& files = system_files());

  const Header& header() const { return header_; }
  const std::filesystem::path& path() const { return path_; }

  /// Reads a tensor of this header into `destination`, which is as long as the tensor, and verifies its checksum. What
  /// was in `destination` is lost even if that fails.
  void read(const TensorInfo& tensor, std::span<std::byte> destination);
  /// A tensor by name. Also throws where there is none of that name.
  TensorData read(std::string_view name);
  /// Reads everything and keeps nothing.
  void verify();

 private:
  TensorData take(TensorInfo&& tensor);
  friend StateFile read(const std::filesystem::path&, const Limits&, FileSystem&);

  std::filesystem::path path_;
  FileSystem& files_;
  halfstep::detail::OpenFile file_;
  Header header_;
};

/// The whole file, verified.
StateFile read(const std::filesystem::path& path, const Limits& limits = {}, FileSystem& files = system_files());
/// Names, types, shapes and metadata alone. Only the header's checksum is verified.
Header read_header(const std::filesystem::path& path, const Limits& limits = {}, FileSystem& files = system_files());

}  // namespace safetensors
}  // namespace halfstep

#include <halfstep/state/detail/safetensors_write.hpp>
#include <halfstep/state/detail/safetensors_read.hpp>
