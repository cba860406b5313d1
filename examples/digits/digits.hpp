#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <halfstep/data/array_dataset.hpp>
#include <halfstep/data/csv.hpp>
#include <halfstep/data/permutation.hpp>

/// Handwritten digits of 8 x 8 pixels, 0 for paper and 1 for ink; see examples/data/README.md.
struct Digits {
  static constexpr std::int64_t pixels = 64;
  static constexpr std::int64_t classes = 10;

  using Data = halfstep::ArrayDataset<>;
  using Batch = Data::Batch;

  /// The same split for every run: a fixed permutation, its first 1,437 samples for training, the rest frozen for
  /// validation. Throws halfstep::Error for a file that cannot be read or does not hold digits.
  static Digits read(const std::string& path) {
    constexpr float ink = 16.0f;
    constexpr std::uint64_t split_seed = 20;
    constexpr std::int64_t training_size = 1437;
    const Data all = halfstep::read_csv(path).dataset(pixels, {.divide_by = ink});
    const halfstep::Permutation order(all.size(), split_seed, 0);
    std::vector<std::int64_t> training, validation;
    for (std::int64_t i = 0; i < all.size(); ++i) (i < training_size ? training : validation).push_back(order[i]);
    return {all.subset(training), all.subset(validation)};
  }

  Data training, validation;
};
