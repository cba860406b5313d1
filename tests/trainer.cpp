// Windows: what step, accumulate, update and abandon do to weights, counters and report, on gradients that
// the test dictates.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <string>
#include <vector>

#include "support/given_gradients.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(trainer_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using TheTrainer = Trainer<GivenGradients, SGD, ChosenScalerPolicy>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

struct ImpatientPolicy : ChosenScalerPolicy {
  static constexpr std::int64_t stop_after_skips = 3;
};

TheTrainer trainer_of(const std::vector<std::int64_t>& sizes, const SGD& optimizer = {.learning_rate = 1},
                      const DynamicScaler& scaler = {}, TheTrainer::Options options = {}) {
  choose_scaler(scaler);
  return TheTrainer(GivenGradients(sizes), optimizer, std::move(options));
}

using Values = std::vector<float>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_is_a_window_of_one_micro_batch) {
  TheTrainer one = trainer_of({2}), two = trainer_of({2});
  const GivenBatch batch{{{0.3f, -0.7f}}, 3, 1.5f};
  const StepReport step = one.step(batch).report();
  two.accumulate(batch);
  const StepReport update = two.update().report();
  BOOST_TEST(one.read_parameter("w.0") == two.read_parameter("w.0"));
  BOOST_TEST((one.state() == two.state()));
  BOOST_TEST(step.loss == update.loss);
  BOOST_TEST(step.loss == 0.5);
  BOOST_TEST(step.gradient_norm == update.gradient_norm);
}

BOOST_AUTO_TEST_CASE(a_window_is_the_mean_over_all_its_samples) {
  TheTrainer trainer = trainer_of({1});
  trainer.accumulate(GivenBatch{{{-3.0f}}, 3, 1.5f});
  trainer.accumulate(GivenBatch{{{-5.0f}}, 1, 12.5f});
  const StepReport report = trainer.update().report();
  BOOST_TEST(report.loss == 3.5);
  BOOST_TEST(report.gradient_norm == 2.0);
  BOOST_TEST(report.micro_batches == 2);
  BOOST_TEST(report.valid_count == 4);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{2.0f});
}

BOOST_AUTO_TEST_CASE(micro_batches_before_a_step_belong_to_its_window) {
  TheTrainer trainer = trainer_of({1});
  trainer.accumulate(GivenBatch{{{3.0f}}});
  const StepReport report = trainer.step(GivenBatch{{{1.0f}}}).report();
  BOOST_TEST(report.micro_batches == 2);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-2.0f});
}

BOOST_AUTO_TEST_CASE(a_micro_batch_without_a_valid_sample_counts_nothing_whatever_its_loss_says) {
  TheTrainer trainer = trainer_of({1});
  trainer.accumulate(GivenBatch{{{100.0f}}, 0, nan_value});
  trainer.accumulate(GivenBatch{{{3.0f}}, 1, 7.0f});
  trainer.accumulate(GivenBatch{{{infinity}}, 0, infinity});
  const StepReport report = trainer.update().report();
  BOOST_TEST(report.applied());
  BOOST_TEST(report.loss == 7.0);
  BOOST_TEST(report.micro_batches == 3);
  BOOST_TEST(report.valid_count == 1);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-3.0f});
}

BOOST_AUTO_TEST_CASE(a_window_without_any_valid_sample_has_no_gradients_and_no_loss) {
  TheTrainer trainer = trainer_of({1});
  const StepReport report = trainer.step(GivenBatch{{{100.0f}}, 0, 0.0f}).report();
  BOOST_TEST((report.outcome == Outcome::no_gradients));
  BOOST_TEST(is_nan(report.loss));
  BOOST_TEST(report.gradient_norm == 0.0);
  BOOST_TEST(report.attempts == 1);
  BOOST_TEST(report.empty == 1);
  BOOST_TEST(report.update_number == 0);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{0.0f});
}

BOOST_AUTO_TEST_CASE(an_abandoned_window_leaves_no_trace) {
  TheTrainer trainer = trainer_of({2});
  trainer.step(GivenBatch{{{1.0f, 1.0f}}});
  const StepState before = trainer.state();
  trainer.accumulate(GivenBatch{{{infinity, 5.0f}}, 7, nan_value});
  trainer.abandon();
  BOOST_TEST((trainer.state() == before));
  BOOST_TEST(trainer.read_parameter("w.0") == (Values{-1.0f, -1.0f}));
  const StepReport report = trainer.step(GivenBatch{{{0.0f, 2.0f}}, 1, 3.0f}).report();
  BOOST_TEST(report.applied());
  BOOST_TEST(report.loss == 3.0);
  BOOST_TEST(report.gradient_norm == 2.0);
  BOOST_TEST(report.micro_batches == 1);
  BOOST_TEST(report.attempts == 2);
  BOOST_TEST(trainer.read_parameter("w.0") == (Values{-1.0f, -3.0f}));
}

BOOST_AUTO_TEST_CASE(every_window_starts_without_gradients_whatever_became_of_the_last) {
  TheTrainer trainer = trainer_of({1, 1});
  trainer.step(GivenBatch{{{4.0f}, {4.0f}}});
  trainer.step(GivenBatch{{{infinity}, {2.0f}}});
  const StepReport report = trainer.step(GivenBatch{{{1.0f}, {}}}).report();
  BOOST_TEST(report.applied());
  BOOST_TEST(report.gradient_norm == 1.0);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-5.0f});
  BOOST_TEST(trainer.read_parameter("w.1") == Values{-4.0f});
}

BOOST_AUTO_TEST_CASE(an_applied_window_tells_all) {
  TheTrainer trainer = trainer_of({2, 1}, {.learning_rate = exponential(0.5, 0.5)},
                                  {.initial_scale = 1024, .growth_interval = 2}, {.clip_norm = 2.5f});
  trainer.step(GivenBatch{{{0.0f, 0.0f}, {0.0f}}});
  trainer.accumulate(GivenBatch{{{3.0f, 0.0f}, {4.0f}}, 1, 2.0f});
  trainer.accumulate(GivenBatch{{{3.0f, 0.0f}, {4.0f}}, 1, 4.0f});
  const StepReport report = trainer.update().report();
  BOOST_TEST((report.outcome == Outcome::applied));
  BOOST_TEST((report.skip_cause == SkipCause::none));
  BOOST_TEST(report.loss == 3.0);
  BOOST_TEST(report.gradient_norm == 5.0);
  BOOST_TEST(report.clip_coefficient == static_cast<float>(2.5 / (5.0 + 1e-6)));
  BOOST_TEST(report.scale == 1024.0f);
  BOOST_TEST(report.next_scale == 2048.0f);
  BOOST_TEST((report.scale_change == ScaleChange::grown));
  BOOST_TEST(report.learning_rate == 0.25f);
  BOOST_TEST(report.update_number == 2);
  BOOST_TEST(report.attempts == 2);
  BOOST_TEST(report.skipped == 0);
  BOOST_TEST(report.skipped_in_a_row == 0);
  BOOST_TEST(report.empty == 0);
  BOOST_TEST(report.schedule_position == 2);
  BOOST_TEST(report.micro_batches == 2);
  BOOST_TEST(report.valid_count == 2);
  BOOST_TEST(report.first_non_finite.tensor == "");
  BOOST_TEST(report.first_non_finite.index == -1);
  BOOST_TEST(trainer.read_parameter("w.1")[0] == -0.25f * (4.0f * report.clip_coefficient));
}

BOOST_AUTO_TEST_CASE(a_window_skipped_for_a_gradient_tells_all) {
  TheTrainer trainer = trainer_of({2, 3}, {.learning_rate = exponential(0.5, 0.5)},
                                  {.initial_scale = 1024, .growth_interval = 2}, {.clip_norm = 2.5f});
  trainer.step(GivenBatch{{{0.0f, 0.0f}, {0.0f, 0.0f, 0.0f}}});
  trainer.step(GivenBatch{});
  const StepReport report =
      trainer.step(GivenBatch{{{3.0f, 4.0f}, {1.0f, -infinity, nan_value}}, 2, 5.0f}).report();
  BOOST_TEST((report.outcome == Outcome::skipped));
  BOOST_TEST((report.skip_cause == SkipCause::gradient));
  BOOST_TEST(report.loss == 2.5);
  BOOST_TEST(!is_finite(report.gradient_norm));
  BOOST_TEST(report.clip_coefficient == 1.0f);
  BOOST_TEST(report.scale == 1024.0f);
  BOOST_TEST(report.next_scale == 512.0f);
  BOOST_TEST((report.scale_change == ScaleChange::backed_off));
  BOOST_TEST(report.learning_rate == 0.25f);
  BOOST_TEST(report.update_number == 1);
  BOOST_TEST(report.attempts == 3);
  BOOST_TEST(report.skipped == 1);
  BOOST_TEST(report.skipped_in_a_row == 1);
  BOOST_TEST(report.empty == 1);
  BOOST_TEST(report.schedule_position == 1);
  BOOST_TEST(report.first_non_finite.tensor == "w.1");
  BOOST_TEST(report.first_non_finite.index == 1);
  BOOST_TEST(trainer.read_parameter("w.0") == (Values{0.0f, 0.0f}));
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_is_told_apart_from_a_gradient_and_leaves_the_scale) {
  TheTrainer trainer = trainer_of({1}, {.learning_rate = 1}, {.initial_scale = 1024, .growth_interval = 2});
  trainer.step(GivenBatch{{{1.0f}}});
  const StepReport report = trainer.step(GivenBatch{{{1.0f}}, 1, nan_value}).report();
  BOOST_TEST((report.outcome == Outcome::skipped));
  BOOST_TEST((report.skip_cause == SkipCause::loss));
  BOOST_TEST(report.next_scale == 1024.0f);
  BOOST_TEST((report.scale_change == ScaleChange::unchanged));
  BOOST_TEST(report.first_non_finite.tensor == "");
  BOOST_TEST(trainer.state().scaler.growth_tracker == 1);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-1.0f});
}

BOOST_AUTO_TEST_CASE(the_state_between_windows_is_what_the_last_report_left) {
  TheTrainer trainer = trainer_of({1}, {.learning_rate = 1}, {.initial_scale = 8, .growth_interval = 3});
  BOOST_TEST((trainer.state() == StepState{{8, 0, 1}, 0, 0, 0, 0, 0, 0}));
  trainer.step(GivenBatch{{{1.0f}}});
  BOOST_TEST((trainer.state() == StepState{{8, 1, 1}, 1, 1, 0, 0, 0, 1}));
  trainer.step(GivenBatch{});
  BOOST_TEST((trainer.state() == StepState{{8, 1, 1}, 1, 2, 0, 0, 1, 1}));
  trainer.step(GivenBatch{{{infinity}}});
  BOOST_TEST((trainer.state() == StepState{{4, 0, 1}, 1, 3, 1, 1, 1, 1}));
  trainer.accumulate(GivenBatch{{{infinity}}});
  BOOST_TEST((trainer.state() == StepState{{4, 0, 1}, 1, 3, 1, 1, 1, 1}));
  trainer.abandon();
  trainer.step(GivenBatch{{{1.0f}}});
  BOOST_TEST((trainer.state() == StepState{{4, 1, 1}, 2, 4, 1, 0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(skipped_windows_change_no_bit_of_weights_and_momentum) {
  const SGD optimizer{
      .learning_rate = exponential(0.3, 0.9), .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01};
  TheTrainer smooth = trainer_of({3}, optimizer), rough = trainer_of({3}, optimizer);
  const Values first{0.3f, -0.7f, 1e-6f};
  smooth.write_parameter("w.0", first);
  rough.write_parameter("w.0", first);
  for (int window = 0; window < 5; ++window) {
    const float g = 0.1f * static_cast<float>(window + 1);
    const GivenBatch good{{{g, -g, 3.3f * g}}};
    smooth.step(good);
    rough.step(GivenBatch{{{g, nan_value, g}}});
    rough.step(good);
    rough.step(GivenBatch{{{5.0f, 5.0f, 5.0f}}, 1, infinity});
    rough.step(GivenBatch{});
    BOOST_TEST(smooth.read_parameter("w.0") == rough.read_parameter("w.0"));
  }
  BOOST_TEST(rough.state().update_number == 5);
  BOOST_TEST(rough.state().skipped == 10);
  BOOST_TEST(rough.state().empty == 5);
}

BOOST_AUTO_TEST_CASE(clipping_by_the_options_is_by_norm_then_by_value) {
  TheTrainer by_norm = trainer_of({2}, {.learning_rate = 1}, {}, {.clip_norm = 1.0f});
  const StepReport report = by_norm.step(GivenBatch{{{3.0f, 4.0f}}}).report();
  const float coefficient = static_cast<float>(1.0 / (5.0 + 1e-6));
  BOOST_TEST(report.clip_coefficient == coefficient);
  BOOST_TEST(by_norm.read_parameter("w.0") == (Values{-3.0f * coefficient, -4.0f * coefficient}));

  TheTrainer by_value = trainer_of({2}, {.learning_rate = 1}, {}, {.clip_value = 0.5f});
  by_value.step(GivenBatch{{{-3.0f, 0.25f}}});
  BOOST_TEST(by_value.read_parameter("w.0") == (Values{0.5f, -0.25f}));

  TheTrainer by_both = trainer_of({2}, {.learning_rate = 1}, {}, {.clip_norm = 1.0f, .clip_value = 0.7f});
  by_both.step(GivenBatch{{{3.0f, 4.0f}}});
  BOOST_TEST(by_both.read_parameter("w.0") == (Values{-3.0f * coefficient, -0.7f}));
}

BOOST_AUTO_TEST_CASE(training_stops_after_as_many_skips_in_a_row_as_the_policy_allows_and_can_go_on) {
  choose_scaler({.minimum_scale = 32768});
  Trainer<GivenGradients, SGD, ImpatientPolicy> trainer{GivenGradients({1, 2}), {.learning_rate = 1}};
  const GivenBatch bad{{{0.0f}, {0.0f, nan_value}}}, good{{{1.0f}, {1.0f, 1.0f}}};
  trainer.step(bad);
  trainer.step(bad);
  trainer.step(good);  // breaks the row
  trainer.step(bad);
  trainer.step(GivenBatch{});  // neither breaks it nor adds to it
  trainer.step(bad);
  const Values before = trainer.read_parameter("w.1");
  trainer.accumulate(bad);
  try {
    trainer.update();
    BOOST_ERROR("went on");
  } catch (const TrainingStopped& stopped) {
    check_holds(stopped.what(), {"3 windows in a row", "\"w.1\"[1]", "32768", "the smallest allowed"});
    BOOST_TEST((stopped.report.outcome == Outcome::skipped));
    BOOST_TEST((stopped.report.scale_change == ScaleChange::at_minimum));
    BOOST_TEST(stopped.report.skipped_in_a_row == 3);
    BOOST_TEST(stopped.report.skipped == 5);
    BOOST_TEST(stopped.report.attempts == 7);
    BOOST_TEST(stopped.report.first_non_finite.tensor == "w.1");
    BOOST_TEST(stopped.report.first_non_finite.index == 1);
  }
  BOOST_TEST(trainer.read_parameter("w.1") == before);
  BOOST_TEST(trainer.state().attempts == 7);
  // The window is over; the next begins as any other.
  const StepReport report = trainer.step(good).report();
  BOOST_TEST(report.applied());
  BOOST_TEST(report.skipped_in_a_row == 0);
  BOOST_TEST(report.micro_batches == 1);

  trainer.step(bad);
  trainer.step(bad);
  try {
    trainer.step(GivenBatch{{{0.0f}, {0.0f, 0.0f}}, 1, infinity});
    BOOST_ERROR("went on");
  } catch (const TrainingStopped& stopped) {
    BOOST_TEST((stopped.report.skip_cause == SkipCause::loss));
    check_holds(stopped.what(), {"the loss is not finite"});
  }
}

BOOST_AUTO_TEST_CASE(a_trainer_that_moved_goes_on_with_its_open_window) {
  TheTrainer first = trainer_of({1});
  first.step(GivenBatch{{{1.0f}}});
  first.accumulate(GivenBatch{{{2.0f}}});
  TheTrainer second = std::move(first);
  second.update();
  BOOST_TEST(second.read_parameter("w.0") == Values{-3.0f});
  TheTrainer third = trainer_of({5});
  third = std::move(second);
  third.step(GivenBatch{{{1.0f}}});
  BOOST_TEST(third.read_parameter("w.0") == Values{-4.0f});
  BOOST_TEST(third.state().update_number == 3);
}

BOOST_AUTO_TEST_SUITE_END()
