#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>
#include <optional>
#include <string_view>
#include <type_traits>

namespace halfstep {

/// The type of a stored tensor's elements.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, u16, u32, u64, boolean };

namespace detail {

struct DTypeFacts {
  std::string_view name;
  std::int64_t size;
};

inline constexpr std::array<DTypeFacts, 13> dtype_facts{{{"F64", 8},
                                                         {"F32", 4},
                                                         {"F16", 2},
                                                         {"BF16", 2},
                                                         {"I64", 8},
                                                         {"I32", 4},
                                                         {"I16", 2},
                                                         {"I8", 1},
                                                         {"U8", 1},
                                                         {"U16", 2},
                                                         {"U32", 4},
                                                         {"U64", 8},
                                                         {"BOOL", 1}}};

template <class T>
constexpr DType find_dtype() {
  if constexpr (std::same_as<T, bool>) {
    return DType::boolean;
  } else if constexpr (std::same_as<T, std::byte>) {
    return DType::u8;
  } else if constexpr (std::same_as<T, float>) {
    return DType::f32;
  } else if constexpr (std::same_as<T, double>) {
    return DType::f64;
  } else if constexpr (std::same_as<T, float16>) {
    return DType::f16;
  } else if constexpr (std::same_as<T, bfloat16>) {
    return DType::bf16;
  } else {
    static_assert(std::integral<T> && sizeof(T) <= 8,
                  "halfstep::dtype_of: no stored type corresponds to T; use float, double, float16, "
                  "bfloat16, bool or an "
                  "integer");
    if constexpr (std::signed_integral<T>) {
      return sizeof(T) == 1   ? DType::i8
             : sizeof(T) == 2 ? DType::i16
             : sizeof(T) == 4 ? DType::i32
                              : DType::i64;
    } else {
      return sizeof(T) == 1   ? DType::u8
             : sizeof(T) == 2 ? DType::u16
             : sizeof(T) == 4 ? DType::u32
                              : DType::u64;
    }
  }
}

}  // namespace detail

/// The name in the safetensors format: "F32", "BF16", "BOOL", ...
constexpr std::string_view name_of(DType dtype) noexcept {
  return detail::dtype_facts[static_cast<std::size_t>(dtype)].name;
}

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) noexcept {
  return detail::dtype_facts[static_cast<std::size_t>(dtype)].size;
}

/// The type of that name in the safetensors format; none for names that are not in DType (F8_E4M3, C64, ...).
constexpr std::optional<DType> find_dtype(std::string_view name) noexcept {
  for (std::size_t i = 0; i < detail::dtype_facts.size(); ++i) {
    if (detail::dtype_facts[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

/// The stored type that has T's values: float, double, float16, bfloat16, bool, std::byte and the integers.
template <class T>
inline constexpr DType dtype_of = detail::find_dtype<std::remove_cv_t<T>>();

}  // namespace halfstep
