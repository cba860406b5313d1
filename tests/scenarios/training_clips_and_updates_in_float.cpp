// Clipping of true gradients, degenerate norms and thresholds, and updates too small for 16 bits: with a
// trainer.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/given_gradients.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(training_clips_and_updates_in_float_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Values = std::vector<float>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

using ScaledTrainer = Trainer<GivenGradients, SGD, ChosenScalerPolicy>;

struct Result {
  Values weights;
  StepReport report;
};

/// One step on this gradient at a scale, learning rate 1, from weights of zero.
Result step(const Values& gradient, float scale, ScaledTrainer::Options options, bool in_float16 = false) {
  choose_scaler({.initial_scale = scale});
  ScaledTrainer trainer(GivenGradients({static_cast<std::int64_t>(gradient.size())}, in_float16),
                        {.learning_rate = 1}, std::move(options));
  const StepReport report = trainer.step(GivenBatch{{gradient}}).report();
  return {trainer.read_parameter("w.0"), report};
}

/// A weight of 1 after as many updates.
template <class TheTrainer>
std::pair<float, float> master_and_copy(TheTrainer trainer, int updates, float gradient) {
  trainer.write_parameter("w.0", Values{1.0f});
  for (int update = 0; update < updates; ++update) trainer.step(GivenBatch{{{gradient}}});
  BOOST_TEST(trainer.state().update_number == updates);
  return {trainer.read_parameter("w.0")[0], trainer.predict(std::size_t{0})[0]};
}

}  // namespace

BOOST_AUTO_TEST_CASE(clipping_sees_true_gradients_whatever_the_scale) {
  for (const float scale : {1.0f, 65536.0f}) {
    const Result small = step({0.3f, 0.4f}, scale, {.clip_norm = 1.0f});
    BOOST_TEST(std::abs(small.report.gradient_norm - 0.5) <= 1e-7);
    BOOST_TEST(small.report.clip_coefficient == 1.0f);
    BOOST_TEST(small.weights == (Values{-0.3f, -0.4f}));

    const Result large = step({3.0f, 4.0f}, scale, {.clip_norm = 1.0f});
    BOOST_TEST(large.report.gradient_norm == 5.0);
    BOOST_TEST(std::abs(large.weights[0] + 0.6f) <= 1e-6f);
    BOOST_TEST(std::abs(large.weights[1] + 0.8f) <= 1e-6f);

    BOOST_TEST(step({0.3f, -0.05f}, scale, {.clip_value = 0.1f}).weights == (Values{-0.1f, 0.05f}));
  }
}

BOOST_AUTO_TEST_CASE(a_norm_of_zero_clips_nothing_and_is_an_update) {
  const Result zero = step({0.0f, 0.0f}, 65536, {.clip_norm = 1.0f});
  BOOST_TEST(zero.report.applied());
  BOOST_TEST(zero.report.gradient_norm == 0.0);
  BOOST_TEST(zero.report.clip_coefficient == 1.0f);
  BOOST_TEST(zero.weights == (Values{0.0f, 0.0f}));
}

BOOST_AUTO_TEST_CASE(no_gradients_at_all_have_a_norm_of_zero) {
  choose_scaler({});
  ScaledTrainer trainer(GivenGradients({1}), {.learning_rate = 1}, {.clip_norm = 1.0f});
  BOOST_TEST(trainer.step(GivenBatch{}).report().gradient_norm == 0.0);
  trainer.accumulate(GivenBatch{});
  auto gradients = trainer.close_window().unscale();
  BOOST_TEST(gradients.norm() == 0.0);
  BOOST_TEST(gradients.is_finite());
  gradients.clip_norm(1.0f);
  BOOST_TEST((trainer.apply(std::move(gradients)).report().outcome == Outcome::no_gradients));
}

BOOST_AUTO_TEST_CASE(a_threshold_has_one_meaning_or_is_refused) {
  for (const float threshold : {-1.0f, 0.0f, nan_value}) {
    const std::string message = refusal<ConfigurationError>([&] {
      step({3.0f, 4.0f}, 65536, {.clip_norm = threshold});
    });
    check_holds(message, {"clip_norm is " + detail::describe_number(threshold)});
  }
  const Result measured = step({3.0f, 4.0f}, 65536, {.clip_norm = infinity});
  BOOST_TEST(measured.report.gradient_norm == 5.0);
  BOOST_TEST(measured.weights == (Values{-3.0f, -4.0f}));
}

BOOST_AUTO_TEST_CASE(norm_and_coefficient_of_float16_gradients_leave_float16s_range_unharmed) {
  const Result one = step({300.0f}, 1, {.clip_norm = 1.0f}, true);
  BOOST_TEST(one.report.gradient_norm == 300.0);
  BOOST_TEST(std::abs(one.weights[0] + 1.0f) <= 1e-3f);
  const Result four = step({60000.0f, 60000.0f, 60000.0f, 60000.0f}, 1, {.clip_norm = 1e-3f}, true);
  BOOST_TEST(four.report.gradient_norm == 120000.0);
  for (const float weight : four.weights) {
    BOOST_TEST(std::abs(weight + 5.0e-4f) <= 1e-9f);
    BOOST_TEST(float16(-weight).bits() == 0x1019);  // 0.000500202
  }
}

BOOST_AUTO_TEST_CASE(updates_too_small_for_bfloat16_add_up_in_a_float_master) {
  using TheTrainer = Trainer<GivenGradients, SGD, BFloat16Policy>;
  const auto [master, copy] =
      master_and_copy(TheTrainer{GivenGradients({1}), {.learning_rate = 6e-4}}, 100, 1.0f);
  BOOST_TEST(master == 0.940001965f);
  BOOST_TEST(copy == 0.94140625f);
}

BOOST_AUTO_TEST_CASE(decay_too_small_for_bfloat16_works_on_a_float_master) {
  using TheTrainer = Trainer<GivenGradients, AdamW, BFloat16Policy>;
  const auto [master, copy] = master_and_copy(
      TheTrainer{GivenGradients({1}), {.learning_rate = 1e-3, .weight_decay = 0.01}}, 1000, 0.0f);
  BOOST_TEST(std::abs(master - 0.990034f) <= 5e-7f);  // the digits that are given
  BOOST_TEST(copy == static_cast<float>(bfloat16(master)));
}

BOOST_AUTO_TEST_CASE(updates_too_small_for_float16_add_up_in_a_float_master) {
  for (const float scale : {65536.0f, 1024.0f}) {
    choose_scaler({.initial_scale = scale});
    const auto [master, copy] =
        master_and_copy(ScaledTrainer{GivenGradients({1}), {.learning_rate = 2e-4}}, 100, 1.0f);
    BOOST_TEST(std::abs(master - 0.98f) <= 100 * 3e-8f);  // half a unit an update
    BOOST_TEST(std::abs(copy - 0.97998f) <= 5e-6f);
  }
}

BOOST_AUTO_TEST_SUITE_END()
