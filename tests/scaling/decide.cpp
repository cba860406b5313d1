#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/scaling/decide.hpp>
#include <limits>
#include <random>
#include <string>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(decide_tests)

using namespace halfstep;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr DynamicScaler scaler{.initial_scale = 1024, .growth_interval = 2};
constexpr StepState begun{{1024, 1, 1}, 10, 14, 3, 2, 1, 11};

constexpr GradientFacts clean{.has_gradients = true, .sum_of_squares = 25};
constexpr GradientFacts bad_gradient{.has_gradients = true, .gradients_finite = false, .sum_of_squares = 25};
constexpr GradientFacts bad_loss{.has_gradients = true, .loss_finite = false, .sum_of_squares = 25};
constexpr GradientFacts bad_both{
    .has_gradients = true, .gradients_finite = false, .loss_finite = false, .sum_of_squares = 25};

constexpr StepDecision held(const GradientFacts& facts, float max_norm = infinity) {
  return decide<HoldSchedule>(scaler, begun, facts, max_norm);
}

static_assert(std::is_trivially_copyable_v<StepState> && std::is_trivially_copyable_v<StepDecision> &&
              std::is_trivially_copyable_v<GradientFacts>);

// Applied: the update, its position and the tracker move; the row of skips is over.
static_assert(held(clean).outcome == Outcome::applied && held(clean).skip_cause == SkipCause::none);
static_assert(held(clean).next == StepState{{2048, 0, 1}, 11, 15, 3, 0, 1, 12});
static_assert(held(clean).scale_change == ScaleChange::grown && held(clean).scale_used == 1024);
static_assert(held(clean).gradient_norm == 5 && held(clean).clip_coefficient == 1);
static_assert(held(clean, 1.0f).clip_coefficient == static_cast<float>(1 / (5 + 1e-6)));

// Skipped for a gradient: the scale falls, only the counters of attempts and skips move.
static_assert(held(bad_gradient).outcome == Outcome::skipped &&
              held(bad_gradient).skip_cause == SkipCause::gradient);
static_assert(held(bad_gradient).next == StepState{{512, 0, 1}, 10, 15, 4, 3, 1, 11});
static_assert(held(bad_gradient).scale_change == ScaleChange::backed_off);
static_assert(held(bad_gradient, 1.0f).clip_coefficient == 1);

// Skipped for a loss: counted alike, the scaler learns nothing.
static_assert(held(bad_loss).outcome == Outcome::skipped && held(bad_loss).skip_cause == SkipCause::loss);
static_assert(held(bad_loss).next == StepState{{1024, 1, 1}, 10, 15, 4, 3, 1, 11});
static_assert(held(bad_loss).scale_change == ScaleChange::unchanged);

// A bad loss is the cause of the bad gradients that come with it.
static_assert(held(bad_both).skip_cause == SkipCause::loss && held(bad_both).next == held(bad_loss).next);

// Without gradients nothing else is asked.
constexpr GradientFacts empty{.has_gradients = false, .gradients_finite = false, .loss_finite = false};
static_assert(held(empty).outcome == Outcome::no_gradients && held(empty).skip_cause == SkipCause::none);
static_assert(held(empty).next == StepState{{1024, 1, 1}, 10, 15, 3, 2, 2, 11});
static_assert(held(empty).gradient_norm == 0 && held(empty).clip_coefficient == 1);
static_assert(held(GradientFacts{}).outcome == Outcome::no_gradients);

// The rule for skips moves the schedule, never an update or its number.
static_assert(decide<AdvanceSchedule>(scaler, begun, bad_gradient, 1).next.schedule_position == 12);
static_assert(decide<AdvanceSchedule>(scaler, begun, bad_loss, 1).next.schedule_position == 12);
static_assert(decide<AdvanceSchedule>(scaler, begun, bad_gradient, 1).next.update_number == 10);
static_assert(decide<AdvanceSchedule>(scaler, begun, clean, 1).next.schedule_position == 12);
static_assert(decide<AdvanceSchedule>(scaler, begun, empty, 1).next.schedule_position == 11);

// Gradients are checked without a scaler too.
constexpr StepState plain = initial_step_state(NoScaler{});
static_assert(decide<HoldSchedule>(NoScaler{}, plain, bad_gradient, 1).outcome == Outcome::skipped);
static_assert(decide<HoldSchedule>(NoScaler{}, plain, bad_gradient, 1).next.scaler == ScalerState{1, 0, 1});

struct TwoAtOnce {
  static constexpr std::int64_t positions_on_skip = 2;
};
struct Backwards {
  static constexpr std::int64_t positions_on_skip = -1;
};
struct Silent {};
static_assert(OnSkipRule<HoldSchedule> && OnSkipRule<AdvanceSchedule> && OnSkipRule<TwoAtOnce>);
static_assert(!OnSkipRule<Backwards> && !OnSkipRule<Silent>);
static_assert(decide<TwoAtOnce>(scaler, begun, bad_gradient, 1).next.schedule_position == 13);

}  // namespace

BOOST_AUTO_TEST_CASE(the_largest_gradients_of_the_largest_model_have_a_finite_norm) {
  const double largest = std::numeric_limits<float>::max();
  GradientFacts facts{.has_gradients = true};
  facts.sum_of_squares = largest * largest * 0x1p42;  // 4.4e12 weights
  const StepDecision decision = held(facts, 1.0f);
  BOOST_TEST((decision.outcome == Outcome::applied));
  BOOST_TEST(std::isfinite(decision.gradient_norm));
  BOOST_TEST(decision.gradient_norm == largest * 0x1p21);
  BOOST_TEST(decision.clip_coefficient > 0);
}

BOOST_AUTO_TEST_CASE(the_compilers_square_root_is_the_machines_within_one_unit) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::exp2(std::uniform_real_distribution<double>(-1020, 1020)(random));
    const double exact = std::sqrt(value), newton = detail::newton_square_root(value);
    BOOST_REQUIRE(newton >= std::nextafter(exact, 0.0) && newton <= std::nextafter(exact, 2 * exact));
    BOOST_REQUIRE_EQUAL(detail::square_root(value), exact);
  }
  for (int root = 0; root < 2000; ++root) BOOST_REQUIRE_EQUAL(detail::newton_square_root(root * root), root);
}

BOOST_AUTO_TEST_CASE(the_answers_have_names) {
  BOOST_TEST(std::string(name_of(Outcome::applied)) == "applied");
  BOOST_TEST(std::string(name_of(Outcome::skipped)) == "skipped");
  BOOST_TEST(std::string(name_of(Outcome::no_gradients)) == "no gradients");
  BOOST_TEST(std::string(name_of(SkipCause::none)) == "none");
  BOOST_TEST(std::string(name_of(SkipCause::gradient)) == "gradient");
  BOOST_TEST(std::string(name_of(SkipCause::loss)) == "loss");
  BOOST_TEST(std::string(name_of(ScaleChange::at_minimum)) == "at its minimum");
}

BOOST_AUTO_TEST_SUITE_END()
