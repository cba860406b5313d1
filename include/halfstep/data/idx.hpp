#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/data/file.hpp>
#include <halfstep/data/typed_array.hpp>
#include <halfstep/error.hpp>
#include <halfstep/tensor/dtype.hpp>
#include <halfstep/tensor/shape.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace halfstep {

/// Reads an IDX file, the format of MNIST (Y. LeCun, C. Cortes and C. Burges, The MNIST database): two zero
/// bytes, a type, a rank, the extents as 32 bits each, the elements; the highest byte of a number first.
/// Elements are u8, i8, i16, i32, f32 or f64; the rank is at most 6. Throws Error for any other file, one
/// that is cut off or too long included.
///
///   auto data = array_dataset(read_idx("train-images-idx3-ubyte"), read_idx("train-labels-idx1-ubyte"),
///                             {.divide_by = 255});
TypedArray read_idx(const std::filesystem::path& path);

/// The same for bytes in memory; `name` stands for the file in messages.
TypedArray parse_idx(std::vector<std::byte> bytes, const std::string& name);

namespace detail {

inline std::optional<DType> find_idx_type(std::byte code) {
  switch (static_cast<int>(code)) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0b:
      return DType::i16;
    case 0x0c:
      return DType::i32;
    case 0x0d:
      return DType::f32;
    case 0x0e:
      return DType::f64;
    default:
      return std::nullopt;
  }
}

}  // namespace detail

inline TypedArray parse_idx(std::vector<std::byte> bytes, const std::string& name) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  constexpr std::int64_t before_extents = 4, bytes_of_extent = 4;
  if (size >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b}) {
    throw Error(name + ": is compressed by gzip; unpack it first (gunzip)");
  }
  if (size < before_extents || bytes[0] != std::byte{0} || bytes[1] != std::byte{0}) {
    throw Error(name + ": is no IDX file: it does not begin with two zero bytes, a type and a rank");
  }
  const auto dtype = detail::find_idx_type(bytes[2]);
  if (!dtype) {
    throw Error(name + ": offset 2 has the type " + std::to_string(static_cast<int>(bytes[2])) +
                ", expected 8 (u8), 9 (i8), 11 (i16), 12 (i32), 13 (f32) or 14 (f64)");
  }
  const auto rank = static_cast<int>(bytes[3]);
  if (rank > Shape::largest_rank) {
    throw Error(name + ": offset 3 has the rank " + std::to_string(rank) + ", expected at most " +
                std::to_string(Shape::largest_rank));
  }
  const std::int64_t header = before_extents + bytes_of_extent * rank;
  if (size < header) {
    throw Error(name + ": ends after " + std::to_string(size) + " bytes, within the " +
                std::to_string(header) + " of its header");
  }
  std::array<std::int64_t, Shape::largest_rank> extents{};
  for (int axis = 0; axis < rank; ++axis) {
    const std::byte* const extent = bytes.data() + before_extents + bytes_of_extent * axis;
    extents[static_cast<std::size_t>(axis)] =
        static_cast<std::int64_t>(detail::read_big_endian(extent, bytes_of_extent));
  }
  return detail::array_after_header(name, std::move(bytes), header, *dtype,
                                    std::span(extents).first(static_cast<std::size_t>(rank)),
                                    std::endian::big);
}

inline TypedArray read_idx(const std::filesystem::path& path) {
  return parse_idx(detail::read_file(path), path.string());
}

}  // namespace halfstep
