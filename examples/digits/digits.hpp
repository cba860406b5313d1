#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <halfstep/halfstep.hpp>

/// Handwritten digits of 8 x 8 pixels; see examples/data/README.md.
class Digits {
 public:
  static constexpr std::int64_t pixels = 64;
  static constexpr std::int64_t classes = 10;
  static constexpr std::int64_t training_size = 1437;

  /// What the model takes: images in rows, pixels from 0 to 1, and their labels. Owns the memory that its tensors
  /// show, so it moves but does not copy.
  struct Batch {
    halfstep::Tensor<const float> images;
    halfstep::Tensor<const std::int32_t> labels;
    std::vector<float> image_values;
    std::vector<std::int32_t> label_values;

    Batch() = default;
    Batch(Batch&&) = default;
    Batch& operator=(Batch&&) = default;
  };

  struct Split;

  /// Reads rows of 64 pixels from 0 to 16 and a label, separated by commas. Throws halfstep::Error for a file that
  /// cannot be read or a row of another form.
  static Digits read(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw halfstep::Error("cannot read " + path + "; give the folder of digits.csv with --data");
    Digits digits;
    for (std::string line; std::getline(file, line);) {
      digits.add_row(line, path + ":" + std::to_string(digits.size() + 1));
    }
    return digits;
  }

  /// The same split for every run: a fixed permutation, its first 1,437 samples for training, the rest frozen for
  /// validation.
  Split split() const;

  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }

  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    const auto rows = static_cast<std::int64_t>(indices.size());
    batch.image_values.clear();
    batch.label_values.clear();
    for (const std::int64_t index : indices) {
      const auto first = images_.begin() + index * pixels;
      batch.image_values.insert(batch.image_values.end(), first, first + pixels);
      batch.label_values.push_back(labels_[static_cast<std::size_t>(index)]);
    }
    batch.images = {batch.image_values.data(), {rows, pixels}};
    batch.labels = {batch.label_values.data(), {rows}};
  }

  /// All samples as one batch.
  Batch all() const {
    std::vector<std::int64_t> indices(labels_.size());
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i);
    Batch batch;
    load(indices, batch);
    return batch;
  }

 private:
  static constexpr float brightest = 16.0f;

  void add_row(const std::string& line, const std::string& place) {
    const char* rest = line.c_str();
    std::array<long, pixels + 1> values{};
    for (std::size_t i = 0; i < values.size(); ++i) {
      char* end = nullptr;
      values[i] = std::strtol(rest, &end, 10);
      const bool last = i + 1 == values.size();
      if (end == rest || (last ? *end != '\0' && *end != '\r' : *end != ',')) {
        throw halfstep::Error(place + ": expected 64 pixels and a label separated by commas, found \"" + line + "\"");
      }
      rest = end + 1;
    }
    for (std::size_t i = 0; i < pixels; ++i) images_.push_back(static_cast<float>(values[i]) / brightest);
    labels_.push_back(static_cast<std::int32_t>(values[pixels]));
  }

  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
};

struct Digits::Split {
  Digits training, validation;
};

inline Digits::Split Digits::split() const {
  constexpr std::uint64_t split_seed = 20;
  const halfstep::Permutation order(size(), split_seed, 0);
  Split split;
  for (std::int64_t i = 0; i < size(); ++i) {
    Digits& part = i < training_size ? split.training : split.validation;
    const auto first = images_.begin() + order[i] * pixels;
    part.images_.insert(part.images_.end(), first, first + pixels);
    part.labels_.push_back(labels_[static_cast<std::size_t>(order[i])]);
  }
  return split;
}
