#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/loader.hpp>
#include <iterator>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(loader_tests)

using namespace halfstep;
using test::holds;
using test::refusal;

namespace {

using Numbers = std::vector<std::int64_t>;

/// The numbers from 0: a batch is which of them were asked for.
struct Count {
  using Batch = Numbers;
  std::int64_t size() const { return samples; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    if (fails) throw Error("the disk is gone");
    batch.assign(indices.begin(), indices.end());
  }
  std::int64_t samples = 10;
  bool fails = false;
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

struct Beyond {
  struct Epoch {
    std::int64_t size;
    std::int64_t operator[](std::int64_t position) const { return position == 3 ? size : position; }
  };
  std::uint64_t seed() const { return 0; }
  Epoch in_epoch(std::int64_t, std::int64_t size) const { return {size}; }
};

template <class TheLoader>
std::vector<Numbers> rest_of_epoch(TheLoader& loader) {
  std::vector<Numbers> batches;
  for (const auto& batch : loader) batches.push_back(batch);
  return batches;
}

using Batches = std::vector<Numbers>;

struct Place {
  std::int64_t epoch, offset;
  bool operator==(const Place&) const = default;
};

template <class TheLoader>
Place place(const TheLoader& loader) {
  return {loader.position().epoch, loader.position().offset};
}

static_assert(Dataset<Count>);
static_assert(!Dataset<Numbers>);
static_assert(SampleOrder<ByThrees>);
static_assert(std::ranges::input_range<Loader<Count>>);
// A dataset that is gone after the call would be read later.
static_assert(!std::is_constructible_v<Loader<Count>, Count>);
static_assert(std::is_constructible_v<Loader<Count>, const Count&>);

}  // namespace

BOOST_AUTO_TEST_CASE(an_epoch_is_every_sample_once_the_last_batch_short) {
  const Count data;
  Loader loader(data, {.batch_size = 4}, Sequential{});
  BOOST_TEST(loader.batches_per_epoch() == 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    BOOST_TEST((rest_of_epoch(loader) == Batches{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
    BOOST_TEST((place(loader) == Place{epoch + 1, 0}));
  }
}

BOOST_AUTO_TEST_CASE(drop_last_leaves_a_short_batch_out) {
  const Count data;
  Loader loader(data, {.batch_size = 4, .drop_last = true}, Sequential{});
  BOOST_TEST(loader.batches_per_epoch() == 2);
  BOOST_TEST((rest_of_epoch(loader) == Batches{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  BOOST_TEST((rest_of_epoch(loader) == Batches{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  Loader whole(data, {.batch_size = 5, .drop_last = true}, Sequential{});
  BOOST_TEST(whole.batches_per_epoch() == 2);
  BOOST_TEST(rest_of_epoch(whole).size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_batch_larger_than_the_data_is_all_of_it) {
  const Count data{3};
  Loader loader(data, {.batch_size = 100}, Sequential{});
  BOOST_TEST((rest_of_epoch(loader) == Batches{{0, 1, 2}}));
}

BOOST_AUTO_TEST_CASE(shuffled_epochs_differ_and_are_those_of_the_seed) {
  const Count data;
  Loader loader(data, {.batch_size = 10}, Shuffled(5)), again(data, {.batch_size = 10}, Shuffled(5)),
      other(data, {.batch_size = 10}, Shuffled(6));
  const auto first = rest_of_epoch(loader)[0], second = rest_of_epoch(loader)[0];
  BOOST_TEST(first != second);
  BOOST_TEST(rest_of_epoch(again)[0] == first);
  BOOST_TEST(rest_of_epoch(again)[0] == second);
  BOOST_TEST(rest_of_epoch(other)[0] != first);
  for (std::int64_t i = 0; i < 10; ++i)
    BOOST_TEST(first[static_cast<std::size_t>(i)] == Permutation(10, 5, 0)[i]);
}

BOOST_AUTO_TEST_CASE(a_loop_that_was_left_goes_on_where_it_stood) {
  const Count data;
  Loader loader(data, {.batch_size = 4}, Sequential{});
  for (const auto& batch : loader) {
    BOOST_TEST((batch == Numbers{0, 1, 2, 3}));
    break;
  }
  BOOST_TEST((place(loader) == Place{0, 4}));
  BOOST_TEST((rest_of_epoch(loader) == Batches{{4, 5, 6, 7}, {8, 9}}));
}

BOOST_AUTO_TEST_CASE(a_position_in_a_later_epoch_goes_on_in_that_epochs_order) {
  const Count data;
  Loader loader(data, {.batch_size = 2}, ByThrees{});
  rest_of_epoch(loader);
  BOOST_TEST((*loader.next() == Numbers{1, 4}));
  BOOST_TEST((*loader.next() == Numbers{7, 0}));
  BOOST_TEST((place(loader) == Place{1, 4}));
  const LoaderPosition saved = loader.position();

  Loader resumed(data, {.batch_size = 2}, ByThrees{});
  resumed.seek(saved);
  BOOST_TEST((rest_of_epoch(resumed) == Batches{{3, 6}, {9, 2}, {5, 8}}));
  BOOST_TEST((rest_of_epoch(resumed) == Batches{{2, 5}, {8, 1}, {4, 7}, {0, 3}, {6, 9}}));
}

BOOST_AUTO_TEST_CASE(a_position_after_every_batch_goes_on_as_the_run_would_have) {
  const Count data{11};
  for (const bool drop_last : {false, true}) {
    const LoaderOptions options{.batch_size = 3, .drop_last = drop_last};
    for (int batches = 0; batches < 9; ++batches) {
      Loader run(data, options, Shuffled(3)), resumed(data, options, Shuffled(3));
      for (int i = 0; i < batches; ++i) run.next();
      resumed.seek(run.position());
      for (int i = 0; i < 9; ++i) {
        const Numbers* expected = run.next();
        const Numbers* found = resumed.next();
        BOOST_REQUIRE((expected == nullptr) == (found == nullptr));
        if (expected != nullptr) BOOST_TEST(*expected == *found);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_batch_that_cannot_be_loaded_can_be_asked_for_again) {
  Count data;
  Loader loader(data, {.batch_size = 4}, Sequential{});
  loader.next();
  data.fails = true;
  BOOST_CHECK_THROW(loader.next(), Error);
  BOOST_TEST((place(loader) == Place{0, 4}));
  data.fails = false;
  BOOST_TEST((*loader.next() == Numbers{4, 5, 6, 7}));
}

BOOST_AUTO_TEST_CASE(the_batch_keeps_its_memory) {
  const Count data;
  Loader loader(data, {.batch_size = 5}, Shuffled(3));
  const Numbers* batch = loader.next();
  const std::int64_t* memory = batch->data();
  for (int i = 0; i < 5; ++i) {
    if (const Numbers* next = loader.next()) {
      BOOST_TEST(next == batch);
      BOOST_TEST(next->data() == memory);
    }
  }
}

BOOST_AUTO_TEST_CASE(options_that_give_no_batch_are_refused) {
  const Count data, empty{0};
  for (const std::int64_t size : {0, -5}) {
    const std::string message = refusal<ConfigurationError>([&] { Loader(data, {.batch_size = size}); });
    BOOST_TEST(holds(message, "batch_size is " + std::to_string(size)), message);
  }
  const std::string without = refusal<ConfigurationError>([&] { Loader(empty, {}); });
  BOOST_TEST(holds(without, "the dataset is empty"), without);
  const std::string dropped =
      refusal<ConfigurationError>([&] { Loader(data, {.batch_size = 11, .drop_last = true}); });
  BOOST_TEST(holds(dropped, "10 samples in batches of 11"), dropped);
}

BOOST_AUTO_TEST_CASE(positions_of_another_order_or_outside_are_refused_and_change_nothing) {
  const Count data;
  Loader loader(data, {.batch_size = 4}, Shuffled(5));
  loader.next();
  const LoaderPosition before = loader.position();
  const std::string seed = refusal<ConfigurationError>([&] { loader.seek({0, 4, 6}); });
  BOOST_TEST(holds(seed, "shuffle seed 6"), seed);
  BOOST_TEST(holds(seed, "shuffles by 5"), seed);
  for (const LoaderPosition& position :
       {LoaderPosition{-1, 0, 5}, LoaderPosition{0, -1, 5}, LoaderPosition{0, 11, 5}}) {
    const std::string message = refusal<ConfigurationError>([&] { loader.seek(position); });
    BOOST_TEST(holds(message, "epoch " + std::to_string(position.epoch)), message);
    BOOST_TEST(holds(message, "offset " + std::to_string(position.offset)), message);
    BOOST_TEST(holds(message, "10 samples"), message);
  }
  BOOST_TEST((loader.position() == before));
}

BOOST_AUTO_TEST_CASE(an_order_that_names_a_sample_outside_the_data_is_refused_and_nothing_is_handed_out) {
  const Count data;
  Loader loader(data, {.batch_size = 3}, Beyond{});
  loader.next();
  const std::string message = refusal<ConfigurationError>([&] { loader.next(); });
  BOOST_TEST(holds(message, "sample 10 at position 3"), message);
  BOOST_TEST((place(loader) == Place{0, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
