#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <halfstep/state/checksum.hpp>
#include <halfstep/state/detail/safetensors_json.hpp>
#include <halfstep/state/state_file.hpp>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfstep::safetensors::detail {

using halfstep::detail::to_hex;

/// A product of non-negative numbers, or none where it does not fit.
inline std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  if (b != 0 && a > (std::numeric_limits<std::int64_t>::max)() / b) return std::nullopt;
  return a * b;
}

/// Bytes of a tensor, or none where a 64-bit number cannot hold them or the strides of its dimensions.
inline std::optional<std::int64_t> bytes_of(DType dtype, const std::vector<std::int64_t>& shape) {
  std::optional<std::int64_t> bytes = size_of(dtype);
  bool empty = false;
  for (const std::int64_t size : shape) {
    empty = empty || size == 0;
    bytes = product(*bytes, (std::max)(size, std::int64_t{1}));
    if (!bytes) return std::nullopt;
  }
  return empty ? 0 : *bytes;
}

/// The tensors of a header by name.
inline std::vector<TensorInfo*> by_name(Header& header) {
  std::vector<TensorInfo*> tensors;
  tensors.reserve(header.tensors.size());
  for (TensorInfo& tensor : header.tensors) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](auto* a, auto* b) { return a->name < b->name; });
  return tensors;
}

/// Of names, types, shapes and metadata, in whatever order and spelling the JSON has them: a tool that
/// rewrites the header and changes nothing does not make it wrong.
inline std::uint32_t header_checksum(const std::vector<TensorInfo*>& tensors, const Metadata& metadata) {
  std::uint32_t sum = 0;
  const auto add_number = [&](std::uint64_t value) {
    std::array<std::byte, 8> bytes;
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i) & 255u);
    sum = crc32(bytes, sum);
  };
  const auto add_text = [&](std::string_view text) {
    add_number(text.size());
    sum = crc32(std::as_bytes(std::span(text)), sum);
  };
  add_number(tensors.size());
  for (const TensorInfo* tensor : tensors) {
    add_text(tensor->name);
    add_text(name_of(tensor->dtype));
    add_number(tensor->shape.size());
    for (const std::int64_t size : tensor->shape) add_number(static_cast<std::uint64_t>(size));
  }
  for (const auto& [key, value] : metadata) {
    if (key == header_checksum_key) continue;
    add_text(key);
    add_text(value);
  }
  return sum;
}

/// Checks the tensors against each other and the space for them, from `begin` to `end` of the file, and puts
/// them in order.
inline void place_tensors(std::vector<TensorInfo>& tensors, std::int64_t begin, std::int64_t end) {
  for (const TensorInfo& tensor : tensors) {
    const std::optional<std::int64_t> bytes = bytes_of(tensor.dtype, tensor.shape);
    if (!bytes) throw Unsound("tensor " + in_quotes(tensor.name) + " has a shape that overflows");
    if (*bytes != tensor.bytes) {
      throw Unsound("tensor " + in_quotes(tensor.name) + " of type " + std::string(name_of(tensor.dtype)) +
                    " has " + std::to_string(tensor.bytes) + " bytes where its shape needs " +
                    std::to_string(*bytes));
    }
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  std::int64_t taken = 0;
  for (TensorInfo& tensor : tensors) {
    if (tensor.offset != taken) {
      throw Unsound("tensor " + in_quotes(tensor.name) + " begins at byte " + std::to_string(tensor.offset) +
                    " of the data, where " + std::to_string(taken) +
                    " was expected: tensors overlap or leave a gap");
    }
    if (tensor.bytes > end - begin - taken) {
      throw Unsound("tensor " + in_quotes(tensor.name) + " ends at byte " + std::to_string(begin + taken) +
                    " + " + std::to_string(tensor.bytes) + " of a file of " + std::to_string(end) +
                    " bytes: it is truncated");
    }
    taken += tensor.bytes;
    tensor.offset += begin;
  }
  if (begin + taken != end) {
    throw Unsound("the tensors end at byte " + std::to_string(begin + taken) + " of a file of " +
                  std::to_string(end) + " bytes: something else follows them");
  }
}

/// Moves the checksums from the metadata to the tensors, and verifies the header's own.
inline void take_checksums(Header& header, const std::vector<TensorInfo*>& tensors) {
  const auto checksums = header.metadata.find(checksums_key);
  const auto own = header.metadata.find(header_checksum_key);
  if (checksums == header.metadata.end() && own == header.metadata.end()) return;
  if (checksums == header.metadata.end() || own == header.metadata.end()) {
    throw Unsound(std::string("the metadata has only one of ") + checksums_key + " and " +
                  header_checksum_key);
  }
  const std::string found = to_hex(header_checksum(tensors, header.metadata));
  if (found != own->second) {
    throw Unsound("the header has the checksum " + found + ", but was written with " +
                  in_quotes(own->second) +
                  ": it is damaged, or was changed by a program that kept the old checksums");
  }
  ChecksumsParser parser(tensors);
  parse_json(checksums->second, parser);
  for (const TensorInfo* tensor : tensors) {
    if (!tensor->checksum)
      throw Unsound("tensor " + in_quotes(tensor->name) + " has no checksum, and others have");
  }
  header.metadata.erase(checksums_key);
  header.metadata.erase(header_checksum_key);
}

/// The header `text` of a file that ends at byte `end` and has its data from `begin`. Throws Unsound.
inline Header parse_header(std::string_view text, std::int64_t begin, std::int64_t end,
                           const Limits& limits) {
  Header header;
  // The format demands it, and JSON libraries are lenient in what they pass over.
  if (!text.starts_with('{')) throw Unsound("the header does not begin with '{'");
  HeaderParser parser(header, limits, text.size());
  parse_json(text, parser);
  place_tensors(header.tensors, begin, end);
  const std::vector<TensorInfo*> tensors = by_name(header);
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(), [](auto* a, auto* b) { return a->name == b->name; });
  if (twice != tensors.end()) throw Unsound("tensor " + in_quotes((*twice)->name) + " is there twice");
  take_checksums(header, tensors);
  return header;
}

}  // namespace halfstep::safetensors::detail
