#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/loader.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <span>
#include <string>
#include <vector>

#include "support/given_gradients.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(windows_tests)

using namespace halfstep;
using test::holds;
using test::refusal;

namespace {

using Counts = std::vector<std::int64_t>;

/// Micro-batches of one sample each, whose gradient is 1.
struct Ones {
  using Batch = test::GivenBatch;
  std::int64_t size() const { return samples; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    const auto count = static_cast<std::int64_t>(indices.size());
    batch = {.gradients = {{static_cast<float>(count)}}, .count = count};
  }
  std::int64_t samples;
};

/// The lengths of the windows that end in the rest of this epoch; what is left open stands at the end,
/// negative.
template <class TheLoader>
Counts windows_of_epoch(TheLoader& loader) {
  Counts lengths;
  std::int64_t open = 0;
  while (loader.next() != nullptr) {
    ++open;
    if (loader.ends_window()) {
      lengths.push_back(open);
      open = 0;
    }
  }
  if (open > 0) lengths.push_back(-open);
  return lengths;
}

using GradientTrainer = Trainer<test::GivenGradients, SGD, Float32Policy, Host>;

GradientTrainer trainer_at_zero() {
  return GradientTrainer{test::GivenGradients({1}), SGD{.learning_rate = 1.0f}};
}

std::int64_t train_an_epoch(GradientTrainer& trainer, Loader<Ones, Sequential>& loader) {
  std::int64_t updates = 0;
  for (const auto& batch : loader) {
    trainer.accumulate(batch);
    if (loader.ends_window()) updates += trainer.update().report().applied();
  }
  return updates;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_last_window_of_an_epoch_is_as_short_as_it_comes) {
  const Ones data{10};
  Loader loader(data, {.batch_size = 1, .micro_batches = 4}, Sequential{});
  BOOST_TEST(loader.windows() == 3);
  BOOST_TEST(loader.windows(40) == 120);
  BOOST_TEST(!loader.ends_window());
  for (int epoch = 0; epoch < 3; ++epoch) BOOST_TEST((windows_of_epoch(loader) == Counts{4, 4, 2}));
  BOOST_TEST(!loader.ends_window());
}

BOOST_AUTO_TEST_CASE(ten_micro_batches_in_fours_are_three_updates_of_mean_one) {
  const Ones data{10};
  Loader loader(data, {.batch_size = 1, .micro_batches = 4}, Sequential{});
  GradientTrainer trainer = trainer_at_zero();
  BOOST_TEST(train_an_epoch(trainer, loader) == 3);
  BOOST_TEST(trainer.read_parameter("w.0")[0] == -3.0f);
  // Nothing has leaked into the next epoch.
  BOOST_TEST(train_an_epoch(trainer, loader) == 3);
  BOOST_TEST(trainer.read_parameter("w.0")[0] == -6.0f);
}

BOOST_AUTO_TEST_CASE(an_epoch_shorter_than_a_window_is_one_update) {
  const Ones data{3};
  Loader loader(data, {.batch_size = 1, .micro_batches = 4}, Sequential{});
  BOOST_TEST(loader.windows() == 1);
  GradientTrainer trainer = trainer_at_zero();
  for (int epoch = 0; epoch < 2; ++epoch) BOOST_TEST(train_an_epoch(trainer, loader) == 1);
  BOOST_TEST(trainer.read_parameter("w.0")[0] == -2.0f);
}

BOOST_AUTO_TEST_CASE(windows_cross_epochs_where_asked_to) {
  const Ones data{10};
  Loader loader(data, {.batch_size = 1, .micro_batches = 4, .windows_cross_epochs = true}, Sequential{});
  BOOST_TEST(loader.windows(1) == 2);
  BOOST_TEST(loader.windows(2) == 5);
  BOOST_TEST((windows_of_epoch(loader) == Counts{4, 4, -2}));
  BOOST_TEST(!loader.ends_window());
  BOOST_TEST((windows_of_epoch(loader) == Counts{2, 4, 4}));
  BOOST_TEST((windows_of_epoch(loader) == Counts{4, 4, -2}));
  const Ones four{4};
  Loader whole_epochs(four, {.batch_size = 1, .micro_batches = 4, .windows_cross_epochs = true},
                      Sequential{});
  for (int epoch = 0; epoch < 2; ++epoch) {
    BOOST_TEST((windows_of_epoch(whole_epochs) == Counts{4}));
    BOOST_TEST(!whole_epochs.ends_window());
  }
  const Ones three{3};
  Loader short_epochs(three, {.batch_size = 1, .micro_batches = 4, .windows_cross_epochs = true},
                      Sequential{});
  BOOST_TEST((windows_of_epoch(short_epochs) == Counts{-3}));
  BOOST_TEST((windows_of_epoch(short_epochs) == Counts{1, -2}));
}

BOOST_AUTO_TEST_CASE(the_short_last_batch_and_the_dropped_one_end_their_window) {
  const Ones data{11};
  Loader kept(data, {.batch_size = 2, .micro_batches = 4}, Sequential{});
  BOOST_TEST((windows_of_epoch(kept) == Counts{4, 2}));
  Loader dropped(data, {.batch_size = 2, .drop_last = true, .micro_batches = 4}, Sequential{});
  BOOST_TEST((windows_of_epoch(dropped) == Counts{4, 1}));
  BOOST_TEST(dropped.windows() == 2);
  Loader each(data, {.batch_size = 4}, Sequential{});
  BOOST_TEST((windows_of_epoch(each) == Counts{1, 1, 1}));
}

BOOST_AUTO_TEST_CASE(a_window_that_a_stop_cut_in_two_ends_where_it_would_have) {
  const Ones data{10};
  for (const bool cross : {false, true}) {
    for (const std::int64_t prefetch : {0, 3}) {
      const LoaderOptions options{
          .batch_size = 1, .prefetch = prefetch, .micro_batches = 4, .windows_cross_epochs = cross};
      for (int stop = 0; stop < 25; ++stop) {
        Loader run(data, options, Sequential{}), resumed(data, options, Sequential{});
        for (int i = 0; i < stop; ++i) run.next();
        resumed.seek(run.position());
        BOOST_TEST((resumed.position() == run.position()));
        for (int i = 0; i < 25; ++i) {
          BOOST_TEST(resumed.ends_window() == run.ends_window());
          BOOST_TEST((resumed.next() == nullptr) == (run.next() == nullptr));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_window_without_micro_batches_is_refused) {
  const Ones data{10};
  const std::string message = refusal<ConfigurationError>([&] { Loader(data, {.micro_batches = 0}); });
  BOOST_TEST(holds(message, "micro_batches is 0"), message);
}

BOOST_AUTO_TEST_SUITE_END()
