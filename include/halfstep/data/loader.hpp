#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <halfstep/data/dataset.hpp>
#include <halfstep/data/order.hpp>
#include <halfstep/error.hpp>

namespace halfstep {

struct LoaderOptions {
  std::int64_t batch_size = 32;
  /// Leave out the batch at an epoch's end that has fewer samples than the others.
  bool drop_last = false;
};

/// How far a loader's samples have been handed out: everything before `offset` in the order of `epoch`.
struct LoaderPosition {
  std::int64_t epoch = 0;
  std::int64_t offset = 0;
  std::uint64_t seed = 0;
  friend bool operator==(const LoaderPosition&, const LoaderPosition&) = default;
};

/// Hands out a dataset in batches. A range-for goes from where the loader stands to the end of the epoch and leaves
/// it at the beginning of the next:
///
///   for (int epoch = 0; epoch < 40; ++epoch)
///     for (auto& batch : loader) trainer.step(batch);
///
/// The batch is the loader's and is overwritten by the next one. The dataset must outlive the loader.
template <Dataset Data, SampleOrder Order = Shuffled>
class Loader {
 public:
  using Batch = typename Data::Batch;

  /// Throws ConfigurationError for a batch size below 1, an empty dataset, or one that drop_last leaves without a
  /// batch.
  explicit Loader(const Data& data, LoaderOptions options = {}, Order order = Order{})
      : data_(&data), options_(options), order_(order) {
    const auto size = static_cast<std::int64_t>(data.size());
    if (options.batch_size < 1) {
      throw ConfigurationError("loader: batch_size is " + std::to_string(options.batch_size) +
                               "; it must be at least 1");
    }
    if (size == 0) throw ConfigurationError("loader: the dataset is empty");
    if (batches_per_epoch() == 0) {
      throw ConfigurationError("loader: drop_last leaves nothing of " + std::to_string(size) +
                               " samples in batches of " + std::to_string(options.batch_size));
    }
  }
  /// A dataset that dies with this call would be read afterwards.
  explicit Loader(const Data&& data, LoaderOptions options = {}, Order order = Order{}) = delete;

  std::int64_t batches_per_epoch() const {
    const auto size = static_cast<std::int64_t>(data_->size());
    return options_.drop_last ? size / options_.batch_size
                              : (size + options_.batch_size - 1) / options_.batch_size;
  }

  /// The next batch of this epoch, or null at its end; then the next call begins the next epoch. Throws
  /// ConfigurationError for an order that names a sample outside the dataset.
  Batch* next() {
    const auto size = static_cast<std::int64_t>(data_->size());
    const std::int64_t left = size - offset_;
    if (left <= 0 || (options_.drop_last && left < options_.batch_size)) {
      ++epoch_;
      offset_ = 0;
      return nullptr;
    }
    const auto order = order_.in_epoch(epoch_, size);
    indices_.resize(static_cast<std::size_t>((std::min)(left, options_.batch_size)));
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      const std::int64_t position = offset_ + static_cast<std::int64_t>(i);
      indices_[i] = order[position];
      if (indices_[i] < 0 || indices_[i] >= size) {
        throw ConfigurationError("loader: the order of epoch " + std::to_string(epoch_) + " has sample " +
                                 std::to_string(indices_[i]) + " at position " + std::to_string(position) +
                                 ", outside a dataset of " + std::to_string(size) + " samples");
      }
    }
    data_->load(indices_, batch_);
    offset_ += static_cast<std::int64_t>(indices_.size());
    return &batch_;
  }

  /// What has been handed out, the batch in hand included.
  LoaderPosition position() const { return {epoch_, offset_, order_.seed()}; }

  /// Goes on from a position. Throws ConfigurationError if it belongs to another shuffle seed, or lies outside the
  /// dataset.
  void seek(const LoaderPosition& position) {
    if (position.seed != order_.seed()) {
      throw ConfigurationError("loader: the position belongs to shuffle seed " + std::to_string(position.seed) +
                               ", this loader shuffles by " + std::to_string(order_.seed()) +
                               "; build it with the seed of the position");
    }
    if (position.epoch < 0 || position.offset < 0 || position.offset > static_cast<std::int64_t>(data_->size())) {
      throw ConfigurationError("loader: position epoch " + std::to_string(position.epoch) + ", offset " +
                               std::to_string(position.offset) + " lies outside a dataset of " +
                               std::to_string(data_->size()) + " samples");
    }
    epoch_ = position.epoch;
    offset_ = position.offset;
  }

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    Iterator() = default;
    explicit Iterator(Loader* loader) : loader_(loader), batch_(loader->next()) {}
    Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.batch_ == nullptr; }

   private:
    Loader* loader_ = nullptr;
    Batch* batch_ = nullptr;
  };

  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  const Data* data_;
  LoaderOptions options_;
  Order order_;
  std::int64_t epoch_ = 0;
  std::int64_t offset_ = 0;
  std::vector<std::int64_t> indices_;
  Batch batch_;
};

}  // namespace halfstep
