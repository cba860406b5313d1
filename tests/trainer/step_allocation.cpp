// A warm step allocates nothing.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <tuple>
#include <vector>

#include "support/classifier.hpp"
#include "support/counted_allocations.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Policies = std::tuple<Float32Policy, BFloat16Policy, Float16ScaledPolicy>;

template <class Policy>
auto new_trainer() {
  return Trainer<Classifier, AdamW, Policy>(
      Classifier(160, 512, 10), {.learning_rate = warmup_cosine(1e-2, 2, 100)}, {.clip_norm = 0.5f});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(step_allocation_tests)

BOOST_AUTO_TEST_CASE(what_is_counted_is_seen) {
  BOOST_TEST(allocations_of([] { delete new int; }) > 0);
  BOOST_TEST(allocations_of([] { std::vector<double>(1000, 1.0); }) > 0);
  struct alignas(128) Wide {
    char bytes[128];
  };
  BOOST_TEST(allocations_of([] { delete new Wide; }) > 0);
#if HALFSTEP_TEST_COUNTS_MALLOC
  void* volatile memory = nullptr;
  BOOST_TEST(allocations_of([&] { memory = std::malloc(10); }) == 1);
  std::free(memory);
#endif
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_warm_step_allocates_nothing, Policy, Policies) {
  const Points large(64, 160, 10, 1), small(10, 160, 10, 2);
  auto trainer = new_trainer<Policy>();
  for (int warm_up = 0; warm_up < 3; ++warm_up) {
    trainer.step(large);
    trainer.step(small);
  }
  onednn_calls = 0;
  for (int step = 0; step < 3; ++step) {
    for (const Points* batch : {&large, &small}) {
      StepReport report;
      BOOST_TEST(allocations_of([&] { report = trainer.step(*batch).report(); }) == 0);
      BOOST_TEST((report.outcome != Outcome::no_gradients));
    }
  }
#if HALFSTEP_WITH_ONEDNN
  BOOST_TEST(onednn_calls > 0);
#endif
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_warm_window_of_two_micro_batches_allocates_nothing, Policy, Policies) {
  const Points first(64, 160, 10, 1), second(30, 160, 10, 2);
  auto trainer = new_trainer<Policy>();
  const auto window = [&] {
    trainer.accumulate(first);
    trainer.accumulate(second);
    trainer.update();
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up) window();
  for (int turn = 0; turn < 3; ++turn) BOOST_TEST(allocations_of(window) == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_skipped_step_allocates_nothing_either, Policy, Policies) {
  Points bad(64, 160, 10, 1);
  bad.inputs[5] = std::numeric_limits<float>::infinity();
  auto trainer = new_trainer<Policy>();
  trainer.step(bad);
  trainer.step(bad);
  StepReport report;
  BOOST_TEST(allocations_of([&] { report = trainer.step(bad).report(); }) == 0);
  BOOST_TEST((report.outcome == Outcome::skipped));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(warm_prediction_and_evaluation_allocate_nothing, Policy, Policies) {
  const Points points(64, 160, 10, 1);
  auto trainer = new_trainer<Policy>();
  const auto look = [&] {
    trainer.predict(points.images());
    trainer.evaluate(points);
  };
  look();
  look();
  BOOST_TEST(allocations_of(look) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
