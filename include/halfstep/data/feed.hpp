#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <halfstep/error.hpp>
#include <iterator>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace halfstep::detail {

inline constexpr std::int64_t largest_prefetch = 65536;

inline std::int64_t checked_prefetch(std::int64_t prefetch) {
  if (prefetch < 0 || prefetch > largest_prefetch) {
    throw ConfigurationError("loader: prefetch is " + std::to_string(prefetch) +
                             " batches; it must lie between 0 and " + std::to_string(largest_prefetch));
  }
  return prefetch;
}

/// Hands out what a producer makes, one batch after the other, and knows the place after the last one handed
/// out. The producer runs on the caller's thread, or on another up to `ahead` batches before they are asked
/// for; what is handed out is the same.
///
/// A producer is `bool operator()(Cursor& cursor, Batch& batch)`: fills the batch at the cursor and moves it
/// on, or returns false at an end, the cursor then at the place to go on from. It depends on nothing but the
/// cursor, and is called by one thread at a time. What it throws leaves the feed where it was and is thrown
/// by the `next` that would have handed that batch out; the `next` after that tries again. Nobody runs ahead
/// of an end or of an error.
///
/// One feed serves one thread. Its end waits for the batch in the making.
template <class Producer>
class Feed {
 public:
  using Batch = typename Producer::Batch;
  using Cursor = typename Producer::Cursor;

  Feed(Producer producer, Cursor start, std::int64_t ahead)
      : producer_(std::move(producer)),
        cursor_(start),
        ahead_(static_cast<std::size_t>(ahead)),
        slots_((std::max)(ahead_, std::size_t{1}) + 1) {}
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// The next batch, or null at an end. It is not written to before the next `next`.
  Batch* next() {
    // Made at once, it may take the place of the batch in hand, which keeps its memory in use.
    const bool in_place = ahead_ == 0 && ready_ == 0;
    if (in_place) produce(slots_[hand_], cursor_);
    Slot& slot = in_place ? slots_[hand_] : upcoming();
    if (slot.error) {
      const std::exception_ptr error = std::exchange(slot.error, nullptr);
      pause();
      std::rethrow_exception(error);
    }
    cursor_ = slot.after;
    if (!in_place) take();
    return slot.filled ? &slot.batch : nullptr;
  }

  /// Whether the next `next` will say that an end is reached. May have to make the next batch to know; an
  /// error while it is made is kept for `next`.
  bool at_end() {
    const Slot& slot = upcoming();
    return !slot.error && !slot.filled;
  }

  /// The place after what was handed out.
  const Cursor& cursor() const { return cursor_; }

  /// What never changes of the producer may be read at any time, the rest only while the feed is paused.
  Producer& producer() { return producer_; }
  const Producer& producer() const { return producer_; }

  /// Forgets what was made ahead and waits until nobody is at work; the next `next` or `at_end` starts anew.
  void pause() {
    std::unique_lock lock(mutex_);
    wanted_ = false;
    changed_.wait(lock, [this] { return !busy_; });
    ready_ = 0;
  }

  /// Goes on from another place. The batch in hand stays.
  void seek(Cursor cursor) {
    pause();
    cursor_ = cursor;
  }

 private:
  struct Slot {
    Batch batch{};
    Cursor after{};
    bool filled = false;
    std::exception_ptr error = nullptr;
  };

  std::size_t behind_hand(std::size_t distance) const { return (hand_ + distance) % slots_.size(); }

  void produce(Slot& slot, const Cursor& from) {
    slot.after = from;
    slot.error = nullptr;
    slot.filled = false;
    try {
      slot.filled = producer_(slot.after, slot.batch);
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  /// The slot after the one in hand, once something is in it.
  Slot& upcoming() {
    Slot& slot = slots_[behind_hand(1)];
    if (ahead_ == 0) {
      if (ready_ == 0) produce(slot, cursor_);
      ready_ = 1;
      return slot;
    }
    std::unique_lock lock(mutex_);
    if (ready_ == 0 && !wanted_) {
      if (!worker_.joinable()) start_worker();
      from_ = cursor_;
      wanted_ = true;
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return ready_ > 0; });
    return slot;
  }

  void take() {
    {
      const std::scoped_lock lock(mutex_);
      hand_ = behind_hand(1);
      --ready_;
    }
    changed_.notify_all();
  }

  void start_worker() {
    try {
      worker_ = std::jthread([this](std::stop_token stop) { work(std::move(stop)); });
    } catch (const std::system_error& error) {
      throw DeviceError(std::string("loader: no thread to prefetch with could be started (") + error.what() +
                        "); set prefetch to 0");
    }
  }

  void work(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    const auto has_work = [this] { return wanted_ && ready_ < ahead_; };
    while (changed_.wait(lock, stop, has_work) && !stop.stop_requested()) {
      // Neither the slot in hand nor one that is ready: nobody else looks at it.
      Slot& slot = slots_[behind_hand(1 + ready_)];
      busy_ = true;
      lock.unlock();
      produce(slot, from_);
      lock.lock();
      busy_ = false;
      if (wanted_) {
        from_ = slot.after;
        wanted_ = slot.filled;
        ++ready_;
      }
      changed_.notify_all();
    }
  }

  Producer producer_;
  Cursor cursor_;
  std::size_t ahead_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by the mutex: the batch handed out, as many ready ones behind it, and room for the rest.
  std::vector<Slot> slots_;
  std::size_t hand_ = 0;
  std::size_t ready_ = 0;
  bool wanted_ = false;  ///< the worker is to go on from `from_`
  bool busy_ = false;    ///< the worker is in the producer
  Cursor from_{};
  // The last member: it stops and is joined before anything that it uses is gone.
  std::jthread worker_;
};

/// A loader's feed; a loader that was moved from has none.
template <class Producer>
Feed<Producer>& require_feed(const std::unique_ptr<Feed<Producer>>& feed) {
  if (feed == nullptr) throw ConfigurationError("this loader was moved from; use the one it was moved to");
  return *feed;
}

/// The loop over a loader's batches, from where it stands to the end of the epoch.
template <class AnyLoader>
class BatchIterator {
 public:
  using value_type = typename AnyLoader::Batch;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  BatchIterator() = default;
  explicit BatchIterator(AnyLoader* loader) : loader_(loader), batch_(loader->next()) {}
  value_type& operator*() const { return *batch_; }
  BatchIterator& operator++() {
    batch_ = loader_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const BatchIterator& it, std::default_sentinel_t) { return it.batch_ == nullptr; }

 private:
  AnyLoader* loader_ = nullptr;
  value_type* batch_ = nullptr;
};

}  // namespace halfstep::detail
