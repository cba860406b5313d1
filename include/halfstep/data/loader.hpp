#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <halfstep/data/dataset.hpp>
#include <halfstep/data/feed.hpp>
#include <halfstep/data/order.hpp>
#include <halfstep/data/position.hpp>
#include <halfstep/data/window_plan.hpp>
#include <halfstep/error.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace halfstep {

struct LoaderOptions {
  std::int64_t batch_size = 32;
  /// Leave out the batch at an epoch's end that has fewer samples than the others.
  bool drop_last = false;
  /// Batches that a thread of the loader's own loads ahead of their use; 0 loads each when it is asked for.
  /// The batches, their order and the position are the same. Loading ahead stops at an epoch's end, so that
  /// between two epochs the dataset may be changed; within an epoch its const members must bear being called
  /// from another thread.
  std::int64_t prefetch = 0;
  /// Batches to a window, for `ends_window`.
  std::int64_t micro_batches = 1;
  /// Let a window that an epoch leaves unfinished go on in the next, rather than end it short.
  bool windows_cross_epochs = false;
};

namespace detail {

/// Makes the batches of a dataset in an order.
template <Dataset Data, SampleOrder Order>
class IndexedBatches {
 public:
  using Batch = typename Data::Batch;
  struct Cursor {
    std::int64_t epoch = 0;
    std::int64_t offset = 0;
  };

  IndexedBatches(const Data& data, const LoaderOptions& options, Order order)
      : data_(&data),
        batch_size_(options.batch_size),
        drop_last_(options.drop_last),
        order_(std::move(order)) {
    if (batch_size_ < 1) {
      throw ConfigurationError("loader: batch_size is " + std::to_string(batch_size_) +
                               "; it must be at least 1");
    }
    if (size() == 0) throw ConfigurationError("loader: the dataset is empty");
    if (batches_per_epoch() == 0) {
      throw ConfigurationError("loader: drop_last leaves nothing of " + std::to_string(size()) +
                               " samples in batches of " + std::to_string(batch_size_));
    }
  }

  const Data& data() const { return *data_; }
  std::int64_t size() const { return static_cast<std::int64_t>(data_->size()); }
  std::uint64_t seed() const { return order_.seed(); }
  std::int64_t batches_per_epoch() const {
    return drop_last_ ? size() / batch_size_ : (size() - 1) / batch_size_ + 1;
  }
  /// Whether an epoch has no batch at this place or after it.
  bool ends_at(std::int64_t offset) const {
    const std::int64_t left = size() - offset;
    return left <= 0 || (drop_last_ && left < batch_size_);
  }

  bool operator()(Cursor& cursor, Batch& batch) {
    if (ends_at(cursor.offset)) {
      cursor = {cursor.epoch + 1, 0};
      return false;
    }
    const std::int64_t all = size();
    const auto order = order_.in_epoch(cursor.epoch, all);
    indices_.resize(static_cast<std::size_t>((std::min)(all - cursor.offset, batch_size_)));
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      const std::int64_t position = cursor.offset + static_cast<std::int64_t>(i);
      indices_[i] = order[position];
      if (indices_[i] < 0 || indices_[i] >= all) {
        throw ConfigurationError("loader: the order of epoch " + std::to_string(cursor.epoch) +
                                 " has sample " + std::to_string(indices_[i]) + " at position " +
                                 std::to_string(position) + ", outside a dataset of " + std::to_string(all) +
                                 " samples");
      }
    }
    data_->load(indices_, batch);
    cursor.offset += static_cast<std::int64_t>(indices_.size());
    return true;
  }

 private:
  const Data* data_;
  std::int64_t batch_size_;
  bool drop_last_;
  Order order_;
  std::vector<std::int64_t> indices_;
};

}  // namespace detail

/// Hands out a dataset in batches. A range-for goes from where the loader stands to the end of the epoch and
/// leaves it at the beginning of the next:
///
///   for (int epoch = 0; epoch < 40; ++epoch)
///     for (auto& batch : loader) trainer.step(batch);
///
/// or, with several micro-batches to an update, the last window of an epoch being as short as it comes:
///
///   for (auto& batch : loader) {
///     trainer.accumulate(batch);
///     if (loader.ends_window()) trainer.update();
///   }
///
/// The batch is the loader's and stays as it is until the next one is asked for. The dataset must outlive the
/// loader. Movable, also in the middle of an epoch: the batch in hand stays where it is, and loading ahead
/// goes on. A loader that was moved from throws ConfigurationError at every use. Its end, `seek` and the
/// assignment of another loader wait for the batch that is being loaded.
template <Dataset Data, SampleOrder Order = Shuffled>
class Loader {
  using Batches = detail::IndexedBatches<Data, Order>;

 public:
  using Batch = typename Data::Batch;

  /// Throws ConfigurationError for a batch size or number of micro-batches below 1, a prefetch below 0 or
  /// above 65536, an empty dataset, or one that drop_last leaves without a batch.
  explicit Loader(const Data& data, LoaderOptions options = {}, Order order = Order{})
      : windows_(options.micro_batches, options.windows_cross_epochs) {
    Batches batches(data, options, std::move(order));
    // More than an epoch's batches and its end are never ahead.
    const std::int64_t ahead =
        (std::min)(detail::checked_prefetch(options.prefetch), batches.batches_per_epoch() + 1);
    feed_ = std::make_unique<detail::Feed<Batches>>(std::move(batches), typename Batches::Cursor{}, ahead);
  }
  /// A dataset that dies with this call would be read afterwards.
  explicit Loader(const Data&& data, LoaderOptions options = {}, Order order = Order{}) = delete;

  std::int64_t batches_per_epoch() const { return feed().producer().batches_per_epoch(); }
  /// Windows, and so update attempts, in so many epochs: what a schedule's length is counted in.
  std::int64_t windows(std::int64_t epochs = 1) const {
    return windows_.windows(epochs, batches_per_epoch());
  }

  /// The next batch of this epoch, or null at its end; then the next call begins the next epoch. Throws what
  /// the dataset's `load` throws, and ConfigurationError for an order that names a sample outside the
  /// dataset; the position is then as before, and another call tries that batch again.
  Batch* next() { return windows_.count(feed().next()); }

  /// Whether the batch in hand is the last of its window: the `micro_batches`-th, or the epoch's last unless
  /// windows cross epochs.
  bool ends_window() const {
    const auto& batches = feed();  // throws where this loader was moved from
    if (windows_.handed_out() == 0) return false;
    return windows_.full() || (!windows_.cross_epochs() && batches.producer().ends_at(batches.cursor().offset));
  }

  /// What has been handed out, the batch in hand included, whatever was loaded ahead.
  LoaderPosition position() const {
    const Batches& batches = feed().producer();
    const auto& cursor = feed().cursor();
    return {cursor.epoch,          cursor.offset,  batches.seed(),
            windows_.handed_out(), batches.size(), detail::identity_of(batches.data())};
  }

  /// Goes on from a position; the batch in hand stays. Throws ConfigurationError if the position belongs to
  /// another shuffle seed or to other data, or lies outside the dataset; nothing has changed then.
  void seek(const LoaderPosition& position) {
    const Batches& batches = feed().producer();
    detail::require_same_data(position, this->position());
    if (position.epoch < 0 || position.epoch > detail::largest_epoch || position.micro_batches < 0 ||
        position.offset < 0 || position.offset > batches.size()) {
      throw ConfigurationError("loader: position epoch " + std::to_string(position.epoch) + ", offset " +
                               std::to_string(position.offset) + ", micro_batches " +
                               std::to_string(position.micro_batches) + " lies outside a dataset of " +
                               std::to_string(batches.size()) + " samples");
    }
    feed().seek({position.epoch, position.offset});
    windows_.go_on_from(position.micro_batches);
  }

  auto begin() { return detail::BatchIterator<Loader>(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  detail::Feed<Batches>& feed() const { return detail::require_feed(feed_); }

  detail::WindowPlan windows_;
  std::unique_ptr<detail::Feed<Batches>> feed_;
};

}  // namespace halfstep
