#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <halfstep/optim/schedule.hpp>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(schedule_tests)

using namespace halfstep;
using test::check_is;

namespace {

constexpr double pi = 3.14159265358979323846;
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

static_assert(std::is_trivially_copyable_v<Schedule> && LearningRateSchedule<Schedule>);
static_assert(std::is_convertible_v<float, Schedule> && std::is_convertible_v<double, Schedule>);
struct Falling {
  float operator()(std::int64_t position) const { return 1 - static_cast<float>(position) / 10; }
};
static_assert(LearningRateSchedule<Falling> && !LearningRateSchedule<float>);
static_assert(LearningRateSchedule<decltype([](std::int64_t position) {
  return 0.5 * static_cast<double>(position);
})>);
static_assert(!LearningRateSchedule<std::function<float(std::int64_t)>>);  // cannot go to a device

/// Both round the same formula to float once; the order of operations in double may differ by an ulp of
/// double.
void compare(const Schedule& schedule, std::int64_t first, std::int64_t last,
             const std::function<double(double)>& formula) {
  BOOST_CHECK_NO_THROW(schedule.validate());
  for (std::int64_t position = first; position < last; ++position) {
    const double expected = formula(static_cast<double>(position));
    BOOST_TEST_CONTEXT("position " << position) {
      BOOST_TEST(std::abs(schedule(position) - expected) <= 1e-7 * std::abs(expected));
    }
  }
}

std::string refusal(const Schedule& schedule) {
  try {
    schedule.validate();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_number_is_the_same_rate_throughout) {
  const Schedule schedule = 0.00047f;
  BOOST_TEST(schedule(0) == 0.00047f);
  BOOST_TEST(schedule(1000000) == 0.00047f);
  BOOST_TEST(constant(0.1)(7) == 0.1f);
}

BOOST_AUTO_TEST_CASE(warm_up_rises_from_zero_to_the_peak_at_its_last_position_as_in_hugging_face_and_optax) {
  for (const Schedule& schedule : {warmup_constant(1e-3, 100), warmup_linear(1e-3, 100, 2000),
                                   warmup_cosine(1e-3, 100, 2000), inverse_square_root(1e-3, 100)}) {
    BOOST_TEST(schedule(0) == 0.0f);
    compare(schedule, 0, 100, [](double k) { return 1e-3 * k / 100; });
    BOOST_TEST(schedule(100) == 1e-3f);
  }
  BOOST_TEST(warmup_constant(1e-3, 100)(5000) == 1e-3f);
  BOOST_TEST(warmup_constant(1e-3, 0)(0) == 1e-3f);
}

BOOST_AUTO_TEST_CASE(linear_and_cosine_fall_to_the_floor_at_their_length_and_stay_there) {
  compare(warmup_linear(1e-3, 100, 2000, 1e-5), 100, 2000,
          [](double k) { return 1e-5 + (1e-3 - 1e-5) * (2000 - k) / 1900; });
  compare(warmup_cosine(1e-3, 100, 2000), 100, 1999,
          [](double k) { return 1e-3 * 0.5 * (1 + std::cos(pi * (k - 100) / 1900)); });
  for (const std::int64_t position : {2000, 2001, 123456}) {
    BOOST_TEST(warmup_linear(1e-3, 100, 2000)(position) == 0.0f);
    BOOST_TEST(warmup_linear(1e-3, 100, 2000, 1e-5)(position) == 1e-5f);
    BOOST_TEST(warmup_cosine(1e-3, 100, 2000, 1e-5)(position) == 1e-5f);
    BOOST_TEST(warmup_cosine(1e-3, 100, 2000)(position) == 0.0f);
  }
}

BOOST_AUTO_TEST_CASE(without_warm_up_they_are_pytorchs_linear_and_cosine) {
  // LinearLR(start_factor = 1, end_factor, total_iters), closed form.
  compare(warmup_linear(0.05, 0, 8, 0.0125), 0, 12,
          [](double k) { return 0.05 * (1 + (0.25 - 1) * std::fmin(8, k) / 8); });
  // CosineAnnealingLR(T_max, eta_min), closed form.
  compare(warmup_cosine(0.1, 0, 10, 0.001), 0, 11,
          [](double k) { return 0.001 + (0.1 - 0.001) * (1 + std::cos(pi * k / 10)) / 2; });
}

BOOST_AUTO_TEST_CASE(step_and_exponential_decay_are_pytorchs) {
  compare(step_decay(0.05, 30, 0.1), 0, 120,
          [](double k) { return 0.05 * std::pow(0.1, std::floor(k / 30)); });
  BOOST_TEST(step_decay(0.05, 30)(29) == 0.05f);
  BOOST_TEST(step_decay(0.05, 30)(30) == 0.005f);
  compare(exponential(0.05, 0.95), 0, 200, [](double k) { return 0.05 * std::pow(0.95, k); });
}

BOOST_AUTO_TEST_CASE(one_cycle_is_pytorchs) {
  // The steps of PyTorch's OneCycleLR.get_lr worked out in Python; the second cycle's top lies between two
  // positions. positions.
  const std::vector<double> defaults{0.004,        0.052,        0.1,          0.0950484632, 0.0811745654,
                                     0.0611262022, 0.0388741978, 0.0188258346, 0.0049519368, 4e-07};
  compare(one_cycle(0.1, 10), 0, 10, [&](double k) { return defaults[static_cast<std::size_t>(k)]; });
  const std::vector<double> other{0.05,        0.497210499,  0.433329705, 0.305824603,
                                  0.159006079, 0.0438968661, 0.0005};
  compare(one_cycle(0.5, 7, 0.25, 10, 100), 0, 7,
          [&](double k) { return other[static_cast<std::size_t>(k)]; });
  BOOST_TEST(one_cycle(0.1, 10)(10) == 4e-7f);
  BOOST_TEST(one_cycle(0.1, 10)(99) == 4e-7f);
  BOOST_TEST(one_cycle(0.1, 10, 0.1)(0) == 0.1f);  // the top is at position 0
  BOOST_TEST(one_cycle(0.1, 10, 1.0)(9) == 0.1f);
  BOOST_TEST(std::isfinite(one_cycle(0.1, 1)(0)));
}

BOOST_AUTO_TEST_CASE(inverse_square_root_is_hugging_faces) {
  compare(inverse_square_root(1e-3, 100), 100, 3000, [](double k) { return 1e-3 / std::sqrt(k / 100); });
  BOOST_TEST(inverse_square_root(1e-3, 100)(400) == 5e-4f);
  compare(inverse_square_root(1e-3, 0), 0, 3000,
          [](double k) { return 1e-3 / std::sqrt((k + 10000) / 10000); });
}

BOOST_AUTO_TEST_CASE(rates_and_lengths_that_cannot_be_are_refused_by_name_and_value) {
  const std::string rate = "; a learning rate must be finite and not negative.";
  check_is(refusal(0.0f), "accepted");
  check_is(refusal(-0.1f), "schedule constant: learning_rate is -0.1" + rate);
  check_is(refusal(nan_value), "schedule constant: learning_rate is NaN" + rate);
  check_is(refusal(infinity), "schedule constant: learning_rate is infinity" + rate);
  check_is(refusal(1e39), "schedule constant: learning_rate is 1e+39" + rate);
  check_is(refusal(warmup_cosine(nan_value, 1, 2)), "schedule warmup_cosine: peak is NaN" + rate);
  check_is(refusal(warmup_linear(1, 1, 2, -1)), "schedule warmup_linear: floor is -1" + rate);
  check_is(refusal(warmup_linear(1, 1, 2, 3)),
           "schedule warmup_linear: floor is 3 and peak is 1; it must not be above the peak.");
  check_is(refusal(warmup_constant(1, -1)),
           "schedule warmup_constant: warmup is -1; it must not be negative.");
  for (const std::int64_t length : {-5, 0, 100}) {
    check_is(refusal(warmup_cosine(1, 100, length)),
             "schedule warmup_cosine: length is " + std::to_string(length) +
                 " and warmup is 100; the length counts the warm-up too and must be greater (warmup_constant "
                 "stays at the peak).");
  }
  check_is(refusal(step_decay(1, 0)), "schedule step_decay: step_size is 0; it must be at least 1.");
  check_is(refusal(step_decay(1, 5, 0)),
           "schedule step_decay: gamma is 0; it must be finite and greater than 0.");
  check_is(refusal(exponential(1, -0.9)),
           "schedule exponential: gamma is -0.9; it must be finite and greater than 0.");
  check_is(refusal(one_cycle(1, 0)), "schedule one_cycle: total_steps is 0; it must be at least 1.");
  check_is(refusal(one_cycle(1, 10, 1.5)),
           "schedule one_cycle: pct_start is 1.5; it must be between 0 and 1.");
  check_is(refusal(one_cycle(1, 10, 0.3, 0)), "schedule one_cycle: peak / div_factor is infinity" + rate);
  check_is(refusal(one_cycle(1, 10, 0.3, 25, -1)),
           "schedule one_cycle: peak / div_factor / final_div_factor is -0.04" + rate);
}

BOOST_AUTO_TEST_SUITE_END()
