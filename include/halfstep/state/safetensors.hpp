#pragma once

#include <cstddef>
#include <filesystem>
#include <halfstep/error.hpp>
#include <halfstep/state/file_system.hpp>
#include <halfstep/state/publish.hpp>
#include <halfstep/state/state_file.hpp>
#include <span>
#include <string_view>

namespace halfstep {

/// The safetensors format, https://huggingface.co/docs/safetensors: 8 bytes with the length of a JSON header,
/// the header, the tensors' bytes without gaps. Python's safetensors and every other reader of the format
/// open what `write` makes.
///
/// Two strings of the metadata are the format's own here, and other readers pass over them:
///   halfstep.checksums        a JSON object: each tensor's CRC-32, in 8 hexadecimal digits
///   halfstep.header_checksum  that of the rest: names, types, shapes and metadata
/// A file that has them is checked against them; one from elsewhere has none and is taken as it is.
namespace safetensors {

/// Hands the bytes of a file with these tensors, in this order, to `sink`: publish(files, path, [&](auto&
/// sink) { write(sink, tensors, metadata); }). The data begin at a multiple of 8 bytes. Throws
/// CheckpointError, before the first byte, for a name that is taken, reserved or no UTF-8, a shape that is
/// negative or does not fit the number of bytes, and for metadata under the reserved keys.
void write(const ByteSink& sink, std::span<const TensorView> tensors, const Metadata& metadata = {});
void write(const ByteSink& sink, const StateFile& file);

/// An open file whose header has been read and found sound: every tensor lies inside the file, as long as its
/// shape and type demand, without overlaps and gaps. Nothing is believed before it is checked; no allocation
/// is larger than twice the file's real length, and for the tensors together it is once.
///
/// All functions throw CheckpointError with the path, what was found, and what to do about it.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path, const Limits& limits = {},
                  FileSystem& files = system_files());

  const Header& header() const { return header_; }
  const std::filesystem::path& path() const { return path_; }

  /// Reads a tensor of this header into `destination`, which is as long as the tensor, and verifies its
  /// checksum. What was in `destination` is lost even if that fails.
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
StateFile read(const std::filesystem::path& path, const Limits& limits = {},
               FileSystem& files = system_files());
/// Names, types, shapes and metadata alone. Only the header's checksum is verified.
Header read_header(const std::filesystem::path& path, const Limits& limits = {},
                   FileSystem& files = system_files());

}  // namespace safetensors
}  // namespace halfstep

#include <halfstep/state/detail/safetensors_read.hpp>
#include <halfstep/state/detail/safetensors_write.hpp>
