#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>

namespace halfstep {

/// Samples that can be fetched by number. `Batch` is what a model's `loss` takes; it owns its memory and is
/// filled anew by `load`, so that a batch of the size of the last one costs no allocation.
///
/// Loaders call the const members from any one thread at a time, two loaders of one dataset at the same time.
template <class T>
concept Dataset = std::default_initializable<typename T::Batch> && std::movable<typename T::Batch> &&
    requires(const T& data, std::span<const std::int64_t> indices, typename T::Batch& batch) {
  { data.size() } -> std::convertible_to<std::int64_t>;
  data.load(indices, batch);
};

/// Data, by number or in a stream, that tells itself from others: `identity()` is a short text, cheap to ask
/// for, that differs where the content does. It becomes part of a loader's position, so that a run is not
/// resumed with other data.
template <class T>
concept IdentifiedData = requires(const T& data) {
  { data.identity() } -> std::convertible_to<std::string>;
};

namespace detail {

template <class Data>
std::string identity_of(const Data& data) {
  if constexpr (IdentifiedData<Data>) {
    return data.identity();
  } else {
    return {};
  }
}

}  // namespace detail

}  // namespace halfstep
