// decide against the law of a step as docs/concepts.md tells it, sentence by sentence: over every state of
// the scaler that some run can reach, every combination of facts, thresholds and rules for skips, and at
// compile time over the smallest settings. tests/scaling/decide_every_case.cpp holds whole histories against
// the same prose.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/scaling/decide.hpp>
#include <halfstep/scaling/unscale.hpp>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

BOOST_AUTO_TEST_SUITE(every_state_tests)

using namespace halfstep;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float largest = (std::numeric_limits<float>::max)();

/// What the prose says of one window.
struct Expected {
  StepDecision decision;
  double norm_squared = 0;
};

enum class Lesson { none, good, overflow };

/// "A non-finite gradient lowers the scale (times backoff, not under the minimum; with hysteresis n the first
/// n-1 such windows leave it) and starts the growth count anew; an applied window counts, and a full interval
/// of them raises the scale (times growth, if that is finite, not over the maximum)." Hysteresis is filled up
/// again when an interval is full. A scale from a run under other bounds is not thrown about: growth never
/// lowers it, an overflow never raises it.
constexpr void teach(const DynamicScaler& options, Lesson lesson, ScalerState& state, ScaleChange& change) {
  const double scale = state.scale;
  double wanted = scale;
  if (lesson == Lesson::overflow) {
    state.growth_tracker = 0;
    const bool forgiven = state.hysteresis_left > 1;
    if (forgiven) {
      state.hysteresis_left -= 1;
      change = ScaleChange::held_by_hysteresis;
      return;
    }
    wanted = static_cast<float>(scale * options.backoff_factor);
    if (wanted < options.minimum_scale) wanted = options.minimum_scale;
    if (wanted > scale) wanted = scale;
    change = wanted == scale ? ScaleChange::at_minimum : ScaleChange::backed_off;
  }
  if (lesson == Lesson::good) {
    const bool full = state.growth_tracker + 1 >= options.growth_interval;
    state.growth_tracker = full ? 0 : state.growth_tracker + 1;
    if (!full) return;
    state.hysteresis_left = options.hysteresis;
    // The largest product that rounds to a finite float is just under 2^128 - 2^103.
    const double product = scale * options.growth_factor;
    const bool finite = product < 0x1p128 - 0x1p103;
    wanted = finite ? static_cast<double>(static_cast<float>(product)) : scale;
    if (wanted > options.maximum_scale) wanted = options.maximum_scale;
    if (wanted < scale) wanted = scale;
    change = wanted == scale ? ScaleChange::at_maximum : ScaleChange::grown;
  }
  state.scale = static_cast<float>(wanted);
}
/// Other scalers learn nothing.
template <class S>
constexpr void teach(const S&, Lesson, ScalerState&, ScaleChange&) {}

template <class S>
constexpr Expected law(const S& scaler, std::int64_t positions_on_skip, const StepState& before,
                       const GradientFacts& facts, float max_norm) {
  Expected expected;
  StepDecision& decision = expected.decision;
  StepState& after = decision.next;
  after = before;
  after.attempts = before.attempts + 1;
  decision.scale_used = before.scaler.scale;
  if (!facts.has_gradients) {
    decision.outcome = Outcome::no_gradients;
    after.empty = before.empty + 1;
    return expected;
  }
  expected.norm_squared = facts.sum_of_squares;
  const bool good = facts.loss_finite && facts.gradients_finite;
  if (good) {
    decision.outcome = Outcome::applied;
    after.update_number = before.update_number + 1;
    after.schedule_position = before.schedule_position + 1;
    after.skipped_in_a_row = 0;
    teach(scaler, Lesson::good, after.scaler, decision.scale_change);
  } else {
    decision.outcome = Outcome::skipped;
    decision.skip_cause = facts.loss_finite ? SkipCause::gradient : SkipCause::loss;
    after.skipped = before.skipped + 1;
    after.skipped_in_a_row = before.skipped_in_a_row + 1;
    after.schedule_position = before.schedule_position + positions_on_skip;
    if (facts.loss_finite) teach(scaler, Lesson::overflow, after.scaler, decision.scale_change);
  }
  if (good && max_norm != infinity) {
    const double norm = facts.sum_of_squares == 25 ? 5 : detail::square_root(facts.sum_of_squares);
    const double share = static_cast<double>(max_norm) / (norm + 1e-6);
    if (share < 1) decision.clip_coefficient = static_cast<float>(share);
  }
  return expected;
}

/// Every field but the norm.
constexpr bool agrees(const StepDecision& a, const StepDecision& b) {
  return a.outcome == b.outcome && a.skip_cause == b.skip_cause && a.scale_change == b.scale_change &&
         a.scale_used == b.scale_used && a.clip_coefficient == b.clip_coefficient && a.next == b.next;
}

struct TwoAtOnce {
  static constexpr std::int64_t positions_on_skip = 2;
};

constexpr GradientFacts facts_of(int kind, double sum) {
  GradientFacts facts;
  facts.has_gradients = (kind & 1) != 0;
  facts.gradients_finite = (kind & 2) != 0;
  facts.loss_finite = (kind & 4) != 0;
  facts.sum_of_squares = sum;
  return facts;
}

constexpr StepState window_state(const ScalerState& scaler, std::int64_t some) {
  return {scaler, 10 + some, 17 + 3 * some, 5 + some, some, 2 + some, 12 * some};
}

// The twins at compile time: a small scaler in every state, bounds passed on both sides included.
template <class OnSkip>
constexpr bool small_settings_agree(std::int32_t interval, std::int32_t hysteresis) {
  const DynamicScaler options{.initial_scale = 8,
                              .growth_interval = interval,
                              .hysteresis = hysteresis,
                              .minimum_scale = 4,
                              .maximum_scale = 16};
  for (const float scale : {2.0f, 4.0f, 6.0f, 8.0f, 12.0f, 16.0f, 32.0f}) {
    for (std::int32_t tracker = 0; tracker < interval; ++tracker) {
      for (std::int32_t left = 1; left <= hysteresis; ++left) {
        for (int kind = 0; kind < 8; ++kind) {
          const StepState before = window_state({scale, tracker, left}, kind);
          const GradientFacts facts = facts_of(kind, 25);
          const Expected expected = law(options, OnSkip::positions_on_skip, before, facts, 1.0f);
          const StepDecision decision = decide<OnSkip>(options, before, facts, 1.0f);
          if (!agrees(decision, expected.decision)) return false;
          if (decision.gradient_norm != (facts.has_gradients ? 5 : 0)) return false;
        }
      }
    }
  }
  return true;
}
static_assert(small_settings_agree<HoldSchedule>(1, 1) && small_settings_agree<HoldSchedule>(1, 2));
static_assert(small_settings_agree<HoldSchedule>(2, 1) && small_settings_agree<HoldSchedule>(2, 2));
static_assert(small_settings_agree<HoldSchedule>(3, 3) && small_settings_agree<AdvanceSchedule>(2, 2));
static_assert(small_settings_agree<TwoAtOnce>(2, 2));

template <class OnSkip, class S>
bool one_window_agrees(const S& scaler, const StepState& before, const GradientFacts& facts, float max_norm) {
  const Expected expected = law(scaler, OnSkip::positions_on_skip, before, facts, max_norm);
  const StepDecision decision = decide<OnSkip>(scaler, before, facts, max_norm);
  return agrees(decision, expected.decision) && decision.gradient_norm == std::sqrt(expected.norm_squared) &&
         decision.next.update_number + decision.next.skipped + decision.next.empty == decision.next.attempts;
}

/// Every fact, threshold and rule in one state of the scaler. Returns how many combinations disagree.
template <class S>
int disagreements(const S& scaler, const ScalerState& state) {
  int wrong = 0;
  for (int kind = 0; kind < 8; ++kind) {
    for (const double sum : {0.0, 25.0, 1e-300, 1e84}) {
      for (const float max_norm : {infinity, 1.0f, 5.0f, 1e-30f, largest}) {
        const GradientFacts facts = facts_of(kind, sum);
        const StepState before = window_state(state, kind);
        wrong += one_window_agrees<HoldSchedule>(scaler, before, facts, max_norm) ? 0 : 1;
        wrong += one_window_agrees<AdvanceSchedule>(scaler, before, facts, max_norm) ? 0 : 1;
        wrong += one_window_agrees<TwoAtOnce>(scaler, before, facts, max_norm) ? 0 : 1;
      }
    }
  }
  return wrong;
}

/// All states that some history of windows leads to, or the first `limit` of them.
std::vector<ScalerState> reachable(const DynamicScaler& options, std::size_t limit) {
  using Key = std::tuple<float, std::int32_t, std::int32_t>;
  std::set<Key> seen;
  std::vector<ScalerState> found;
  const auto visit = [&](const ScalerState& state) {
    if (seen.insert({state.scale, state.growth_tracker, state.hysteresis_left}).second)
      found.push_back(state);
  };
  visit(options.first_state());
  for (std::size_t i = 0; i < found.size() && found.size() < limit; ++i) {
    const ScalerState state = found[i];
    visit(options.after(state, Outcome::applied, SkipCause::none).next);
    visit(options.after(state, Outcome::skipped, SkipCause::gradient).next);
    visit(options.after(state, Outcome::skipped, SkipCause::loss).next);
    visit(options.after(state, Outcome::no_gradients, SkipCause::none).next);
  }
  return found;
}

bool in_bounds(const DynamicScaler& options, const ScalerState& state) {
  return std::isfinite(state.scale) && state.scale >= options.minimum_scale &&
         state.scale <= options.maximum_scale && state.growth_tracker >= 0 &&
         state.growth_tracker < options.growth_interval && state.hysteresis_left >= 1 &&
         state.hysteresis_left <= options.hysteresis;
}

std::string text(const DynamicScaler& o) {
  return "initial " + std::to_string(o.initial_scale) + ", growth " + std::to_string(o.growth_factor) +
         " every " + std::to_string(o.growth_interval) + ", backoff " + std::to_string(o.backoff_factor) +
         ", hysteresis " + std::to_string(o.hysteresis) + ", from " + std::to_string(o.minimum_scale) +
         " to " + std::to_string(o.maximum_scale);
}

/// Options of every kind that are accepted: tight and wide bounds, factors that are powers of two and others.
DynamicScaler random_options(std::mt19937_64& random) {
  const auto one_of = [&](const auto&... values) {
    const double list[] = {static_cast<double>(values)...};
    return list[random() % sizeof...(values)];
  };
  DynamicScaler options;
  options.growth_factor = one_of(2, 2, 4, 1.5, 1.0001, 1000, 3.4e38);
  options.backoff_factor = one_of(0.5, 0.5, 0.25, 0.7, 0.999, 1e-6, 1e-38);
  options.growth_interval = static_cast<std::int32_t>(1 + random() % 4);
  options.hysteresis = static_cast<std::int32_t>(1 + random() % 4);
  options.minimum_scale =
      static_cast<float>(std::exp2(std::uniform_real_distribution<double>(-64, 120)(random)));
  const double room = one_of(1, 1.5, 8, 1e6, 3.4e38);
  options.maximum_scale =
      static_cast<float>((std::min)(options.minimum_scale * room, static_cast<double>(largest)));
  const double share = std::uniform_real_distribution<double>(0, 1)(random);
  options.initial_scale = static_cast<float>(
      options.minimum_scale + share * (static_cast<double>(options.maximum_scale) - options.minimum_scale));
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_reachable_state_of_small_settings_obeys_the_law) {
  std::size_t states = 0;
  for (std::int32_t interval = 1; interval <= 3; ++interval) {
    for (std::int32_t hysteresis = 1; hysteresis <= 3; ++hysteresis) {
      for (const auto& [minimum, maximum] :
           std::vector<std::pair<float, float>>{{8, 8}, {4, 16}, {3, 24}, {8, largest}}) {
        const DynamicScaler options{.initial_scale = 8,
                                    .growth_interval = interval,
                                    .hysteresis = hysteresis,
                                    .minimum_scale = minimum,
                                    .maximum_scale = maximum};
        BOOST_TEST_REQUIRE(is_valid(options));
        // All of them: the longest list is that of 125 powers of two and what they are under a minimum.
        const auto found = reachable(options, 100000);
        states += found.size();
        for (const ScalerState& state : found) {
          BOOST_TEST_REQUIRE(in_bounds(options, state), text(options));
          BOOST_TEST_REQUIRE(disagreements(options, state) == 0, text(options)
                                                                     << ", at scale " << state.scale);
        }
      }
    }
  }
  BOOST_TEST(states > 1500U);
}

BOOST_AUTO_TEST_CASE(states_that_a_run_under_other_bounds_left_behind_obey_the_law) {
  const DynamicScaler options{
      .initial_scale = 8, .growth_interval = 2, .hysteresis = 2, .minimum_scale = 4, .maximum_scale = 16};
  for (const float scale : {0x1p-64f, 3.9f, 4.1f, 15.9f, 16.1f, largest, 0x1p127f}) {
    for (const std::int32_t tracker : {0, 1, 2, 1999}) {
      for (const std::int32_t left : {1, 2, 7}) {
        BOOST_TEST_REQUIRE(disagreements(options, {scale, tracker, left}) == 0,
                           scale << " " << tracker << " " << left);
      }
    }
  }
}

// PyTorch's GradScaler grows only if the product is finite as a float: halfway to 2^128 it no longer is.
BOOST_AUTO_TEST_CASE(a_scale_whose_product_would_be_infinite_stays) {
  for (const double factor : {0x1.fffffep0, 0x1.fffffefffffffp0, 0x1.ffffffp0, 0x1.ffffff0000001p0, 2.0}) {
    const DynamicScaler options{.initial_scale = 0x1p127f, .growth_factor = factor, .growth_interval = 1};
    BOOST_TEST(disagreements(options, options.first_state()) == 0, factor);
    const bool grows = factor < 0x1.ffffffp0;
    const ScalerStep step = options.after(options.first_state(), Outcome::applied, SkipCause::none);
    BOOST_TEST(step.next.scale == (grows ? largest : 0x1p127f));
    BOOST_TEST((step.change == (grows ? ScaleChange::grown : ScaleChange::at_maximum)));
  }
  BOOST_TEST((ScalerStep{}.change == ScaleChange::unchanged));
}

// Else every gradient of such a window would be zero, and the update one of momentum alone.
BOOST_AUTO_TEST_CASE(what_unscales_is_never_zero_and_never_infinite) {
  for (const float scale : {0x1p-64f, 1.0f, 65536.0f, 0x1p127f, largest}) {
    for (const std::int64_t first : {std::int64_t{1}, std::int64_t{3}, std::int64_t{1} << 40}) {
      for (const std::int64_t count : {first, first + 1, std::int64_t{1} << 62}) {
        const float inverse = inverse_scale(scale, window_normalizer(first), count);
        BOOST_TEST((inverse > 0 && inverse <= 0x1p64f), scale << " " << first << " " << count);
      }
    }
  }
  BOOST_TEST(inverse_scale(largest, 1, std::int64_t{1} << 40) == 0x1p-149f);
}

BOOST_AUTO_TEST_CASE(scalers_that_learn_nothing_obey_the_law) {
  BOOST_TEST(disagreements(NoScaler{}, NoScaler{}.first_state()) == 0);
  for (const float scale : {0x1p-64f, 1.0f, 65536.0f, largest}) {
    const StaticScaler scaler{.scale = scale};
    BOOST_TEST(is_valid(scaler));
    BOOST_TEST(scaler.first_state().scale == scale);
    BOOST_TEST(disagreements(scaler, scaler.first_state()) == 0);
  }
}

BOOST_AUTO_TEST_CASE(random_settings_obey_the_law_and_keep_the_scale_a_finite_number_within_bounds) {
  std::mt19937_64 random(20);
  for (int setting = 0; setting < 60; ++setting) {
    const DynamicScaler options = random_options(random);
    BOOST_TEST_REQUIRE(is_valid(options), text(options));
    for (const ScalerState& state : reachable(options, 20)) {
      BOOST_TEST_REQUIRE(in_bounds(options, state), text(options));
      BOOST_TEST_REQUIRE(disagreements(options, state) == 0, text(options));
    }
    StepState state = initial_step_state(options);
    const int worst = static_cast<int>(random() % 8), share = static_cast<int>(random() % 100);
    for (int window = 0; window < 400; ++window) {
      const int kind = static_cast<int>(random() % 100) < share ? worst : static_cast<int>(random() % 8);
      state = decide<AdvanceSchedule>(options, state, facts_of(kind, 1), 1.0f).next;
      BOOST_TEST_REQUIRE(in_bounds(options, state.scaler), text(options));
    }
    BOOST_TEST_REQUIRE(state.attempts == 400);
    BOOST_TEST_REQUIRE(state.update_number + state.skipped + state.empty == 400);
    BOOST_TEST_REQUIRE(state.schedule_position == state.update_number + state.skipped);
  }
}

BOOST_AUTO_TEST_SUITE_END()
