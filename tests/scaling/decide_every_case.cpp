// decide against the prose of the law, written down once more from the history of a run instead of its last
// state.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/scaling/decide.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(decide_every_case_tests)

using namespace halfstep;

namespace {

enum Event { good, bad_gradient, bad_loss, nothing, events };

GradientFacts facts_of(Event event, bool also_bad_gradients) {
  GradientFacts facts;
  facts.has_gradients = event != nothing;
  facts.loss_finite = event != bad_loss;
  facts.gradients_finite = event != bad_gradient && !also_bad_gradients;
  facts.sum_of_squares = 1;
  return facts;
}

/// Skipped: times backoff, not under the minimum, tracker to 0; with hysteresis n, the first n - 1 leave the
/// scale. Applied: tracker + 1; at the interval times growth, not over the maximum, tracker to 0, hysteresis
/// full again.
struct Expected {
  float scale;
  std::int32_t tracker, hysteresis;
  std::int64_t applied, attempts, skipped, row, empty, position;
};

Expected replay(const std::vector<Event>& history, const DynamicScaler& options, int positions_on_skip) {
  const auto count = [&](auto... kinds) {
    return std::count_if(history.begin(), history.end(), [&](Event e) { return ((e == kinds) || ...); });
  };
  Expected expected{options.initial_scale,
                    0,
                    options.hysteresis,
                    count(good),
                    count(good, bad_gradient, bad_loss, nothing),
                    count(bad_gradient, bad_loss),
                    0,
                    count(nothing),
                    0};
  expected.position = expected.applied + positions_on_skip * expected.skipped;
  for (auto event = history.rbegin(); event != history.rend() && *event != good; ++event) {
    if (*event != nothing) ++expected.row;
  }
  for (const Event event : history) {
    if (event == bad_gradient) {
      expected.tracker = 0;
      if (expected.hysteresis > 1) {
        expected.hysteresis -= 1;
      } else {
        expected.scale = std::max(expected.scale / 2, options.minimum_scale);
      }
    }
    if (event == good && ++expected.tracker == options.growth_interval) {
      expected.scale = std::min(expected.scale * 2, options.maximum_scale);
      expected.tracker = 0;
      expected.hysteresis = options.hysteresis;
    }
  }
  return expected;
}

template <class OnSkip>
void compare_all_histories(const DynamicScaler& options, std::size_t length) {
  std::vector<Event> history;
  // Depth first, so that every history of every length up to `length` is compared once.
  const auto descend = [&](auto&& self, const StepState& state) -> void {
    const Expected expected = replay(history, options, static_cast<int>(OnSkip::positions_on_skip));
    BOOST_REQUIRE_EQUAL(state.scaler.scale, expected.scale);
    BOOST_REQUIRE_EQUAL(state.scaler.growth_tracker, expected.tracker);
    BOOST_REQUIRE_EQUAL(state.scaler.hysteresis_left, expected.hysteresis);
    BOOST_REQUIRE_EQUAL(state.update_number, expected.applied);
    BOOST_REQUIRE_EQUAL(state.attempts, expected.attempts);
    BOOST_REQUIRE_EQUAL(state.skipped, expected.skipped);
    BOOST_REQUIRE_EQUAL(state.skipped_in_a_row, expected.row);
    BOOST_REQUIRE_EQUAL(state.empty, expected.empty);
    BOOST_REQUIRE_EQUAL(state.schedule_position, expected.position);
    BOOST_REQUIRE_EQUAL(state.update_number + state.skipped + state.empty, state.attempts);
    if (history.size() == length) return;
    for (int event = 0; event < events; ++event) {
      const bool also_bad = event == bad_loss && history.size() % 2 == 1;
      history.push_back(static_cast<Event>(event));
      const StepDecision decision =
          decide<OnSkip>(options, state, facts_of(static_cast<Event>(event), also_bad), 1.0f);
      BOOST_REQUIRE_EQUAL(decision.scale_used, state.scaler.scale);
      self(self, decision.next);
      history.pop_back();
    }
  };
  descend(descend, initial_step_state(options));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_history_of_up_to_six_windows_ends_where_the_law_says) {
  for (std::int32_t interval = 1; interval <= 3; ++interval) {
    for (std::int32_t hysteresis = 1; hysteresis <= 3; ++hysteresis) {
      const DynamicScaler options{.initial_scale = 8,
                                  .growth_interval = interval,
                                  .hysteresis = hysteresis,
                                  .minimum_scale = 3,
                                  .maximum_scale = 24};
      compare_all_histories<HoldSchedule>(options, 6);
      compare_all_histories<AdvanceSchedule>(options, 6);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_happened_is_said_in_every_state_and_never_inferred) {
  for (std::int32_t hysteresis = 1; hysteresis <= 3; ++hysteresis) {
    for (std::int32_t interval = 1; interval <= 3; ++interval) {
      const DynamicScaler options{.initial_scale = 8,
                                  .growth_interval = interval,
                                  .hysteresis = hysteresis,
                                  .minimum_scale = 4,
                                  .maximum_scale = 16};
      for (const float scale : {2.0f, 4.0f, 8.0f, 16.0f, 32.0f}) {
        for (std::int32_t tracker = 0; tracker < interval; ++tracker) {
          for (std::int32_t left = 1; left <= hysteresis; ++left) {
            for (int event = 0; event < events; ++event) {
              StepState before;
              before.scaler = {scale, tracker, left};
              const StepDecision decision =
                  decide<HoldSchedule>(options, before, facts_of(static_cast<Event>(event), false), 1.0f);
              const float after = decision.next.scaler.scale;
              ScaleChange expected = ScaleChange::unchanged;
              if (event == bad_gradient) {
                expected = left > 1     ? ScaleChange::held_by_hysteresis
                           : scale <= 4 ? ScaleChange::at_minimum
                                        : ScaleChange::backed_off;
              } else if (event == good && tracker == interval - 1) {
                expected = scale >= 16 ? ScaleChange::at_maximum : ScaleChange::grown;
              }
              BOOST_TEST_REQUIRE((decision.scale_change == expected));
              BOOST_TEST_REQUIRE((after > scale) == (expected == ScaleChange::grown));
              BOOST_TEST_REQUIRE((after < scale) == (expected == ScaleChange::backed_off));
            }
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
