#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <halfstep/error.hpp>
#include <halfstep/numeric/convert_x86.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/numeric/traits.hpp>
#include <span>
#include <string>
#include <type_traits>

namespace halfstep {

/// Where a conversion of an array writes: through the caches, for a result that is read soon, or past them,
/// which saves a read of the destination from memory. Automatic streams what is larger than a cache would
/// keep.
enum class Stores { automatic, cached, streaming };

namespace detail {

/// Results from this size on are streamed: more than the caches of one core keep for the next reader.
inline constexpr std::int64_t streaming_bytes = std::int64_t{4} << 20;

template <class From, class To>
void convert_portable(const From* from, To* to, std::int64_t n) {
  const auto convert_one = [](const From& source, To& destination) { destination = convert_to<To>(source); };
  HALFSTEP_SIMD
  for (std::int64_t i = 0; i < n; ++i) convert_one(from[i], to[i]);
}

}  // namespace detail

/// to[i] = convert_to<To>(from[i]) for i in [0, n), on the calling thread, with the widest conversion
/// instructions that this CPU has; the bits are the same on every CPU. Between equal types the bits are
/// copied, NaN included. The arrays must not overlap, except that from may equal to where the types are the
/// same.
template <FloatingType From, FloatingType To>
void convert(const From* from, To* to, std::int64_t n, Stores stores = Stores::automatic) {
  if (n <= 0) return;
  if constexpr (std::same_as<From, To>) {
    std::memmove(to, from, static_cast<std::size_t>(n) * sizeof(To));
  } else {
    const bool streaming =
        stores == Stores::streaming ||
        (stores == Stores::automatic && n * static_cast<std::int64_t>(sizeof(To)) >= detail::streaming_bytes);
    static const detail::ConversionSet set = detail::detect_conversion_set();
    if (!detail::convert_with(set, from, to, n, streaming)) detail::convert_portable(from, to, n);
  }
}

/// The same for two spans of equal size; throws ShapeError where the sizes differ.
template <class From, std::size_t FromExtent, FloatingType To, std::size_t ToExtent>
requires FloatingType<std::remove_const_t<From>>
void convert(std::span<From, FromExtent> from, std::span<To, ToExtent> to,
             Stores stores = Stores::automatic) {
  if (from.size() != to.size()) {
    throw ShapeError("convert: " + std::to_string(from.size()) + " elements do not fit into a span of " +
                     std::to_string(to.size()) + "; give spans of equal size.");
  }
  const std::remove_const_t<From>* const source = from.data();
  convert(source, to.data(), static_cast<std::int64_t>(to.size()), stores);
}

}  // namespace halfstep
