#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/numeric/float16.hpp>
#include <halfstep/optim/sgd.hpp>
#include <limits>
#include <scenarios/pure_loop.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(scale_at_its_limits_tests)

using namespace halfstep;

namespace {

using Loop = PureLoop<SGD, DynamicScaler>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
const SGD descent{.learning_rate = 1};

// At a scale of 0.5 the gradient of 100000 is held as 50000, whose nearest float16 is 49984.
constexpr float hundred_thousand_in_float16 = 99968.0f;

float through_float16(float value) { return static_cast<float>(float16(value)); }

}  // namespace

BOOST_AUTO_TEST_CASE(growth_stops_at_the_largest_finite_scale_and_an_overflow_still_halves_it) {
  Loop loop{descent, {.initial_scale = 0x1p126f, .growth_interval = 1}, {0.0f}};
  loop.window_of_true({0.0f});
  BOOST_TEST(loop.scale() == 0x1p127f);
  for (int window = 2; window <= 5; ++window) {
    BOOST_TEST((loop.window_of_true({0.0f}).scale_change == ScaleChange::at_maximum));
    BOOST_TEST(loop.weights[0] == 0.0f);
  }
  BOOST_TEST(loop.scale() == 0x1p127f);
  loop.window({infinity});
  BOOST_TEST(loop.scale() == 0x1p126f);
  BOOST_TEST(loop.state.skipped == 1);
  BOOST_TEST(loop.weights[0] == 0.0f);
}

BOOST_AUTO_TEST_CASE(growth_by_ten_ends_at_the_last_product_that_is_finite) {
  Loop loop{descent, {.growth_factor = 10, .growth_interval = 1}, {0.0f}};
  int growths = 0;
  for (int window = 0; window < 70; ++window) {
    growths += loop.window_of_true({0.0f}).scale_change == ScaleChange::grown ? 1 : 0;
  }
  BOOST_TEST(growths == 33);
  BOOST_TEST(loop.scale() == 6.55360047e37f);
}

BOOST_AUTO_TEST_CASE(a_configured_maximum_is_met_exactly) {
  Loop loop{descent, {.growth_factor = 10, .growth_interval = 1, .maximum_scale = 0x1p24f}, {0.0f}};
  for (int window = 0; window < 70; ++window) loop.window_of_true({0.0f});
  BOOST_TEST(loop.scale() == 0x1p24f);
}

BOOST_AUTO_TEST_CASE(gradients_that_no_scale_can_cure_stop_the_scale_at_its_floor_and_say_so) {
  Loop loop{descent, {.minimum_scale = 1}, {0.25f, 0.5f}};
  for (int window = 1; window <= 200; ++window) {
    const StepDecision decision = loop.window({1.0f, nan_value});
    BOOST_TEST((decision.outcome == Outcome::skipped));
    BOOST_TEST((decision.scale_change == (window <= 16 ? ScaleChange::backed_off : ScaleChange::at_minimum)));
    if (window == 16) BOOST_TEST(loop.scale() == 1.0f);
  }
  BOOST_TEST(loop.scale() == 1.0f);
  BOOST_TEST(loop.state.skipped == 200);
  BOOST_TEST(loop.state.skipped_in_a_row == 200);
  BOOST_TEST(loop.state.update_number == 0);
  BOOST_TEST(loop.weights == (std::vector<float>{0.25f, 0.5f}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_gradient_beyond_float16_itself_is_reached_by_a_scale_below_one) {
  Loop loop{descent, {.minimum_scale = 0x1p-4f}, {0.0f}};
  int skips = 0;
  while (loop.window({through_float16(100000.0f * loop.scale())}).outcome == Outcome::skipped) ++skips;
  BOOST_TEST(skips == 17);
  BOOST_TEST(loop.state.attempts == 18);
  BOOST_TEST(loop.scale() == 0.5f);
  BOOST_TEST(loop.weights[0] == -hundred_thousand_in_float16);
}

BOOST_AUTO_TEST_CASE(the_default_options_reach_it_too) {
  Loop loop{descent, {}, {0.0f}};
  while (loop.window({through_float16(100000.0f * loop.scale())}).outcome == Outcome::skipped) {
  }
  BOOST_TEST(loop.weights[0] == -hundred_thousand_in_float16);
}

BOOST_AUTO_TEST_CASE(a_smallest_gradient_survives_float16_only_when_it_is_scaled) {
  const float gradient = 0x1p-26f;
  PureLoop<SGD, StaticScaler> scaled{descent, {.scale = 128}, {0.0f}};
  scaled.window({through_float16(gradient * 128)});
  BOOST_TEST(scaled.weights[0] == -gradient);
  PureLoop<SGD, NoScaler> plain{descent, {}, {0.0f}};
  plain.window({through_float16(gradient)});
  BOOST_TEST(plain.weights[0] == 0.0f);
  BOOST_TEST((plain.window({infinity}).outcome == Outcome::skipped));
  BOOST_TEST((plain.state.scaler == ScalerState{1, 0, 1}));
}

BOOST_AUTO_TEST_CASE(a_copy_of_the_state_goes_on_as_the_run_would_have) {
  Loop run{descent, {.initial_scale = 1024, .growth_interval = 4}, {0.0f}};
  for (int window = 0; window < 3; ++window) run.window_of_true({0.5f});
  Loop resumed{descent, {.initial_scale = 65536, .growth_interval = 4}, run.weights};
  resumed.state = run.state;
  resumed.window_of_true({0.5f});
  run.window_of_true({0.5f});
  BOOST_TEST(resumed.scale() == 2048.0f);
  BOOST_TEST(resumed.state.scaler.growth_tracker == 0);
  BOOST_TEST((resumed.state == run.state));
  BOOST_TEST(resumed.weights[0] == run.weights[0]);
}

BOOST_AUTO_TEST_CASE(hysteresis_left_is_part_of_the_state) {
  const DynamicScaler scaler{.initial_scale = 1024, .hysteresis = 3};
  Loop run{descent, scaler, {0.0f}};
  run.window({infinity});
  BOOST_TEST(run.state.scaler.hysteresis_left == 2);
  Loop resumed{descent, scaler, {0.0f}};
  resumed.state = run.state;
  BOOST_TEST((resumed.window({infinity}).scale_change == ScaleChange::held_by_hysteresis));
  BOOST_TEST(resumed.scale() == 1024.0f);
  BOOST_TEST((resumed.window({infinity}).scale_change == ScaleChange::backed_off));
  BOOST_TEST(resumed.scale() == 512.0f);
  BOOST_TEST(resumed.state.skipped == 3);
  BOOST_TEST(resumed.state.attempts == 3);
  BOOST_TEST(resumed.state.update_number == 0);
}

BOOST_AUTO_TEST_SUITE_END()
