#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <halfstep/state/checksum.hpp>
#include <halfstep/state/detail/safetensors_header.hpp>
#include <halfstep/state/safetensors.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep::safetensors {
namespace detail {

static_assert(std::endian::native == std::endian::little,
              "halfstep: safetensors files are written as memory has the bytes");

[[noreturn]] inline void refuse_to_write(const std::string& found) {
  throw CheckpointError("cannot write a safetensors file: " + found);
}

/// A JSON string.
inline std::string json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    refuse_to_write(in_quotes(text) + " is not UTF-8");
  }
}

inline void check(const TensorView& tensor) {
  const std::string name = "tensor " + in_quotes(tensor.name);
  if (tensor.name == "__metadata__")
    refuse_to_write(name + " has the name that the format keeps for metadata");
  std::string shape;
  bool negative = false;
  for (const std::int64_t size : tensor.shape) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    negative = negative || size < 0;
  }
  const auto bytes = negative ? std::nullopt : bytes_of(tensor.dtype, tensor.shape);
  if (bytes != static_cast<std::int64_t>(tensor.bytes.size())) {
    refuse_to_write(name + " has " + std::to_string(tensor.bytes.size()) + " bytes, which is not what " +
                    std::string(name_of(tensor.dtype)) + " of shape [" + shape + "] has");
  }
}

inline std::string header_text(std::span<const TensorView> tensors, Metadata metadata) {
  Header header;
  header.tensors.reserve(tensors.size());
  for (const TensorView& tensor : tensors) {
    check(tensor);
    const auto bytes = static_cast<std::int64_t>(tensor.bytes.size());
    header.tensors.push_back({tensor.name, tensor.shape, 0, bytes, tensor.dtype, crc32(tensor.bytes)});
  }
  const std::vector<TensorInfo*> sorted = by_name(header);
  std::string checksums = "{";
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i]->name == sorted[i - 1]->name) {
      refuse_to_write("two tensors are named " + in_quotes(sorted[i]->name));
    }
    checksums +=
        (i > 0 ? "," : "") + json_text(sorted[i]->name) + ":\"" + to_hex(*sorted[i]->checksum) + "\"";
  }
  for (const char* key : {checksums_key, header_checksum_key}) {
    if (metadata.count(key) != 0) refuse_to_write("metadata " + in_quotes(key) + " is the format's own");
  }
  metadata[checksums_key] = checksums + "}";
  metadata[header_checksum_key] = to_hex(header_checksum(sorted, metadata));

  std::string text = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    text += (text.back() == '{' ? "" : ",") + json_text(key) + ":" + json_text(value);
  }
  text += "}";
  std::int64_t offset = 0;
  for (const TensorInfo& tensor : header.tensors) {
    text += "," + json_text(tensor.name) + ":{\"dtype\":\"" + std::string(name_of(tensor.dtype)) +
            "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      text += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    text +=
        "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + tensor.bytes) + "]}";
    offset += tensor.bytes;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (static_cast<std::int64_t>(text.size()) > Limits{}.header_bytes) {
    refuse_to_write("names and metadata make a header of " + std::to_string(text.size()) +
                    " bytes, more than readers of the format take");
  }
  return text;
}

}  // namespace detail

inline void write(const ByteSink& sink, std::span<const TensorView> tensors, const Metadata& metadata) {
  const std::string text = detail::header_text(tensors, metadata);
  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(text.size() >> (8 * i) & 255u);
  sink(length);
  sink(std::as_bytes(std::span(text)));
  for (const TensorView& tensor : tensors) {
    if (!tensor.bytes.empty()) sink(tensor.bytes);
  }
}

inline void write(const ByteSink& sink, const StateFile& file) {
  write(sink, std::vector<TensorView>(file.tensors.begin(), file.tensors.end()), file.metadata);
}

}  // namespace halfstep::safetensors
