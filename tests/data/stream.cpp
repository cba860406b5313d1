#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/stream.hpp>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/each_prefetch.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(stream_tests)

using namespace halfstep;
using test::for_each_prefetch;
using test::holds;
using test::refusal;

namespace stream_test {

using Numbers = std::vector<std::int64_t>;
using Batches = std::vector<Numbers>;

/// What a test tells a stream to do, from outside.
struct Orders {
  std::int64_t fail_at = -1;
  bool fail_to_seek = false;
  std::int64_t seeks = 0;
};

/// The numbers from 0, two to a batch, whose place is counted in bytes: ten a number.
class Count {
 public:
  using Batch = Numbers;
  explicit Count(std::int64_t numbers, Orders* orders = nullptr, std::string name = {})
      : numbers_(numbers), orders_(orders), name_(std::move(name)) {}

  bool next(Batch& batch) {
    batch.clear();
    while (batch.size() < 2 && at_ < numbers_) {
      if (orders_ != nullptr && orders_->fail_at == at_)
        throw Error("number " + std::to_string(at_) + " is damaged");
      batch.push_back(at_++);
    }
    return !batch.empty();
  }
  std::int64_t position() const { return 10 * at_; }
  void seek(std::int64_t position) {
    if (orders_ != nullptr) ++orders_->seeks;
    if (orders_ != nullptr && orders_->fail_to_seek) throw Error("this stream cannot go back");
    at_ = position / 10;
  }
  std::string identity() const { return name_; }

 private:
  std::int64_t numbers_;
  Orders* orders_;
  std::string name_;
  std::int64_t at_ = 0;
};

template <class TheLoader>
Batches rest_of_epoch(TheLoader& loader) {
  Batches batches;
  for (const auto& batch : loader) batches.push_back(batch);
  return batches;
}

constexpr int every_prefetch[] = {0, 1, 3, 50};

static_assert(SampleStream<Count>);
static_assert(!SampleStream<Numbers>);
static_assert(std::ranges::input_range<StreamLoader<Count>>);
static_assert(std::is_nothrow_move_constructible_v<StreamLoader<Count>>);

}  // namespace stream_test

using namespace stream_test;

BOOST_AUTO_TEST_CASE(a_range_for_goes_to_the_end_and_the_next_one_begins_anew) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    StreamLoader loader(Count(5), {.prefetch = prefetch});
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      BOOST_TEST((loader.position() == LoaderPosition{.epoch = epoch}));
      BOOST_TEST((rest_of_epoch(loader) == Batches{{0, 1}, {2, 3}, {4}}));
    }
  });
}

BOOST_AUTO_TEST_CASE(the_position_is_that_of_what_was_handed_out) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    StreamLoader loader(Count(9), {.prefetch = prefetch});
    for (std::int64_t batches = 1; batches <= 4; ++batches) {
      loader.next();
      BOOST_TEST(loader.position().epoch == 0);
      BOOST_TEST(loader.position().offset == 20 * batches);
    }
    BOOST_TEST((*loader.next() == Numbers{8}));
    BOOST_TEST(loader.position().offset == 90);
    BOOST_TEST(loader.next() == nullptr);
    BOOST_TEST((loader.position() == LoaderPosition{.epoch = 1}));
  });
}

BOOST_AUTO_TEST_CASE(from_every_position_the_same_batches_follow) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    StreamLoader loader(Count(11), {.prefetch = prefetch, .micro_batches = 4});
    std::vector<LoaderPosition> positions{loader.position()};
    std::vector<std::optional<Numbers>> seen;
    std::vector<bool> ends{loader.ends_window()};
    for (int call = 0; call < 20; ++call) {
      const Numbers* batch = loader.next();
      seen.push_back(batch != nullptr ? std::optional(*batch) : std::nullopt);
      positions.push_back(loader.position());
      ends.push_back(loader.ends_window());
    }
    StreamLoader fresh(Count(11), {.prefetch = prefetch, .micro_batches = 4});
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const std::size_t from = (i * 13) % seen.size();
      for (auto* resumed : {&loader, &fresh}) {
        resumed->seek(positions[from]);
        BOOST_TEST((resumed->position() == positions[from]));
        BOOST_TEST(resumed->ends_window() == ends[from]);
        for (std::size_t k = from; k < seen.size(); ++k) {
          const Numbers* batch = resumed->next();
          BOOST_REQUIRE((batch != nullptr) == seen[k].has_value());
          if (batch != nullptr) BOOST_TEST(*batch == *seen[k]);
          BOOST_TEST((resumed->position() == positions[k + 1]));
          BOOST_TEST(resumed->ends_window() == ends[k + 1]);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_end_of_the_stream_ends_a_window_and_nothing_leaks) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    for (const bool cross : {false, true}) {
      StreamLoader loader(Count(12), {.prefetch = prefetch, .micro_batches = 4, .windows_cross_epochs = cross});
      const auto windows = [&loader] {
        std::vector<int> lengths;
        int open = 0;
        for (const auto& batch : loader) {
          // To ask for the end does not touch the batch in hand, nor the position.
          const Numbers before = batch;
          const LoaderPosition position = loader.position();
          ++open;
          const bool ends = loader.ends_window();
          BOOST_TEST(batch == before);
          BOOST_TEST((loader.position() == position));
          if (ends) lengths.push_back(std::exchange(open, 0));
        }
        if (open > 0) lengths.push_back(-open);
        return lengths;
      };
      for (int epoch = 0; epoch < 2; ++epoch) {
        BOOST_TEST(
            (windows() == (cross ? epoch == 0 ? std::vector{4, -2} : std::vector{2, 4} : std::vector{4, 2})));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(an_error_comes_with_the_batch_that_it_concerns_and_loses_nothing) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    Orders orders{.fail_at = 5};
    StreamLoader loader(Count(8, &orders), {.prefetch = prefetch, .micro_batches = 4});
    BOOST_TEST((*loader.next() == Numbers{0, 1}));
    BOOST_TEST((*loader.next() == Numbers{2, 3}));
    // That something fails is no end.
    BOOST_TEST(!loader.ends_window());
    const LoaderPosition before = loader.position();
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::string message = refusal<Error>([&] { loader.next(); });
      BOOST_TEST(holds(message, "number 5 is damaged"), message);
      BOOST_TEST((loader.position() == before));
    }
    orders.fail_at = -1;
    BOOST_TEST((rest_of_epoch(loader) == Batches{{4, 5}, {6, 7}}));
  });
}

BOOST_AUTO_TEST_CASE(a_seek_that_fails_leaves_the_loader_where_it_was) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    Orders orders;
    StreamLoader loader(Count(8, &orders), {.prefetch = prefetch});
    loader.next();
    loader.next();
    const LoaderPosition before = loader.position();
    loader.seek(before);
    orders.fail_to_seek = true;
    BOOST_CHECK_THROW(loader.seek({.offset = 20}), Error);
    BOOST_TEST((loader.position() == before));
    orders.fail_to_seek = false;
    BOOST_TEST((rest_of_epoch(loader) == Batches{{4, 5}, {6, 7}}));
  });
}

BOOST_AUTO_TEST_CASE(a_stream_that_cannot_go_back_serves_one_epoch) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    Orders orders{.fail_to_seek = true};
    StreamLoader loader(Count(3, &orders), {.prefetch = prefetch});
    BOOST_TEST((rest_of_epoch(loader) == Batches{{0, 1}, {2}}));
    BOOST_TEST(orders.seeks == 0);
    const std::string message = refusal<Error>([&] { loader.next(); });
    BOOST_TEST(holds(message, "cannot go back"), message);
  });
}

BOOST_AUTO_TEST_CASE(a_stream_is_taken_where_it_stands) {
  Count stream(6);
  stream.seek(20);
  StreamLoader loader(std::move(stream));
  BOOST_TEST(loader.position().offset == 20);
  BOOST_TEST((rest_of_epoch(loader) == Batches{{2, 3}, {4, 5}}));
  BOOST_TEST((rest_of_epoch(loader) == Batches{{0, 1}, {2, 3}, {4, 5}}));
}

BOOST_AUTO_TEST_CASE(an_empty_stream_has_empty_epochs) {
  StreamLoader loader(Count(0), {.prefetch = 2});
  BOOST_TEST(rest_of_epoch(loader).empty());
  BOOST_TEST(rest_of_epoch(loader).empty());
  BOOST_TEST(loader.position().epoch == 2);
}

BOOST_AUTO_TEST_CASE(a_loader_moves_and_ends_anywhere) {
  for_each_prefetch(every_prefetch, [](int prefetch) {
    for (int batches = 0; batches < 6; ++batches) {
      StreamLoader loader(Count(7), {.prefetch = prefetch});
      for (int i = 0; i < batches; ++i) loader.next();
      StreamLoader moved = std::move(loader);
      BOOST_CHECK_THROW(loader.next(), ConfigurationError);
      if (batches < 4) BOOST_TEST((moved.next()->front() == 2 * batches));
    }
  });
}

BOOST_AUTO_TEST_CASE(positions_of_other_data_and_absurd_ones_are_refused_and_change_nothing) {
  StreamLoader loader(Count(6, nullptr, "six numbers"), {.prefetch = 1}),
      other(Count(6, nullptr, "other numbers"));
  loader.next();
  const LoaderPosition before = loader.position();
  BOOST_TEST(before.dataset == "six numbers");
  const std::string data = refusal<ConfigurationError>([&] { loader.seek(other.position()); });
  BOOST_TEST(holds(data, "\"other numbers\""), data);
  BOOST_TEST(holds(data, "\"six numbers\""), data);
  const std::string seed = refusal<ConfigurationError>([&] { loader.seek({.seed = 3}); });
  BOOST_TEST(holds(seed, "shuffle seed 3"), seed);
  for (const LoaderPosition& position :
       {LoaderPosition{.epoch = -1}, LoaderPosition{.offset = -20}, LoaderPosition{.micro_batches = -3},
        LoaderPosition{.epoch = INT64_MAX}}) {
    const std::string message = refusal<ConfigurationError>([&] { loader.seek(position); });
    BOOST_TEST(holds(message, "epoch " + std::to_string(position.epoch) + ", offset " +
                                  std::to_string(position.offset) + ", micro_batches " +
                                  std::to_string(position.micro_batches)),
               message);
  }
  BOOST_TEST((loader.position() == before));
  BOOST_TEST((*loader.next() == Numbers{2, 3}));
}

BOOST_AUTO_TEST_CASE(options_that_cannot_be_right_are_refused) {
  BOOST_CHECK_THROW(StreamLoader(Count(6), {.prefetch = -1}), ConfigurationError);
  BOOST_CHECK_THROW(StreamLoader(Count(6), {.micro_batches = 0}), ConfigurationError);
}

BOOST_AUTO_TEST_SUITE_END()
