// A closed window whose gradients are in the caller's hands: unscale, look, clip, change, apply or let go.
#include <boost/test/unit_test.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/given_gradients.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(gradients_in_hand_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using TheTrainer = Trainer<GivenGradients, SGD, ChosenScalerPolicy>;
using Values = std::vector<float>;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

TheTrainer trainer_of(const std::vector<std::int64_t>& sizes, TheTrainer::Options options = {}) {
  choose_scaler({.initial_scale = 1024});
  return TheTrainer(GivenGradients(sizes), {.learning_rate = 1}, std::move(options));
}

Gradients<Unscaled> unscaled_window(TheTrainer& trainer, const GivenBatch& batch) {
  trainer.accumulate(batch);
  return trainer.close_window().unscale();
}

/// What a trainer of one weight tensor does with gradients that were treated like this.
template <class Treat>
Values weights_after(const Values& gradient, const Treat& treat) {
  TheTrainer trainer = trainer_of({static_cast<std::int64_t>(gradient.size())});
  auto gradients = unscaled_window(trainer, {{gradient}});
  treat(gradients);
  trainer.apply(std::move(gradients));
  return trainer.read_parameter("w.0");
}

const float to_one = static_cast<float>(1.0 / (5.0 + 1e-6));

}  // namespace

BOOST_AUTO_TEST_CASE(closing_unscaling_and_applying_is_an_update) {
  TheTrainer by_hand = trainer_of({2, 1}), by_update = trainer_of({2, 1});
  for (const float g : {0.3f, -7.7f}) {
    const GivenBatch batch{{{g, 2 * g}, {0.1f}}, 3, 1.0f};
    auto gradients = unscaled_window(by_hand, batch);
    const double norm = gradients.norm();
    BOOST_TEST(gradients.is_finite());
    const StepReport report = by_hand.apply(std::move(gradients)).report();
    by_update.step(batch);
    BOOST_TEST(report.gradient_norm == norm);
    BOOST_TEST(report.applied());
    BOOST_TEST(by_hand.read_parameter("w.0") == by_update.read_parameter("w.0"));
    BOOST_TEST((by_hand.state() == by_update.state()));
  }
}

BOOST_AUTO_TEST_CASE(clipping_of_the_options_is_not_done_by_hand) {
  TheTrainer trainer = trainer_of({1}, {.clip_norm = 1.0f, .clip_value = 1.0f});
  trainer.apply(unscaled_window(trainer, {{{5.0f}}}));
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-5.0f});
}

BOOST_AUTO_TEST_CASE(clipping_by_hand_takes_the_true_norm_and_may_be_repeated) {
  const Values five{3.0f, 4.0f};
  BOOST_TEST(weights_after(five, [](auto& g) { g.clip_norm(1.0f); }) ==
             (Values{-3.0f * to_one, -4.0f * to_one}));
  BOOST_TEST(weights_after(five, [](auto& g) {
               g.clip_norm(1.0f);
               g.clip_norm(2.0f);
             }) == (Values{-3.0f * to_one, -4.0f * to_one}));
  BOOST_TEST(weights_after(five, [](auto& g) { g.clip_norm(5.5f); }) == (Values{-3.0f, -4.0f}));
  BOOST_TEST(weights_after(five, [](auto& g) { g.clip_norm(infinity); }) == (Values{-3.0f, -4.0f}));
  BOOST_TEST(weights_after(five, [](auto& g) { g.clip_value(3.5f); }) == (Values{-3.0f, -3.5f}));
  BOOST_TEST(weights_after(five, [](auto& g) {
               g.clip_value(3.5f);
               g.clip_value(3.9f);
             }) == (Values{-3.0f, -3.5f}));
  BOOST_TEST(weights_after(five, [](auto& g) {
               g.clip_norm(1.0f);
               g.clip_value(0.7f);
             }) == (Values{-3.0f * to_one, -0.7f}));
  BOOST_TEST(weights_after(five, [](auto& g) { g.clip_value(infinity); }) == (Values{-3.0f, -4.0f}));
}

BOOST_AUTO_TEST_CASE(the_norm_of_the_window_is_that_before_clipping_and_the_report_tells_the_coefficient) {
  TheTrainer trainer = trainer_of({2});
  auto gradients = unscaled_window(trainer, {{{3.0f, 4.0f}}});
  gradients.clip_norm(1.0f);
  BOOST_TEST(gradients.norm() == 5.0);
  const StepReport report = trainer.apply(std::move(gradients)).report();
  BOOST_TEST(report.gradient_norm == 5.0);
  BOOST_TEST(report.clip_coefficient == to_one);
}

BOOST_AUTO_TEST_CASE(thresholds_that_cannot_be_right_are_refused_and_change_nothing) {
  TheTrainer trainer = trainer_of({2});
  auto gradients = unscaled_window(trainer, {{{3.0f, 4.0f}}});
  for (const float threshold : {0.0f, -1.0f, nan_value, -infinity}) {
    const std::string value = detail::describe_number(threshold);
    const std::string by_norm = refusal<ConfigurationError>([&] { gradients.clip_norm(threshold); });
    check_holds(by_norm, {"clip_norm is " + value});
    const std::string by_value = refusal<ConfigurationError>([&] { gradients.clip_value(threshold); });
    check_holds(by_value, {"clip_value is " + value});
  }
  trainer.apply(std::move(gradients));
  BOOST_TEST(trainer.read_parameter("w.0") == (Values{-3.0f, -4.0f}));
}

BOOST_AUTO_TEST_CASE(for_each_shows_true_gradients_by_name_in_order_and_only_where_there_are_any) {
  TheTrainer trainer = trainer_of({2, 1, 3}, {.parameters = {parameters_named("w.1").freeze()}});
  auto gradients = unscaled_window(trainer, {{{3.0f, 4.0f}, {100.0f}, {}}, 2});
  std::string seen;
  gradients.for_each([&](std::string_view name, Tensor<float> gradient) {
    seen += std::string(name) + gradient.shape().text() + " " + std::to_string(gradient[0]) + " " +
            std::to_string(gradient[1]) + ";";
  });
  BOOST_TEST(seen == "w.0[2] 1.500000 2.000000;");
  BOOST_TEST(gradients.norm() == 2.5);
  trainer.apply(std::move(gradients));
  BOOST_TEST(trainer.read_parameter("w.0") == (Values{-1.5f, -2.0f}));
  BOOST_TEST(trainer.read_parameter("w.1") == Values{0.0f});
}

BOOST_AUTO_TEST_CASE(for_each_may_change_gradients_and_what_it_leaves_is_measured) {
  TheTrainer trainer = trainer_of({2});
  auto gradients = unscaled_window(trainer, {{{nan_value, 4.0f}}});
  BOOST_TEST(!gradients.is_finite());
  gradients.for_each([](std::string_view, Tensor<float> gradient) { gradient[0] = 3.0f; });
  BOOST_TEST(gradients.is_finite());
  BOOST_TEST(gradients.norm() == 5.0);
  gradients.clip_norm(1.0f);
  BOOST_TEST(trainer.apply(std::move(gradients)).report().applied());
  BOOST_TEST(trainer.read_parameter("w.0") == (Values{-3.0f * to_one, -4.0f * to_one}));

  auto spoilt = unscaled_window(trainer, {{{1.0f, 1.0f}}});
  spoilt.for_each([](std::string_view, Tensor<float> gradient) { gradient[1] = infinity; });
  BOOST_TEST(!spoilt.is_finite());
  const StepReport report = trainer.apply(std::move(spoilt)).report();
  BOOST_TEST((report.skip_cause == SkipCause::gradient));
  BOOST_TEST(report.first_non_finite.index == 1);
  BOOST_TEST(report.next_scale == 512.0f);
}

BOOST_AUTO_TEST_CASE(a_norm_to_clip_to_waits_for_gradients_that_are_finite) {
  TheTrainer trainer = trainer_of({2});
  for (const bool looks : {false, true}) {
    auto gradients = unscaled_window(trainer, {{{infinity, 4.0f}}});
    trainer.write_parameter("w.0", Values{0.0f, 0.0f});
    gradients.clip_norm(1.0f);
    gradients.clip_norm(2.0f);  // the shorter one stays
    gradients.for_each([](std::string_view, Tensor<float> gradient) { gradient[0] = 3.0f; });
    if (looks) gradients.for_each([](std::string_view, Tensor<float>) {});
    const StepReport report = trainer.apply(std::move(gradients)).report();
    BOOST_TEST(report.applied());
    const Values weights = trainer.read_parameter("w.0");
    BOOST_TEST(weights[0] == -0.6f, boost::test_tools::tolerance(1e-6f));
    BOOST_TEST(weights[1] == -0.8f, boost::test_tools::tolerance(1e-6f));
  }
}

BOOST_AUTO_TEST_CASE(for_each_that_throws_still_leaves_a_measured_window) {
  TheTrainer trainer = trainer_of({2});
  auto gradients = unscaled_window(trainer, {{{3.0f, 4.0f}}});
  BOOST_CHECK_THROW(gradients.for_each([](std::string_view, Tensor<float> gradient) {
    gradient[0] = nan_value;
    throw std::runtime_error("enough");
  }),
                    std::runtime_error);
  BOOST_TEST(!gradients.is_finite());
  BOOST_TEST((trainer.apply(std::move(gradients)).report().outcome == Outcome::skipped));
}

BOOST_AUTO_TEST_CASE(clipping_makes_no_ordinary_number_of_an_infinite_gradient) {
  TheTrainer trainer = trainer_of({2});
  auto gradients = unscaled_window(trainer, {{{infinity, 4.0f}}});
  gradients.clip_norm(1.0f);
  gradients.clip_value(0.5f);
  gradients.for_each([](std::string_view, Tensor<float> gradient) {
    BOOST_TEST(gradient[0] == infinity);
    BOOST_TEST(gradient[1] == 4.0f);
  });
  BOOST_TEST(!gradients.is_finite());
  const StepReport report = trainer.apply(std::move(gradients)).report();
  BOOST_TEST((report.outcome == Outcome::skipped));
  BOOST_TEST(report.clip_coefficient == 1.0f);
  BOOST_TEST(trainer.read_parameter("w.0") == (Values{0.0f, 0.0f}));
}

BOOST_AUTO_TEST_CASE(a_skipped_window_reports_no_clipping) {
  TheTrainer trainer = trainer_of({2});
  auto gradients = unscaled_window(trainer, {{{3.0f, 4.0f}}, 1, nan_value});
  gradients.clip_norm(1.0f);
  const StepReport report = trainer.apply(std::move(gradients)).report();
  BOOST_TEST((report.skip_cause == SkipCause::loss));
  BOOST_TEST(report.gradient_norm == 5.0);
  BOOST_TEST(report.clip_coefficient == 1.0f);
}

BOOST_AUTO_TEST_CASE(a_limit_set_over_a_bad_gradient_holds_for_what_it_is_mended_to) {
  BOOST_TEST(weights_after({infinity, 4.0f}, [](auto& gradients) {
               gradients.clip_value(0.5f);
               gradients.for_each([](std::string_view, Tensor<float> gradient) { gradient[0] = 0.25f; });
             }) == (Values{-0.25f, -0.5f}));
}

BOOST_AUTO_TEST_CASE(looking_at_gradients_changes_no_bit) {
  for (const bool looks : {false, true}) {
    BOOST_TEST(weights_after({0.1f, -7.3f, 1e-30f}, [&](auto& gradients) {
                 gradients.clip_norm(0.3f);
                 if (looks) gradients.for_each([](std::string_view, Tensor<float>) {});
               }) == weights_after({0.1f, -7.3f, 1e-30f}, [&](auto& gradients) {
                 if (looks) gradients.for_each([](std::string_view, Tensor<float>) {});
                 gradients.clip_norm(0.3f);
               }));
  }
}

BOOST_AUTO_TEST_CASE(gradients_let_go_abandon_their_window) {
  TheTrainer trainer = trainer_of({1});
  const StepState before = trainer.state();
  trainer.accumulate(GivenBatch{{{5.0f}}});
  { const auto scaled = trainer.close_window(); }
  BOOST_TEST((trainer.state() == before));
  { const auto unscaled = unscaled_window(trainer, {{{infinity}}}); }
  BOOST_TEST((trainer.state() == before));
  {
    auto one = unscaled_window(trainer, {{{3.0f}}});
    one = Gradients<Unscaled>(std::move(one));
    BOOST_TEST(one.norm() == 3.0);
  }
  trainer.step(GivenBatch{{{1.0f}}});
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-1.0f});
  BOOST_TEST(trainer.state().attempts == 1);
}

BOOST_AUTO_TEST_CASE(while_a_window_is_in_hand_no_other_begins) {
  TheTrainer trainer = trainer_of({1});
  trainer.accumulate(GivenBatch{{{3.0f}}});
  auto scaled = trainer.close_window();
  BOOST_TEST(scaled.loss_scale() == 1024.0f);
  const GivenBatch other{{{100.0f}}};
  for (const auto& [call, name] : std::vector<std::pair<std::function<void()>, std::string>>{
           {[&] { trainer.accumulate(other); }, "accumulate"},
           {[&] { trainer.step(other); }, "accumulate"},
           {[&] { trainer.update(); }, "update"},
           {[&] { trainer.abandon(); }, "abandon"},
           {[&] { (void)trainer.close_window(); }, "close_window"}}) {
    const std::string message = refusal<ConfigurationError>(call);
    check_holds(message, {name + ": the window is closed"});
  }
  trainer.apply(std::move(scaled).unscale());
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-3.0f});
}

BOOST_AUTO_TEST_CASE(gradients_that_were_moved_from_are_refused_at_every_use) {
  TheTrainer trainer = trainer_of({1});
  trainer.accumulate(GivenBatch{{{3.0f}}});
  auto scaled = trainer.close_window();
  auto unscaled = std::move(scaled).unscale();
  auto moved = std::move(unscaled);
  const auto nothing = [](std::string_view, Tensor<float>) {};
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { scaled.loss_scale(); }, [&] { (void)std::move(scaled).unscale(); }, [&] { unscaled.norm(); },
           [&] { unscaled.is_finite(); }, [&] { unscaled.clip_norm(1.0f); },
           [&] { unscaled.clip_value(1.0f); }, [&] { unscaled.for_each(nothing); },
           [&] { trainer.apply(std::move(unscaled)); }}) {
    const std::string message = refusal<ConfigurationError>(call);
    check_holds(message, {"these gradients were moved from"});
  }
  trainer.apply(std::move(moved));
  BOOST_TEST(trainer.read_parameter("w.0") == Values{-3.0f});
  const std::string twice = refusal<ConfigurationError>([&] { trainer.apply(std::move(moved)); });
  check_holds(twice, {"applied already"});
  BOOST_TEST(trainer.state().attempts == 1);
}

BOOST_AUTO_TEST_CASE(another_trainers_gradients_are_refused_and_stay_whole) {
  TheTrainer owner = trainer_of({1}), other = trainer_of({1});
  auto gradients = unscaled_window(owner, {{{3.0f}}});
  other.accumulate(GivenBatch{{{5.0f}}});
  const std::string message = refusal<ConfigurationError>([&] { other.apply(std::move(gradients)); });
  check_holds(message, {"belong to another trainer"});
  BOOST_TEST(other.state().attempts == 0);
  other.update();
  BOOST_TEST(other.read_parameter("w.0") == Values{-5.0f});
  owner.apply(std::move(gradients));
  BOOST_TEST(owner.read_parameter("w.0") == Values{-3.0f});
}

BOOST_AUTO_TEST_CASE(gradients_outlive_a_trainer_that_moves_or_ends) {
  std::optional<Gradients<Unscaled>> kept;
  {
    TheTrainer first = trainer_of({1});
    kept.emplace(unscaled_window(first, {{{3.0f}}}));
    TheTrainer second = std::move(first);
    second.apply(std::move(*kept));
    BOOST_TEST(second.read_parameter("w.0") == Values{-3.0f});
    kept.emplace(unscaled_window(second, {{{4.0f}}}));
  }
  BOOST_TEST(kept->norm() == 4.0);
}

BOOST_AUTO_TEST_SUITE_END()
