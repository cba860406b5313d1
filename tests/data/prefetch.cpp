#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <halfstep/data/loader.hpp>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/each_prefetch.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(prefetch_tests)

using namespace halfstep;
using test::for_each_prefetch;
using test::holds;
using test::refusal;

namespace prefetch_test {

using Numbers = std::vector<std::int64_t>;
using Batches = std::vector<Numbers>;

/// The numbers from 0: a batch is which of them were asked for. Fails where it is told to.
class Count {
 public:
  using Batch = Numbers;
  explicit Count(std::int64_t samples = 10) : samples_(samples) {}
  std::int64_t size() const { return samples_; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    batch.assign(indices.begin(), indices.end());
    const std::scoped_lock lock(mutex_);
    ++loads_;
    loaded_.notify_all();
    for (const std::int64_t index : indices) {
      if (index == bad_) throw Error("sample " + std::to_string(index) + " is damaged");
    }
  }

  void spoil(std::int64_t index) {
    const std::scoped_lock lock(mutex_);
    bad_ = index;
  }
  std::int64_t loads() const {
    const std::scoped_lock lock(mutex_);
    return loads_;
  }
  /// False if it does not come to so many loads within seconds.
  bool wait_for_loads(std::int64_t count) const {
    std::unique_lock lock(mutex_);
    return loaded_.wait_for(lock, std::chrono::seconds(20), [&] { return loads_ >= count; });
  }

 private:
  std::int64_t samples_;
  std::int64_t bad_ = -1;
  mutable std::int64_t loads_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable loaded_;
};

/// The order of epoch e: sample(i) = (3 i + e) mod 10.
struct ByThrees {
  struct Epoch {
    std::int64_t epoch;
    std::int64_t operator[](std::int64_t position) const { return (3 * position + epoch) % 10; }
  };
  std::uint64_t seed() const { return 0; }
  Epoch in_epoch(std::int64_t epoch, std::int64_t) const { return {epoch}; }
};

template <class TheLoader>
Batches rest_of_epoch(TheLoader& loader) {
  Batches batches;
  for (const auto& batch : loader) batches.push_back(batch);
  return batches;
}

/// Long enough for a loader that wrongly loads on to be caught at it.
void let_threads_run() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

constexpr int every_prefetch[] = {0, 1, 2, 3, 100};

static_assert(std::is_nothrow_move_constructible_v<Loader<Count>>);
static_assert(std::is_nothrow_move_assignable_v<Loader<Count>>);
static_assert(!std::is_copy_constructible_v<Loader<Count>>);

}  // namespace prefetch_test

using namespace prefetch_test;

BOOST_AUTO_TEST_CASE(batches_and_positions_are_those_without_prefetch) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    const Count data(23);
    for (const bool drop_last : {false, true}) {
      Loader plain(data, {.batch_size = 4, .drop_last = drop_last}, Shuffled(9));
      Loader ahead(data, {.batch_size = 4, .drop_last = drop_last, .prefetch = prefetch}, Shuffled(9));
      for (int call = 0; call < 40; ++call) {
        const Numbers* expected = plain.next();
        const Numbers* found = ahead.next();
        BOOST_REQUIRE((expected == nullptr) == (found == nullptr));
        if (expected != nullptr) BOOST_TEST(*found == *expected);
        BOOST_TEST((ahead.position() == plain.position()));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_position_in_a_later_epoch_goes_on_in_that_epochs_order) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    const Count data;
    const LoaderOptions options{.batch_size = 2, .prefetch = prefetch};
    Loader loader(data, options, ByThrees{});
    rest_of_epoch(loader);
    BOOST_TEST((*loader.next() == Numbers{1, 4}));
    BOOST_TEST((*loader.next() == Numbers{7, 0}));
    const LoaderPosition saved = loader.position();
    BOOST_TEST(saved.epoch == 1);
    BOOST_TEST(saved.offset == 4);

    Loader resumed(data, options, ByThrees{});
    resumed.seek(saved);
    BOOST_TEST((rest_of_epoch(resumed) == Batches{{3, 6}, {9, 2}, {5, 8}}));
    BOOST_TEST((rest_of_epoch(resumed) == Batches{{2, 5}, {8, 1}, {4, 7}, {0, 3}, {6, 9}}));
  });
}

BOOST_AUTO_TEST_CASE(a_seek_forgets_what_was_loaded_ahead) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    const Count data(50);
    Loader loader(data, {.batch_size = 3, .prefetch = prefetch}, Shuffled(4));
    std::vector<LoaderPosition> positions{loader.position()};
    std::vector<std::optional<Numbers>> seen;
    for (int call = 0; call < 60; ++call) {
      const Numbers* batch = loader.next();
      seen.push_back(batch != nullptr ? std::optional(*batch) : std::nullopt);
      positions.push_back(loader.position());
    }
    // From everywhere, and back and forth.
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const std::size_t from = (i * 37) % seen.size();
      loader.seek(positions[from]);
      BOOST_TEST((loader.position() == positions[from]));
      for (std::size_t k = from; k < (std::min)(from + 3, seen.size()); ++k) {
        const Numbers* batch = loader.next();
        BOOST_REQUIRE((batch != nullptr) == seen[k].has_value());
        if (batch != nullptr) BOOST_TEST(*batch == *seen[k]);
        BOOST_TEST((loader.position() == positions[k + 1]));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(an_error_comes_with_the_batch_that_it_concerns_and_loses_nothing) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    Count data;
    data.spoil(7);
    Loader loader(data, {.batch_size = 2, .prefetch = prefetch}, Sequential{});
    for (const std::int64_t first : {0, 2, 4}) BOOST_TEST((*loader.next() == Numbers{first, first + 1}));
    const LoaderPosition before = loader.position();
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::string message = refusal<Error>([&] { loader.next(); });
      BOOST_TEST(holds(message, "sample 7 is damaged"), message);
      BOOST_TEST((loader.position() == before));
    }
    data.spoil(-1);
    BOOST_TEST((rest_of_epoch(loader) == Batches{{6, 7}, {8, 9}}));
    BOOST_TEST(rest_of_epoch(loader).size() == 5u);
  });
}

BOOST_AUTO_TEST_CASE(an_error_loaded_ahead_is_forgotten_by_a_seek) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    Count data;
    data.spoil(4);
    Loader loader(data, {.batch_size = 2, .prefetch = prefetch}, Sequential{});
    loader.next();
    loader.next();
    data.spoil(-1);
    loader.seek({0, 6, 0});
    BOOST_TEST((rest_of_epoch(loader) == Batches{{6, 7}, {8, 9}}));
  });
}

BOOST_AUTO_TEST_CASE(a_batch_that_failed_is_not_tried_again_before_it_is_asked_for) {
  constexpr int some[] = {1, 3};
  for_each_prefetch(some, [](int prefetch) {
    Count data;
    data.spoil(0);
    Loader loader(data, {.batch_size = 2, .prefetch = prefetch}, Sequential{});
    BOOST_CHECK_THROW(loader.next(), Error);
    let_threads_run();
    BOOST_TEST(data.loads() == 1);
    // Mended in the meantime, it must not give a stale error.
    data.spoil(-1);
    BOOST_TEST((*loader.next() == Numbers{0, 1}));
  });
}

BOOST_AUTO_TEST_CASE(as_many_batches_are_loaded_ahead_as_asked_for_and_no_more) {
  const Count data(100);
  Loader loader(data, {.batch_size = 1, .prefetch = 3}, Sequential{});
  let_threads_run();
  BOOST_TEST(data.loads() == 0);
  loader.next();
  BOOST_TEST(data.wait_for_loads(4));
  let_threads_run();
  BOOST_TEST(data.loads() == 4);
  BOOST_TEST(loader.position().offset == 1);
  loader.next();
  BOOST_TEST(data.wait_for_loads(5));
  let_threads_run();
  BOOST_TEST(data.loads() == 5);
  BOOST_TEST(loader.position().offset == 2);
}

BOOST_AUTO_TEST_CASE(between_two_epochs_the_data_is_left_alone) {
  const Count data(4);
  Loader loader(data, {.batch_size = 2, .prefetch = 100}, Sequential{});
  BOOST_TEST(rest_of_epoch(loader).size() == 2u);
  let_threads_run();
  BOOST_TEST(data.loads() == 2);
  BOOST_TEST(rest_of_epoch(loader).size() == 2u);
  BOOST_TEST(data.loads() == 4);
}

BOOST_AUTO_TEST_CASE(the_batch_in_hand_stays_until_the_next_is_asked_for) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    const Count data(40);
    Loader loader(data, {.batch_size = 2, .prefetch = prefetch}, Sequential{});
    const Numbers* batch = loader.next();
    if (prefetch > 0) data.wait_for_loads((std::min)(prefetch + 1, 20));
    let_threads_run();
    BOOST_TEST((*batch == Numbers{0, 1}));
    loader.seek({0, 20, 0});
    let_threads_run();
    BOOST_TEST((*batch == Numbers{0, 1}));
    Loader moved = std::move(loader);
    let_threads_run();
    BOOST_TEST((*batch == Numbers{0, 1}));
    BOOST_TEST((*moved.next() == Numbers{20, 21}));
  });
}

BOOST_AUTO_TEST_CASE(batches_are_loaded_into_the_memory_of_former_ones) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    const Count data(60);
    Loader loader(data, {.batch_size = 5, .prefetch = prefetch}, Shuffled(3));
    std::vector<const Numbers*> batches;
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (const auto& batch : loader) {
        if (std::find(batches.begin(), batches.end(), &batch) == batches.end()) batches.push_back(&batch);
      }
    }
    // As many as are ahead, the end of the epoch included, and the one in hand.
    BOOST_TEST(batches.size() <= static_cast<std::size_t>((std::min)(prefetch, 13) + 1));
  });
}

BOOST_AUTO_TEST_CASE(a_loader_moves_in_the_middle_of_an_epoch) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    const Count data, other_data(4);
    const LoaderOptions options{.batch_size = 2, .prefetch = prefetch};
    Loader loader(data, options, Sequential{});
    loader.next();
    Loader moved = std::move(loader);
    BOOST_TEST((*moved.next() == Numbers{2, 3}));
    Loader assigned(other_data, options, Sequential{});
    assigned.next();
    assigned = std::move(moved);
    BOOST_TEST((rest_of_epoch(assigned) == Batches{{4, 5}, {6, 7}, {8, 9}}));
    BOOST_TEST(assigned.position().epoch == 1);

    const auto check = [&](const auto& use) {
      const std::string message = refusal<ConfigurationError>(use);
      BOOST_TEST(holds(message, "was moved from"), message);
    };
    check([&] { moved.next(); });
    check([&] { moved.position(); });
    check([&] { moved.seek({}); });
    check([&] { moved.begin(); });
    check([&] { moved.batches_per_epoch(); });
    check([&] { moved.ends_window(); });
    moved = Loader(data, options, Sequential{});
    BOOST_TEST((*moved.next() == Numbers{0, 1}));
  });
}

BOOST_AUTO_TEST_CASE(a_loader_can_end_anywhere) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    for (int batches = 0; batches < 13; ++batches) {
      for (int round = 0; round < 5; ++round) {
        const Count data;
        Loader loader(data, {.batch_size = 2, .prefetch = prefetch}, Shuffled(1));
        for (int i = 0; i < batches; ++i) loader.next();
      }
    }
  });
}

namespace {

/// A dataset whose load goes on until it is let go.
struct Slow {
  using Batch = std::int64_t;
  std::int64_t size() const { return 10; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    batch = indices[0];
    if (indices[0] == 0) return;
    entered = true;
    entered.notify_all();
    open.wait(false);
    ended = true;
  }
  mutable std::atomic<bool> entered = false, open = false, ended = false;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_loader_waits_at_its_end_for_the_batch_that_is_being_loaded) {
  Slow data;
  std::jthread opener;
  {
    Loader loader(data, {.batch_size = 1, .prefetch = 2}, Sequential{});
    loader.next();
    data.entered.wait(false);
    opener = std::jthread([&] {
      let_threads_run();
      data.open = true;
      data.open.notify_all();
    });
  }
  BOOST_TEST(data.ended.load());
}

BOOST_AUTO_TEST_CASE(a_seek_waits_for_the_batch_that_is_being_loaded_and_forgets_it) {
  Slow data;
  Loader loader(data, {.batch_size = 1, .prefetch = 2}, Sequential{});
  loader.next();
  data.entered.wait(false);
  const std::jthread opener([&] {
    let_threads_run();
    data.open = true;
    data.open.notify_all();
  });
  loader.seek({0, 5, 0});
  BOOST_TEST(data.ended.load());
  BOOST_TEST(*loader.next() == 5);
  BOOST_TEST(*loader.next() == 6);
}

BOOST_AUTO_TEST_CASE(two_loaders_share_a_dataset) {
  const Count data(500);
  Loader a(data, {.batch_size = 3, .prefetch = 2}, Shuffled(1)),
      b(data, {.batch_size = 7, .prefetch = 5}, Shuffled(2));
  std::int64_t sum = 0;
  while (const Numbers* batch = a.next()) {
    for (const std::int64_t index : *batch) sum += index;
    if (b.next() == nullptr) b.next();
  }
  BOOST_TEST(sum == 500 * 499 / 2);
}

BOOST_AUTO_TEST_CASE(absurd_prefetches_are_refused) {
  const Count data;
  for (const std::int64_t prefetch : {std::int64_t{-1}, std::int64_t{65537}, std::int64_t{1} << 60}) {
    const std::string message = refusal<ConfigurationError>([&] { Loader(data, {.prefetch = prefetch}); });
    BOOST_TEST(holds(message, "prefetch is " + std::to_string(prefetch)), message);
  }
}

BOOST_AUTO_TEST_SUITE_END()
