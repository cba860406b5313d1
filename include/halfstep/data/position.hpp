#pragma once

#include <cstdint>
#include <halfstep/error.hpp>
#include <string>

namespace halfstep {

/// How far a loader's samples have been handed out, in plain values that can be stored. What was fetched
/// ahead of its use does not count. A loader's `position` gives it, `seek` goes on from it.
struct LoaderPosition {
  std::int64_t epoch = 0;
  /// Samples of this epoch handed out; for a stream, where it stood after the last batch.
  std::int64_t offset = 0;
  /// Of the order of samples; 0 for a stream.
  std::uint64_t seed = 0;
  /// Batches handed out in the window that the last of them belongs to.
  std::int64_t micro_batches = 0;
  /// What the position belongs to: the number of samples, and the dataset's own identity. 0 and empty where
  /// nothing is known; then nothing is compared.
  std::int64_t dataset_size = 0;
  std::string dataset = {};

  friend bool operator==(const LoaderPosition&, const LoaderPosition&) = default;
};

namespace detail {

/// So that counting on never overflows.
inline constexpr std::int64_t largest_epoch = std::int64_t{1} << 62;

/// Throws ConfigurationError unless a stored position can belong to the data that `here` speaks of.
inline void require_same_data(const LoaderPosition& stored, const LoaderPosition& here) {
  if (stored.seed != here.seed) {
    throw ConfigurationError("loader: the position belongs to shuffle seed " + std::to_string(stored.seed) +
                             ", this loader shuffles by " + std::to_string(here.seed) +
                             "; build it with the seed of the position");
  }
  if (stored.dataset_size != 0 && here.dataset_size != 0 && stored.dataset_size != here.dataset_size) {
    throw ConfigurationError("loader: the position belongs to a dataset of " +
                             std::to_string(stored.dataset_size) + " samples, this one has " +
                             std::to_string(here.dataset_size) + "; give the loader the same data");
  }
  if (!stored.dataset.empty() && !here.dataset.empty() && stored.dataset != here.dataset) {
    throw ConfigurationError("loader: the position belongs to the dataset \"" + stored.dataset +
                             "\", this one is \"" + here.dataset + "\"; give the loader the same data");
  }
}

}  // namespace detail

}  // namespace halfstep
