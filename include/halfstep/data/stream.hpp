#pragma once

#include <concepts>
#include <cstdint>
#include <halfstep/data/dataset.hpp>
#include <halfstep/data/feed.hpp>
#include <halfstep/data/position.hpp>
#include <halfstep/data/window_plan.hpp>
#include <halfstep/error.hpp>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace halfstep {

/// Samples that come one after the other, without a number of them known and without access to any one: text
/// read as it goes, records of many files.
///
/// `next` fills the batch anew and returns true, or returns false at the end. `position` tells where the
/// stream stands, in samples or bytes or whatever counts its way, 0 being its beginning; `seek` goes to a
/// place that `position` gave. From one place the same batches follow, every time.
template <class T>
concept SampleStream = std::movable<T> && std::default_initializable<typename T::Batch> &&
    std::movable<typename T::Batch> &&
    requires(T& stream, const T& same, typename T::Batch& batch, std::int64_t position) {
  { stream.next(batch) } -> std::same_as<bool>;
  { same.position() } -> std::convertible_to<std::int64_t>;
  stream.seek(position);
};

struct StreamLoaderOptions {
  /// Batches that a thread of the loader's own reads ahead of their use, up to the stream's end.
  std::int64_t prefetch = 0;
  /// Batches to a window, for `ends_window`.
  std::int64_t micro_batches = 1;
  /// Let a window that the stream's end leaves unfinished go on from its beginning, rather than end it short.
  bool windows_cross_epochs = false;
};

namespace detail {

/// Makes the batches of a stream, which it takes to the right place where it stands elsewhere.
template <SampleStream Stream>
class StreamedBatches {
 public:
  using Batch = typename Stream::Batch;
  struct Cursor {
    std::int64_t epoch = 0;
    std::int64_t offset = 0;
  };

  explicit StreamedBatches(Stream stream)
      : stream_(std::move(stream)), identity_(identity_of(stream_)), stands_at_(stream_.position()) {}

  const std::string& identity() const { return identity_; }
  std::int64_t stands_at() const { return *stands_at_; }

  void seek(std::int64_t offset) {
    // Where a stream stands that has thrown, nobody knows.
    stands_at_.reset();
    stream_.seek(offset);
    stands_at_ = offset;
  }

  bool operator()(Cursor& cursor, Batch& batch) {
    if (stands_at_ != cursor.offset) seek(cursor.offset);
    stands_at_.reset();
    const bool filled = stream_.next(batch);
    stands_at_ = static_cast<std::int64_t>(stream_.position());
    cursor = filled ? Cursor{cursor.epoch, *stands_at_} : Cursor{cursor.epoch + 1, 0};
    return filled;
  }

 private:
  Stream stream_;
  std::string identity_;
  std::optional<std::int64_t> stands_at_;
};

}  // namespace detail

/// Hands out a stream's batches with the face of a Loader: a range-for goes from where it stands to the
/// stream's end, and the next one begins at the stream's beginning. The stream is the loader's own; one that
/// cannot go back throws from `seek` when a second epoch is asked for. Movable as a Loader is, and waiting
/// where it waits.
template <SampleStream Stream>
class StreamLoader {
  using Batches = detail::StreamedBatches<Stream>;

 public:
  using Batch = typename Stream::Batch;

  /// Begins where the stream stands. Throws ConfigurationError for fewer than 1 micro-batches, and for a
  /// prefetch below 0 or above 65536.
  explicit StreamLoader(Stream stream, StreamLoaderOptions options = {})
      : windows_(options.micro_batches, options.windows_cross_epochs) {
    const std::int64_t ahead = detail::checked_prefetch(options.prefetch);
    Batches batches(std::move(stream));
    const typename Batches::Cursor start{0, batches.stands_at()};
    feed_ = std::make_unique<detail::Feed<Batches>>(std::move(batches), start, ahead);
  }

  /// The next batch, or null at the stream's end; then the next call begins anew. Throws what the stream
  /// throws; the position is then as before, and another call takes the stream back to it and tries again.
  Batch* next() { return windows_.count(feed().next()); }

  /// Whether the batch in hand is the last of its window: the `micro_batches`-th, or the last of the stream
  /// unless windows cross epochs. To know the latter, the next batch is read; an error that meets it is
  /// thrown by the next `next`.
  bool ends_window() {
    auto& batches = feed();  // throws where this loader was moved from
    if (windows_.handed_out() == 0) return false;
    return windows_.full() || (!windows_.cross_epochs() && batches.at_end());
  }

  /// What has been handed out, the batch in hand included, whatever was read ahead.
  LoaderPosition position() const {
    const auto& cursor = feed().cursor();
    return {.epoch = cursor.epoch,
            .offset = cursor.offset,
            .micro_batches = windows_.handed_out(),
            .dataset = feed().producer().identity()};
  }

  /// Goes on from a position; the batch in hand stays. Throws ConfigurationError for a position of other data
  /// or with a number below zero, and what the stream's `seek` throws; the loader is then where it was.
  void seek(const LoaderPosition& position) {
    detail::require_same_data(position, this->position());
    if (position.epoch < 0 || position.epoch > detail::largest_epoch || position.offset < 0 ||
        position.micro_batches < 0) {
      throw ConfigurationError("loader: position epoch " + std::to_string(position.epoch) + ", offset " +
                               std::to_string(position.offset) + ", micro_batches " +
                               std::to_string(position.micro_batches) + " is none of a stream's");
    }
    feed().pause();
    feed().producer().seek(position.offset);
    feed().seek({position.epoch, position.offset});
    windows_.go_on_from(position.micro_batches);
  }

  auto begin() { return detail::BatchIterator<StreamLoader>(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  detail::Feed<Batches>& feed() const { return detail::require_feed(feed_); }

  detail::WindowPlan windows_;
  std::unique_ptr<detail::Feed<Batches>> feed_;
};

}  // namespace halfstep
