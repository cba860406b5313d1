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

/// A name from a file, fit to stand in a message: short, and without characters that a terminal obeys.
inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string result = "\"";
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (std::size_t i = 0; i < (std::min)(text.size(), longest); ++i) {
    const bool two_bytes = byte(i) == 0xc2u && byte(i + 1) >= 0x80u && byte(i + 1) < 0xa0u;
    const bool obeyed = two_bytes || byte(i) < 0x20u || byte(i) == 0x7fu;
    result += obeyed ? '?' : text[i];
    i += two_bytes ? 1 : 0;
  }
  return result + (text.size() > longest ? "...\"" : "\"");
}

/// Why a file is refused: what was found in it. `Reader` adds the path.
struct Unsound : std::exception {
  explicit Unsound(std::string what_was_found) : text(std::move(what_was_found)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};

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
  nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &handler);
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

}  // namespace halfstep::safetensors::detail
