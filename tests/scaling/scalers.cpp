#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/scaling/scalers.hpp>
#include <limits>
#include <random>
#include <string>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(scalers_tests)

using namespace halfstep;
using test::check_is;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

constexpr ScalerStep applied(const DynamicScaler& scaler, const ScalerState& state) {
  return scaler.after(state, Outcome::applied, SkipCause::none);
}
constexpr ScalerStep overflowed(const DynamicScaler& scaler, const ScalerState& state) {
  return scaler.after(state, Outcome::skipped, SkipCause::gradient);
}

struct SomePolicy {
  static constexpr DynamicScaler scaler{.initial_scale = 1024, .growth_interval = 500, .hysteresis = 2};
};

static_assert(Scaler<NoScaler> && Scaler<StaticScaler> && Scaler<DynamicScaler> && !Scaler<float>);
static_assert(is_valid(NoScaler{}) && is_valid(StaticScaler{}) && is_valid(DynamicScaler{}));
static_assert(is_valid(SomePolicy::scaler));
static_assert(initial_state(SomePolicy::scaler) == ScalerState{1024, 0, 2});
static_assert(initial_state(NoScaler{}) == ScalerState{1, 0, 1});
static_assert(initial_state(StaticScaler{.scale = 128}) == ScalerState{128, 0, 1});

// A policy's constant with a fault in it is refused when it is compiled.
static_assert(!is_valid(DynamicScaler{.growth_factor = 1}));
static_assert(!is_valid(DynamicScaler{.backoff_factor = 1}));
static_assert(!is_valid(DynamicScaler{.minimum_scale = 4, .maximum_scale = 2}));
static_assert(!is_valid(DynamicScaler{.minimum_scale = nan_value}));
static_assert(!is_valid(StaticScaler{.scale = infinity}));

// Growth at the interval, not before it; the tracker starts again.
constexpr DynamicScaler every_second{.initial_scale = 1024, .growth_interval = 2};
static_assert(applied(every_second, {1024, 0, 1}).next == ScalerState{1024, 1, 1});
static_assert(applied(every_second, {1024, 0, 1}).change == ScaleChange::unchanged);
static_assert(applied(every_second, {1024, 1, 1}).next == ScalerState{2048, 0, 1});
static_assert(applied(every_second, {1024, 1, 1}).change == ScaleChange::grown);
// An interval that was shortened since the state was saved does not pass the tracker by.
static_assert(applied(every_second, {1024, 7, 1}).next == ScalerState{2048, 0, 1});

// Backoff, and the tracker starts again.
static_assert(overflowed(every_second, {1024, 1, 1}).next == ScalerState{512, 0, 1});
static_assert(overflowed(every_second, {1024, 1, 1}).change == ScaleChange::backed_off);

// A product that is not finite leaves the scale, and says so.
static_assert(applied(every_second, {0x1p127f, 1, 1}).next == ScalerState{0x1p127f, 0, 1});
static_assert(applied(every_second, {0x1p127f, 1, 1}).change == ScaleChange::at_maximum);

// The bounds are met exactly, from within.
constexpr DynamicScaler bounded{
    .initial_scale = 4, .growth_interval = 1, .minimum_scale = 3, .maximum_scale = 5};
static_assert(applied(bounded, {4, 0, 1}).next.scale == 5 &&
              applied(bounded, {4, 0, 1}).change == ScaleChange::grown);
static_assert(applied(bounded, {5, 0, 1}).next.scale == 5);
static_assert(applied(bounded, {5, 0, 1}).change == ScaleChange::at_maximum);
static_assert(overflowed(bounded, {4, 0, 1}).next.scale == 3);
static_assert(overflowed(bounded, {4, 0, 1}).change == ScaleChange::backed_off);
static_assert(overflowed(bounded, {3, 0, 1}).next.scale == 3);
static_assert(overflowed(bounded, {3, 0, 1}).change == ScaleChange::at_minimum);
// A scale saved under other bounds is neither raised by an overflow nor lowered by a clean interval.
static_assert(overflowed(bounded, {2, 0, 1}).next.scale == 2);
static_assert(overflowed(bounded, {2, 0, 1}).change == ScaleChange::at_minimum);
static_assert(applied(bounded, {8, 0, 1}).next.scale == 8);
static_assert(applied(bounded, {8, 0, 1}).change == ScaleChange::at_maximum);

// What teaches nothing about the scale changes nothing.
static_assert(every_second.after({64, 1, 1}, Outcome::no_gradients, SkipCause::none).next ==
              ScalerState{64, 1, 1});
static_assert(every_second.after({64, 1, 1}, Outcome::skipped, SkipCause::loss).next ==
              ScalerState{64, 1, 1});
static_assert(every_second.after({64, 1, 1}, Outcome::skipped, SkipCause::loss).change ==
              ScaleChange::unchanged);
static_assert(StaticScaler{}.after({9, 0, 1}, Outcome::skipped, SkipCause::gradient).next ==
              ScalerState{9, 0, 1});
static_assert(NoScaler{}.after({}, Outcome::skipped, SkipCause::gradient).next == ScalerState{});

/// PyTorch's amp_update_scale, said again.
void pytorch_update(float& scale, int& tracker, bool found_inf, double growth, double backoff, int interval) {
  if (found_inf) {
    scale = static_cast<float>(scale * backoff);
    tracker = 0;
    return;
  }
  const int successful = tracker + 1;
  if (successful == interval) {
    const float product = static_cast<float>(scale * growth);
    if (std::isfinite(product)) scale = product;
    tracker = 0;
  } else {
    tracker = successful;
  }
}

template <class S>
std::string refusal(const S& scaler) {
  BOOST_TEST(!is_valid(scaler));
  try {
    validate(scaler);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_scale_takes_the_path_of_pytorchs_grad_scaler) {
  std::mt19937 random(1);
  const double growths[] = {2, 1.1, 1.5, 10, 3};
  const double backoffs[] = {0.5, 0.3, 0.9, 0.25};
  for (int run = 0; run < 3000; ++run) {
    const double growth = growths[random() % 5], backoff = backoffs[random() % 4];
    const int interval = 1 + static_cast<int>(random() % 4);
    const unsigned overflows_in_16 = static_cast<unsigned>(random() % 9);
    DynamicScaler scaler;
    scaler.growth_factor = growth;
    scaler.backoff_factor = backoff;
    scaler.growth_interval = interval;
    scaler.minimum_scale = smallest_loss_scale;
    ScalerState state = initial_state(scaler);
    float scale = 65536;
    int tracker = 0;
    for (int window = 0; window < 200; ++window) {
      // PyTorch has no lowest scale: stay where both have room to fall.
      const bool bad = random() % 16 < overflows_in_16 && scale > 0x1p-50f;
      pytorch_update(scale, tracker, bad, growth, backoff, interval);
      state = (bad ? overflowed(scaler, state) : applied(scaler, state)).next;
      BOOST_REQUIRE_EQUAL(state.scale, scale);
      BOOST_REQUIRE_EQUAL(state.growth_tracker, tracker);
    }
  }
}

BOOST_AUTO_TEST_CASE(hysteresis_is_used_up_across_windows_and_filled_up_by_a_full_interval) {
  const DynamicScaler scaler{.initial_scale = 1024, .growth_interval = 2, .hysteresis = 3};
  ScalerState state = initial_state(scaler);
  const auto bad = [&] {
    const ScalerStep step = overflowed(scaler, state);
    state = step.next;
    return step.change;
  };
  const auto good = [&] {
    const ScalerStep step = applied(scaler, state);
    state = step.next;
    return step.change;
  };
  BOOST_TEST((bad() == ScaleChange::held_by_hysteresis));
  BOOST_TEST((good() == ScaleChange::unchanged));  // less than an interval: nothing is filled up
  BOOST_TEST((bad() == ScaleChange::held_by_hysteresis));
  BOOST_TEST((bad() == ScaleChange::backed_off));
  BOOST_TEST((bad() == ScaleChange::backed_off));  // still used up
  BOOST_TEST(state.scale == 256);
  BOOST_TEST((good() == ScaleChange::unchanged));
  BOOST_TEST((good() == ScaleChange::grown));
  BOOST_TEST((state == ScalerState{512, 0, 3}));
  BOOST_TEST((bad() == ScaleChange::held_by_hysteresis));
}

BOOST_AUTO_TEST_CASE(hysteresis_is_filled_up_at_the_maximum_too) {
  const DynamicScaler scaler{.initial_scale = 4, .growth_interval = 1, .hysteresis = 2, .maximum_scale = 4};
  const ScalerStep step = applied(scaler, {4, 0, 1});
  BOOST_TEST((step.change == ScaleChange::at_maximum));
  BOOST_TEST((step.next == ScalerState{4, 0, 2}));
}

BOOST_AUTO_TEST_CASE(what_a_scaler_cannot_live_with_is_refused_by_name_and_value) {
  BOOST_CHECK_NO_THROW(validate(DynamicScaler{}));
  BOOST_CHECK_NO_THROW(validate(StaticScaler{}));
  BOOST_CHECK_NO_THROW(validate(NoScaler{}));
  check_is(refusal(StaticScaler{.scale = 0}),
           "StaticScaler: scale is 0; a loss scale is finite and at least 2^-64.");
  check_is(refusal(StaticScaler{.scale = -2}),
           "StaticScaler: scale is -2; a loss scale is finite and at least 2^-64.");
  check_is(refusal(StaticScaler{.scale = nan_value}),
           "StaticScaler: scale is NaN; a loss scale is finite and at least 2^-64.");
  check_is(refusal(DynamicScaler{.initial_scale = infinity}),
           "DynamicScaler: initial_scale is infinity; a loss scale is finite and at least 2^-64.");
  for (const double growth : {1.0, 0.5, -2.0}) {
    DynamicScaler scaler;
    scaler.growth_factor = growth;
    check_is(refusal(scaler), "DynamicScaler: growth_factor is " + detail::describe_number(growth) +
                                  "; it must be finite and greater than 1.");
  }
  check_is(refusal(DynamicScaler{.growth_factor = nan_value}),
           "DynamicScaler: growth_factor is NaN; it must be finite and greater than 1.");
  check_is(refusal(DynamicScaler{.growth_factor = 1e39}),
           "DynamicScaler: growth_factor is 1e+39; it must be finite and greater than 1.");
  for (const double backoff : {1.0, 1.5, 0.0, -0.5}) {
    DynamicScaler scaler;
    scaler.backoff_factor = backoff;
    check_is(refusal(scaler), "DynamicScaler: backoff_factor is " + detail::describe_number(backoff) +
                                  "; it must be greater than 0 and less than 1.");
  }
  check_is(refusal(DynamicScaler{.backoff_factor = nan_value}),
           "DynamicScaler: backoff_factor is NaN; it must be greater than 0 and less than 1.");
  check_is(refusal(DynamicScaler{.growth_interval = 0}),
           "DynamicScaler: growth_interval is 0; it must be at least 1 window.");
  check_is(
      refusal(DynamicScaler{.hysteresis = 0}),
      "DynamicScaler: hysteresis is 0; it must be at least 1, which lowers the scale at the first non-finite "
      "gradient.");
  check_is(refusal(DynamicScaler{.minimum_scale = 0}),
           "DynamicScaler: minimum_scale is 0; a loss scale is finite and at least 2^-64.");
  check_is(refusal(DynamicScaler{.maximum_scale = infinity}),
           "DynamicScaler: maximum_scale is infinity; a loss scale is finite and at least 2^-64.");
  check_is(
      refusal(DynamicScaler{.minimum_scale = 8, .maximum_scale = 4}),
      "DynamicScaler: minimum_scale is 8 and maximum_scale is 4; the minimum must not be above the maximum.");
  check_is(
      refusal(DynamicScaler{.initial_scale = 1, .minimum_scale = 2}),
      "DynamicScaler: initial_scale is 1 and minimum_scale is 2; the initial scale must not be below the "
      "minimum.");
  check_is(
      refusal(DynamicScaler{.initial_scale = 8, .maximum_scale = 4}),
      "DynamicScaler: initial_scale is 8 and maximum_scale is 4; the initial scale must not be above the "
      "maximum.");
}

BOOST_AUTO_TEST_SUITE_END()
