#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/optim/adam.hpp>
#include <halfstep/optim/sgd.hpp>
#include <limits>
#include <scenarios/pure_loop.hpp>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(skips_and_schedules_tests)

using namespace halfstep;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Floats near 1 are 6e-8 apart; a root, two quotients and a product lie between a gradient and its step.
constexpr float few_units_at_one = 2.5e-7f;

struct FallingByTenths {
  float operator()(std::int64_t position) const { return 1 - static_cast<float>(position) / 10; }
};

template <class OnSkip>
auto two_overflows_then_two_updates() {
  PureLoop<BasicSGD<FallingByTenths>, DynamicScaler, OnSkip> loop{{.learning_rate = {}}, {}, {0.0f}};
  std::vector<float> rates;
  for (const bool overflow : {true, true, false, false}) {
    const StepDecision decision = overflow ? loop.window({infinity}) : loop.window_of_true({1.0f});
    if (decision.outcome == Outcome::applied) rates.push_back(decision.learning_rate);
  }
  BOOST_TEST(loop.state.attempts == 4);
  BOOST_TEST(loop.state.skipped == 2);
  BOOST_TEST(loop.state.skipped_in_a_row == 0);
  BOOST_TEST(loop.state.update_number == 2);
  return std::pair{loop, rates};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_schedule_that_is_held_gives_its_first_rates_to_the_first_updates) {
  const auto [loop, rates] = two_overflows_then_two_updates<HoldSchedule>();
  BOOST_TEST(rates == (std::vector<float>{1.0f, 0.9f}), boost::test_tools::per_element());
  BOOST_TEST(loop.weights[0] == -1.9f);
  BOOST_TEST(loop.state.schedule_position == 2);
}

BOOST_AUTO_TEST_CASE(a_schedule_that_advances_gives_the_rates_of_skipped_windows_away) {
  const auto [loop, rates] = two_overflows_then_two_updates<AdvanceSchedule>();
  BOOST_TEST(rates == (std::vector<float>{0.8f, 0.7f}), boost::test_tools::per_element());
  BOOST_TEST(loop.weights[0] == -1.5f);
  BOOST_TEST(loop.state.schedule_position == 4);
}

BOOST_AUTO_TEST_CASE(adams_count_of_updates_and_its_moments_do_not_move_on_a_skip) {
  PureLoop<Adam, DynamicScaler> loop{{.learning_rate = 1}, {}, {0.0f}};
  for (int window = 0; window < 3; ++window) {
    BOOST_TEST((loop.window({infinity}).outcome == Outcome::skipped));
    BOOST_TEST(loop.weights[0] == 0.0f);
    BOOST_TEST(loop.first_moments[0] == 0.0f);
    BOOST_TEST(loop.second_moments[0] == 0.0f);
    BOOST_TEST(loop.state.update_number == 0);
  }
  loop.window_of_true({1.0f});
  BOOST_TEST(std::abs(loop.weights[0] + 0.99999999f) <= few_units_at_one);
  BOOST_TEST(loop.state.update_number == 1);
  BOOST_TEST(loop.state.schedule_position == 1);
  BOOST_TEST(loop.state.skipped == 3);
}

BOOST_AUTO_TEST_CASE(a_window_without_gradients_teaches_nothing_and_is_no_skip) {
  PureLoop<SGD, DynamicScaler> loop{
      {.learning_rate = 1}, {.initial_scale = 1024, .growth_interval = 1}, {0.5f, 0.5f}};
  const StepDecision decision = loop.window({});
  BOOST_TEST((decision.outcome == Outcome::no_gradients));
  BOOST_TEST(loop.scale() == 1024.0f);
  BOOST_TEST(loop.state.scaler.growth_tracker == 0);
  BOOST_TEST(loop.state.schedule_position == 0);
  BOOST_TEST(loop.state.update_number == 0);
  BOOST_TEST(loop.state.skipped == 0);
  BOOST_TEST(loop.state.empty == 1);
  BOOST_TEST(loop.state.attempts == 1);
  BOOST_TEST(loop.weights == (std::vector<float>{0.5f, 0.5f}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_skips_and_leaves_the_scaler_alone) {
  PureLoop<SGD, DynamicScaler> loop{
      {.learning_rate = 1}, {.initial_scale = 1024, .growth_interval = 3}, {0.5f}};
  loop.window_of_true({0.0f});
  const StepDecision decision = loop.window({infinity}, false);
  BOOST_TEST((decision.outcome == Outcome::skipped));
  BOOST_TEST((decision.skip_cause == SkipCause::loss));
  BOOST_TEST((loop.state.scaler == ScalerState{1024, 1, 1}));
  BOOST_TEST(loop.weights[0] == 0.5f);
}

BOOST_AUTO_TEST_SUITE_END()
