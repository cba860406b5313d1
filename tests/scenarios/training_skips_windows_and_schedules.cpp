// What a skip does to schedule and Adam, and what a window is divided by: with a trainer.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/optim/adam.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <vector>

#include "support/given_gradients.hpp"

BOOST_AUTO_TEST_SUITE(training_skips_windows_and_schedules_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Values = std::vector<float>;

constexpr float infinity = std::numeric_limits<float>::infinity();

// Floats near 1 are 6e-8 apart; a root, two quotients and a product lie between a gradient and its step.
constexpr float few_units_at_one = 2.5e-7f;

/// lr(k) = 1 - k slope.
struct Falling {
  float slope = 0;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t position) const {
    return 1 - slope * static_cast<float>(position);
  }
};

using Descent = BasicSGD<Falling>;

struct AdvancingPolicy : Float16ScaledPolicy {
  using on_skip = AdvanceSchedule;
};

template <class Policy>
void check_four_windows(float weight, const std::vector<float>& rates, std::int64_t positions) {
  Trainer<GivenGradients, Descent, Policy> trainer{GivenGradients({1}), {.learning_rate = {0.1f}}};
  std::vector<float> used;
  for (const float g : {infinity, infinity, 1.0f, 1.0f}) {
    const StepReport report = trainer.step(GivenBatch{{{g}}}).report();
    if (report.applied()) used.push_back(report.learning_rate);
  }
  BOOST_TEST(used == rates);
  BOOST_TEST(trainer.read_parameter("w.0") == Values{weight});
  BOOST_TEST((trainer.state() == StepState{{16384, 2, 1}, 2, 4, 2, 0, 0, positions}));
}

struct Epochs {
  Values weights;
  std::vector<std::int64_t> micro_batches;
  std::vector<double> norms;
  StepState state;
};

/// Micro-batches whose gradient is 1, four to a window, and fewer where the epoch ends.
Epochs train_on_windows_of_four(int micro_batches, int epochs) {
  Trainer<GivenGradients, Descent, Float16ScaledPolicy> trainer{GivenGradients({1})};
  Epochs result;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int i = 1; i <= micro_batches; ++i) {
      trainer.accumulate(GivenBatch{{{2.0f}}, 2, 2.0f});
      if (i % 4 != 0 && i != micro_batches) continue;
      const StepReport report = trainer.update().report();
      result.micro_batches.push_back(report.micro_batches);
      result.norms.push_back(report.gradient_norm);
    }
  }
  result.weights = trainer.read_parameter("w.0");
  result.state = trainer.state();
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_schedule_that_is_held_gives_its_first_rates_to_the_first_updates) {
  check_four_windows<Float16ScaledPolicy>(-1.9f, {1.0f, 0.9f}, 2);
}

BOOST_AUTO_TEST_CASE(a_schedule_that_advances_gives_the_rates_of_skipped_windows_away) {
  check_four_windows<AdvancingPolicy>(-1.5f, {0.8f, 0.7f}, 4);
}

using AdamTrainer = Trainer<GivenGradients, Adam, Float16ScaledPolicy>;

BOOST_AUTO_TEST_CASE(adams_count_of_updates_and_its_moments_do_not_move_on_a_skip) {
  AdamTrainer trainer{GivenGradients({1}), {.learning_rate = 1}};
  for (int window = 1; window <= 3; ++window) {
    const StepReport report = trainer.step(GivenBatch{{{infinity}}}).report();
    BOOST_TEST((report.outcome == Outcome::skipped));
    BOOST_TEST(report.skipped == window);
    BOOST_TEST(report.update_number == 0);
  }
  BOOST_TEST(trainer.step(GivenBatch{{{1.0f}}}).report().schedule_position == 1);
  BOOST_TEST(std::abs(trainer.read_parameter("w.0")[0] + 0.99999999f) <= few_units_at_one);
}

BOOST_AUTO_TEST_CASE(adam_on_zero_gradients_keeps_every_bit_of_weights_and_moments) {
  AdamTrainer trainer{GivenGradients({3}), {.learning_rate = exponential(1e-3, 10)}};
  const Values weights{1.0f, -2.0f, 0.5f};
  trainer.write_parameter("w.0", weights);
  for (int window = 0; window < 3; ++window) {
    BOOST_TEST(trainer.step(GivenBatch{{{0.0f, 0.0f, 0.0f}}}).report().applied());
    BOOST_TEST(trainer.read_parameter("w.0") == weights);
  }
  // The fourth update, at rate 1, on moments of zero.
  trainer.step(GivenBatch{{{1.0f, 1.0f, 1.0f}}});
  for (std::size_t i = 0; i < 3; ++i) {
    const float step = weights[i] - trainer.read_parameter("w.0")[i];
    BOOST_TEST(std::abs(step - 0.581128351f) <= 2 * few_units_at_one);  // beside a weight of up to 2
  }
}

BOOST_AUTO_TEST_CASE(adams_epsilon_and_second_moment_live_in_float) {
  AdamTrainer trainer{GivenGradients({1}), {.learning_rate = 1}};
  trainer.step(GivenBatch{{{1e-4f}}});
  BOOST_TEST(std::abs(trainer.read_parameter("w.0")[0] + 0.99990001f) <= few_units_at_one);
}

BOOST_AUTO_TEST_CASE(tokens_count_alike_whatever_micro_batch_they_came_in) {
  // y = w x with w = 0, x = 1 and half the squared error of each token: three whose target is 1, and one of 5.
  const GivenBatch three{{{-3.0f}}, 3, 1.5f}, one{{{-5.0f}}, 1, 12.5f}, all{{{-8.0f}}, 4, 14.0f};
  using TheTrainer = Trainer<GivenGradients, Descent, Float16ScaledPolicy>;
  TheTrainer whole{GivenGradients({1})}, parts{GivenGradients({1})}, reversed{GivenGradients({1})};
  const StepReport expected = whole.step(all).report();
  parts.accumulate(three);
  parts.accumulate(one);
  reversed.accumulate(one);
  reversed.accumulate(three);
  for (const StepReport& report : {expected, parts.update().report(), reversed.update().report()}) {
    BOOST_TEST(report.loss == 3.5);
    BOOST_TEST(report.gradient_norm == 2.0);
    BOOST_TEST(report.valid_count == 4);
  }
  BOOST_TEST(whole.read_parameter("w.0") == Values{2.0f});
  BOOST_TEST(parts.read_parameter("w.0") == Values{2.0f});
  BOOST_TEST(reversed.read_parameter("w.0") == Values{2.0f});
}

BOOST_AUTO_TEST_CASE(a_short_last_window_is_divided_by_what_it_holds_and_leaks_nothing_into_the_next_epoch) {
  const Epochs run = train_on_windows_of_four(10, 2);
  BOOST_TEST(run.micro_batches == (std::vector<std::int64_t>{4, 4, 2, 4, 4, 2}));
  BOOST_TEST(run.norms == (std::vector<double>(6, 1.0)));
  BOOST_TEST(run.weights == Values{-6.0f});
  BOOST_TEST(run.state.schedule_position == 6);
  BOOST_TEST(train_on_windows_of_four(10, 1).weights == Values{-3.0f});
}

BOOST_AUTO_TEST_CASE(an_epoch_shorter_than_a_window_is_a_window) {
  const Epochs run = train_on_windows_of_four(3, 2);
  BOOST_TEST(run.micro_batches == (std::vector<std::int64_t>{3, 3}));
  BOOST_TEST(run.state.update_number == 2);
  BOOST_TEST(run.weights == Values{-2.0f});
}

BOOST_AUTO_TEST_SUITE_END()
