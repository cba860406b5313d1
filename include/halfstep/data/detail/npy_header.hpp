#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <halfstep/data/file.hpp>
#include <halfstep/error.hpp>
#include <halfstep/tensor/dtype.hpp>
#include <halfstep/tensor/shape.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace halfstep::detail {

struct NpyHeader {
  DType dtype = DType::f32;
  std::endian order = std::endian::little;
  std::array<std::int64_t, Shape::largest_rank> extents{};
  std::size_t rank = 0;
};

/// Reads the text of a header, a Python dictionary as NumPy writes it:
///
///   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
///
/// with its three keys in any order.
class NpyHeaderReader {
 public:
  NpyHeaderReader(std::string_view text, const std::string& name) : all_(text), rest_(text), name_(name) {}

  NpyHeader read() {
    expect('{');
    bool has_type = false, has_order = false, has_shape = false;
    while (!next_is('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !std::exchange(has_type, true)) {
        read_type();
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        fortran_order_ = boolean();
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        read_shape();
      } else {
        fail("an unexpected key " + quoted(key));
      }
      if (!next_is(',') && rest().substr(0, 1) != "}") fail("no comma and no closing brace");
    }
    if (!rest().empty()) fail("something after the closing brace");
    if (!has_type || !has_order || !has_shape) fail("not all of descr, fortran_order and shape");
    // With one axis both orders are the same.
    if (fortran_order_ && header_.rank > 1) {
      throw Error(name_ +
                  ": its elements are in Fortran's order (columns first), which is not read; save "
                  "numpy.ascontiguousarray(array) instead");
    }
    return header_;
  }

 private:
  std::string_view rest() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
    return rest_;
  }

  [[noreturn]] void fail(const std::string& found) {
    throw Error(name_ + ": the header " + quoted(all_) + " has " + found + " at its character " +
                std::to_string(all_.size() - rest().size()) +
                "; expected {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} and the like");
  }

  bool next_is(char c) {
    if (!rest().starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!next_is(c)) fail(std::string("no '") + c + "'");
  }
  bool next_is(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view string() {
    const std::string_view from = rest();
    if (from.empty() || (from.front() != '\'' && from.front() != '"')) fail("no string");
    const std::size_t end = from.find(from.front(), 1);
    if (end == std::string_view::npos) fail("a string without an end");
    rest_.remove_prefix(end + 1);
    return from.substr(1, end - 1);
  }

  bool boolean() {
    if (next_is("True")) return true;
    if (!next_is("False")) fail("neither True nor False");
    return false;
  }

  void read_type() {
    if (rest().starts_with('[')) {
      throw Error(
          name_ +
          ": its elements are records of several fields, which are not read; save each field by itself");
    }
    const std::string_view type = string();
    const auto found = find_numpy_type(type.substr((std::min)(type.size(), std::size_t{1})));
    const char order = type.empty() ? ' ' : type.front();
    if (!found || std::string_view("<>=|").find(order) == std::string_view::npos) {
      throw Error(name_ + ": its elements are of NumPy's type " + quoted(type) +
                  ", expected f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 or b1 after the byte order < or >");
    }
    header_.dtype = *found;
    header_.order = order == '>'   ? std::endian::big
                    : order == '<' ? std::endian::little
                                   : std::endian::native;
  }

  static std::optional<DType> find_numpy_type(std::string_view code) {
    using Entry = std::pair<std::string_view, DType>;
    constexpr std::array<Entry, 12> types{{{"f2", DType::f16},
                                           {"f4", DType::f32},
                                           {"f8", DType::f64},
                                           {"i1", DType::i8},
                                           {"i2", DType::i16},
                                           {"i4", DType::i32},
                                           {"i8", DType::i64},
                                           {"u1", DType::u8},
                                           {"u2", DType::u16},
                                           {"u4", DType::u32},
                                           {"u8", DType::u64},
                                           {"b1", DType::boolean}}};
    for (const auto& [name, dtype] : types) {
      if (name == code) return dtype;
    }
    return std::nullopt;
  }

  void read_shape() {
    expect('(');
    while (!next_is(')')) {
      const std::string_view from = rest();
      std::int64_t extent = -1;
      const auto [end, problem] = std::from_chars(from.data(), from.data() + from.size(), extent);
      if (problem != std::errc() || extent < 0) fail("no extent of 0 or more");
      if (header_.rank == header_.extents.size()) fail("more than 6 extents");
      header_.extents[header_.rank++] = extent;
      rest_.remove_prefix(static_cast<std::size_t>(end - from.data()));
      // As Python 2 wrote long integers.
      next_is('L');
      if (!next_is(',') && !rest().starts_with(')')) fail("no comma and no closing parenthesis");
    }
  }

  std::string_view all_, rest_;
  const std::string& name_;
  NpyHeader header_;
  bool fortran_order_ = false;
};

}  // namespace halfstep::detail
