#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <halfstep/state/checksum.hpp>
#include <halfstep/state/state_file.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep::safetensors::detail {

using halfstep::detail::from_hex;
using halfstep::detail::to_hex;

/// A name from a file, fit to stand in a message: short, and without characters that a terminal obeys.
inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) result += c < ' ' || c == '\x7f' ? '?' : c;
  return result + (text.size() > longest ? "...\"" : "\"");
}

/// Why a file is refused: what was found in it. `Reader` adds the path.
struct Unsound : std::exception {
  explicit Unsound(std::string what_was_found) : text(std::move(what_was_found)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};

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

/// A SAX handler that refuses what it does not expect; for each kind of text there is one that expects
/// something.
struct RefuseAll : nlohmann::json_sax<nlohmann::json> {
  [[noreturn]] static bool unexpected(const char* what) {
    throw Unsound(std::string("the header has ") + what);
  }
  bool null() override { unexpected("a null out of place"); }
  bool boolean(bool) override { unexpected("a truth value out of place"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number, or one out of place"); }
  bool number_unsigned(number_unsigned_t) override { unexpected("a number out of place"); }
  bool number_float(number_float_t, const string_t&) override {
    unexpected("a number that is fractional or too large for 64 bits");
  }
  bool string(string_t&) override { unexpected("a string out of place"); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool start_object(std::size_t) override { unexpected("an object out of place"); }
  bool key(string_t&) override { unexpected("a key out of place"); }
  bool end_object() override { unexpected("an object's end out of place"); }
  bool start_array(std::size_t) override { unexpected("a list out of place"); }
  bool end_array() override { unexpected("a list's end out of place"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw Unsound("the header is no JSON at its byte " + std::to_string(position));
  }
};

inline void parse_json(std::string_view text, RefuseAll& handler) {
  // The library takes a zero byte for the end of the text, whatever comes after it.
  if (text.find('\0') != text.npos) throw Unsound("the header is no JSON: it has a zero byte");
  nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
}

/// Header text to `Header`. Its memory is bounded by the text: places for the tensors are counted in advance,
/// from the shortest text that a tensor can have.
class HeaderParser : public RefuseAll {
 public:
  HeaderParser(Header& header, const Limits& limits, std::size_t text_size)
      : header_(header), limits_(limits) {
    constexpr std::size_t shortest =
        std::string_view(R"("":{"dtype":"U8","shape":[],"data_offsets":[0,0]})").size();
    header_.tensors.reserve(text_size / shortest);
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) return go(Place::names);
    if (place_ == Place::metadata) return go(Place::metadata_key);
    if (place_ == Place::tensor) return go(Place::field);
    return unexpected("an object out of place");
  }

  bool key(string_t& text) override {
    if (place_ == Place::names) return begin_entry(text);
    if (place_ == Place::metadata_key) {
      if (header_.metadata.count(text) != 0) throw Unsound("metadata " + in_quotes(text) + " is there twice");
      if (static_cast<std::int64_t>(header_.metadata.size()) == limits_.metadata_entries) {
        throw Unsound("the metadata has more than " + std::to_string(limits_.metadata_entries) + " entries");
      }
      metadata_key_ = std::move(text);
      return go(Place::metadata_value);
    }
    const std::size_t field = text == "dtype" ? 0u : text == "shape" ? 1u : text == "data_offsets" ? 2u : 3u;
    if (field == 3u) throw Unsound(tensor() + " has an unknown field " + in_quotes(text));
    if (seen_[field]) throw Unsound(tensor() + " has two fields " + in_quotes(text));
    seen_[field] = true;
    constexpr std::array places{Place::dtype, Place::shape, Place::offsets};
    return go(places[field]);
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata_value) {
      header_.metadata.emplace(std::move(metadata_key_), std::move(text));
      return go(Place::metadata_key);
    }
    if (place_ != Place::dtype) unexpected("a string out of place");
    const std::optional<DType> dtype = find_dtype(text);
    if (!dtype) throw Unsound(tensor() + " has the type " + in_quotes(text) + ", which is not known here");
    header_.tensors.back().dtype = *dtype;
    return go(Place::field);
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::shape && place_ != Place::offsets) unexpected("a list out of place");
    numbers_.clear();
    return go(place_ == Place::shape ? Place::dimension : Place::offset);
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::dimension && place_ != Place::offset) unexpected("a number out of place");
    if (value > static_cast<std::uint64_t>((std::numeric_limits<std::int64_t>::max)())) {
      throw Unsound(tensor() + " has the number " + std::to_string(value) + ", which is absurd");
    }
    const std::int64_t most = place_ == Place::dimension ? limits_.dimensions : 2;
    if (static_cast<std::int64_t>(numbers_.size()) == most) {
      throw Unsound(tensor() + " has more than " + std::to_string(most) +
                    (place_ == Place::dimension ? " dimensions" : " data_offsets"));
    }
    numbers_.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool end_array() override {
    if (place_ == Place::dimension) {
      header_.tensors.back().shape = {numbers_.begin(), numbers_.end()};
    } else {
      if (numbers_.size() != 2 || numbers_[0] > numbers_[1]) {
        throw Unsound(tensor() + " has data_offsets that are not a beginning and an end");
      }
      header_.tensors.back().offset = numbers_[0];
      header_.tensors.back().bytes = numbers_[1] - numbers_[0];
    }
    return go(Place::field);
  }

  bool end_object() override {
    if (place_ == Place::metadata_key) return go(Place::names);
    if (place_ == Place::names) return go(Place::end);
    for (std::size_t field = 0; field < seen_.size(); ++field) {
      if (!seen_[field]) {
        throw Unsound(tensor() + " has no " + std::array{"dtype", "shape", "data_offsets"}[field]);
      }
    }
    return go(Place::names);
  }

 private:
  enum class Place {
    outside,
    names,
    metadata,
    metadata_key,
    metadata_value,
    tensor,
    field,
    dtype,
    shape,
    dimension,
    offsets,
    offset,
    end
  };

  bool go(Place place) {
    place_ = place;
    return true;
  }

  bool begin_entry(std::string& name) {
    if (name == "__metadata__") {
      if (std::exchange(has_metadata_, true)) throw Unsound("__metadata__ is there twice");
      return go(Place::metadata);
    }
    header_.tensors.emplace_back().name.assign(name);
    seen_ = {};
    return go(Place::tensor);
  }

  std::string tensor() const { return "tensor " + in_quotes(header_.tensors.back().name); }

  Header& header_;
  const Limits& limits_;
  Place place_ = Place::outside;
  std::array<bool, 3> seen_ = {};
  bool has_metadata_ = false;
  std::string metadata_key_;
  std::vector<std::int64_t> numbers_;
};

/// The tensors of a header by name.
inline std::vector<TensorInfo*> by_name(Header& header) {
  std::vector<TensorInfo*> tensors;
  tensors.reserve(header.tensors.size());
  for (TensorInfo& tensor : header.tensors) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](auto* a, auto* b) { return a->name < b->name; });
  return tensors;
}

/// The JSON object in the metadata that gives each tensor its checksum.
class ChecksumsParser : public RefuseAll {
 public:
  explicit ChecksumsParser(const std::vector<TensorInfo*>& tensors) : tensors_(tensors) {}

  bool start_object(std::size_t) override {
    if (std::exchange(inside_, true)) unexpected("checksums in a strange form");
    return true;
  }
  bool end_object() override { return true; }
  bool key(string_t& name) override {
    const auto found =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const TensorInfo* tensor, const auto& text) { return tensor->name < text; });
    if (found == tensors_.end() || (*found)->name != name) {
      throw Unsound("a checksum is for a tensor " + in_quotes(name) + " that is not there");
    }
    tensor_ = *found;
    if (tensor_->checksum) throw Unsound("tensor " + in_quotes(name) + " has two checksums");
    return true;
  }
  bool string(string_t& digits) override {
    if (tensor_ == nullptr) unexpected("checksums in a strange form");
    tensor_->checksum = from_hex(digits);
    if (!tensor_->checksum) unexpected("checksums in a strange form");
    return true;
  }

 private:
  const std::vector<TensorInfo*>& tensors_;
  TensorInfo* tensor_ = nullptr;
  bool inside_ = false;
};

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
