// Growth without end, a scale that cannot fall far enough, windows that say nothing of it, types that need
// none: with a trainer, on gradients that the scenario dictates.
#include <boost/test/unit_test.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "support/given_gradients.hpp"

BOOST_AUTO_TEST_SUITE(training_at_the_limits_of_the_scale_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Values = std::vector<float>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

using ScaledTrainer = Trainer<GivenGradients, SGD, ChosenScalerPolicy>;

/// Gradients as the backward pass of a float16 model holds them, weights w.0 and so on, learning rate 1.
ScaledTrainer scaled_trainer(const DynamicScaler& scaler, const std::vector<std::int64_t>& sizes = {1},
                             ScaledTrainer::Options options = {}) {
  choose_scaler(scaler);
  return ScaledTrainer(GivenGradients(sizes, true), {.learning_rate = 1}, std::move(options));
}

// At a scale of 0.5 the gradient of 100000 is held as 50000, whose nearest float16 is 49984.
constexpr float hundred_thousand_in_float16 = 99968.0f;

}  // namespace

BOOST_AUTO_TEST_CASE(growth_stops_at_the_largest_finite_scale_and_an_overflow_still_halves_it) {
  ScaledTrainer trainer = scaled_trainer({.initial_scale = 0x1p126f, .growth_interval = 1});
  for (int window = 1; window <= 5; ++window) {
    const StepReport report = trainer.step(GivenBatch{{{0.0f}}}).report();
    BOOST_TEST(report.applied());
    BOOST_TEST(report.next_scale == 0x1p127f);
    BOOST_TEST((report.scale_change == (window == 1 ? ScaleChange::grown : ScaleChange::at_maximum)));
  }
  const StepReport report = trainer.step(GivenBatch{{{infinity}}}).report();
  BOOST_TEST(report.next_scale == 0x1p126f);
  BOOST_TEST(report.skipped == 1);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{0.0f});
}

BOOST_AUTO_TEST_CASE(growth_by_ten_ends_at_the_last_product_that_is_finite) {
  ScaledTrainer trainer = scaled_trainer({.growth_factor = 10, .growth_interval = 1});
  int growths = 0;
  for (int window = 0; window < 70; ++window) {
    const StepReport report = trainer.step(GivenBatch{{{0.0f}}}).report();
    growths += report.scale_change == ScaleChange::grown ? 1 : 0;
  }
  BOOST_TEST(growths == 33);
  BOOST_TEST(trainer.state().scaler.scale == 6.55360047e37f);
}

BOOST_AUTO_TEST_CASE(gradients_that_no_scale_can_cure_stop_the_scale_at_its_floor_and_name_the_tensor) {
  ScaledTrainer trainer = scaled_trainer({.minimum_scale = 1}, {2, 3});
  const Values first{0.1f, -0.2f}, second{0.3f, 1e-30f, -5.0f};
  trainer.write_parameter("w.0", first);
  trainer.write_parameter("w.1", second);
  for (int window = 1; window <= 200; ++window) {
    const StepReport report = trainer.step(GivenBatch{{{0.5f, 0.5f}, {0.5f, 0.5f, nan_value}}}).report();
    BOOST_TEST((report.outcome == Outcome::skipped));
    BOOST_TEST((report.skip_cause == SkipCause::gradient));
    BOOST_TEST((report.scale_change == (window <= 16 ? ScaleChange::backed_off : ScaleChange::at_minimum)));
    BOOST_TEST(report.first_non_finite.tensor == "w.1");
    BOOST_TEST(report.first_non_finite.index == 2);
    if (window == 16) BOOST_TEST(report.next_scale == 1.0f);
  }
  BOOST_TEST((trainer.state() == StepState{{1, 0, 1}, 0, 200, 200, 200, 0, 0}));
  BOOST_TEST(trainer.read_parameter("w.0") == first);
  BOOST_TEST(trainer.read_parameter("w.1") == second);
}

BOOST_AUTO_TEST_CASE(a_gradient_beyond_float16_itself_is_reached_by_a_scale_below_one) {
  ScaledTrainer trainer = scaled_trainer({.minimum_scale = 0x1p-4f});
  const GivenBatch batch{{{100000.0f}}};
  StepReport report = trainer.step(batch).report();
  while (!report.applied()) report = trainer.step(batch).report();
  BOOST_TEST(report.skipped == 17);
  BOOST_TEST(report.attempts == 18);
  BOOST_TEST(report.scale == 0.5f);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-hundred_thousand_in_float16});
}

BOOST_AUTO_TEST_CASE(a_window_in_which_all_is_frozen_teaches_nothing_and_is_no_skip) {
  ScaledTrainer trainer = scaled_trainer({.initial_scale = 1024, .growth_interval = 1}, {1, 1},
                                         {.parameters = {parameters_named("w.*").freeze()}});
  const StepReport report = trainer.step(GivenBatch{{{3.0f}, {infinity}}}).report();
  BOOST_TEST((report.outcome == Outcome::no_gradients));
  BOOST_TEST((trainer.state() == StepState{{1024, 0, 1}, 0, 1, 0, 0, 1, 0}));
  BOOST_TEST(trainer.read_parameter("w.0") == Values{0.0f});
  BOOST_TEST(trainer.read_parameter("w.1") == Values{0.0f});
}

BOOST_AUTO_TEST_CASE(one_gradient_of_two_is_a_normal_update) {
  ScaledTrainer trainer = scaled_trainer({.initial_scale = 1024}, {1, 1});
  BOOST_TEST(trainer.step(GivenBatch{{{}, {3.0f}}}).report().applied());
  BOOST_TEST(trainer.read_parameter("w.0") == Values{0.0f});
  BOOST_TEST(trainer.read_parameter("w.1") == Values{-3.0f});
}

BOOST_AUTO_TEST_CASE(a_smallest_gradient_survives_float16_only_when_it_is_scaled) {
  const GivenBatch batch{{{0x1p-26f}}};
  ScaledTrainer scaled = scaled_trainer({.initial_scale = 128});
  scaled.step(batch);
  BOOST_TEST(scaled.read_parameter("w.0") == Values{-0x1p-26f});
  ScaledTrainer plain = scaled_trainer({.initial_scale = 1});
  plain.step(batch);
  BOOST_TEST(plain.read_parameter("w.0") == Values{0.0f});
}

using WithoutScale = std::tuple<Float32Policy, BFloat16Policy>;

BOOST_AUTO_TEST_CASE_TEMPLATE(where_the_range_is_that_of_float_no_scale_is_needed_but_the_check_is, Policy,
                              WithoutScale) {
  Trainer<GivenGradients, SGD, Policy> trainer{GivenGradients({1, 2}, true), {.learning_rate = 1}};
  for (int window = 1; window <= 3; ++window) {
    const StepReport report = trainer.step(GivenBatch{{{0x1p-26f}, {0.0f, 0.0f}}}).report();
    BOOST_TEST(report.scale == 1.0f);
    BOOST_TEST(report.next_scale == 1.0f);
    BOOST_TEST((report.scale_change == ScaleChange::unchanged));
    BOOST_TEST(trainer.read_parameter("w.0")[0] == -0x1p-26f * static_cast<float>(window));
  }
  const Values before = trainer.read_parameter("w.1");
  const StepReport report = trainer.step(GivenBatch{{{1.0f}, {1.0f, infinity}}}).report();
  BOOST_TEST((report.outcome == Outcome::skipped));
  BOOST_TEST(report.first_non_finite.tensor == "w.1");
  BOOST_TEST(report.first_non_finite.index == 1);
  BOOST_TEST(trainer.read_parameter("w.1") == before);
  BOOST_TEST((trainer.state().scaler == ScalerState{1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(many_micro_batches_add_up_where_a_16_bit_sum_would_stall) {
  const GivenBatch one{{{1.0f}}, 1, 1.0f};
  Trainer<GivenGradients, SGD, BFloat16Policy> in_bfloat16{GivenGradients({1}, true), {.learning_rate = 1}};
  ScaledTrainer in_float16 = scaled_trainer({.initial_scale = 1024});
  for (int micro_batch = 0; micro_batch < 512; ++micro_batch) {
    in_bfloat16.accumulate(one);
    in_float16.accumulate(one);
  }
  BOOST_TEST(in_bfloat16.update().report().gradient_norm == 1.0);
  BOOST_TEST(in_float16.update().report().gradient_norm == 1.0);
  BOOST_TEST(in_bfloat16.read_parameter("w.0") == Values{-1.0f});
  for (int micro_batch = 0; micro_batch < 4096; ++micro_batch) in_float16.accumulate(one);
  const StepReport report = in_float16.update().report();
  BOOST_TEST(report.micro_batches == 4096);
  BOOST_TEST(report.loss == 1.0);
  BOOST_TEST(in_float16.read_parameter("w.0") == Values{-2.0f});
}

BOOST_AUTO_TEST_SUITE_END()
