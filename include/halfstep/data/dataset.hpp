#pragma once

#include <concepts>
#include <cstdint>
#include <span>

namespace halfstep {

/// Samples that can be fetched by number. `Batch` is what a model's `loss` takes; it owns its memory and is filled
/// anew by `load`, so that a batch of the size of the last one costs no allocation.
template <class T>
concept Dataset = std::default_initializable<typename T::Batch> && std::movable<typename T::Batch> &&
                  requires(const T& dataset, std::span<const std::int64_t> indices, typename T::Batch& batch) {
                    { dataset.size() } -> std::convertible_to<std::int64_t>;
                    dataset.load(indices, batch);
                  };

}  // namespace halfstep
