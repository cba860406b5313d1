// Exceptions from the optimizer's options, and which parameters they are for.
#include <boost/test/unit_test.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <string>
#include <vector>

#include "support/given_gradients.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(parameter_rule_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using detail::matches_pattern;
static_assert(matches_pattern("head.weight", "head.weight") &&
              !matches_pattern("head.weight", "head.weights"));
static_assert(!matches_pattern("head.weight", "the head.weight") && !matches_pattern("", "head") &&
              matches_pattern("", ""));
static_assert(matches_pattern("*", "") && matches_pattern("*", "anything.at.all") &&
              matches_pattern("**", "a"));
static_assert(matches_pattern("*.bias", "blocks.0.bias") && !matches_pattern("*.bias", "bias"));
static_assert(!matches_pattern("*.bias", "blocks.0.bias2") && matches_pattern("*.bias*", "blocks.0.bias2"));
static_assert(matches_pattern("blocks.?.weight", "blocks.3.weight") &&
              !matches_pattern("blocks.?.weight", "blocks.12.weight"));
static_assert(matches_pattern("blocks.*.weight", "blocks.12.a.weight") &&
              matches_pattern("*a*b*c", "xxaxxbxxbxxc"));
static_assert(!matches_pattern("*a*b*c", "xxaxxcxxb") && matches_pattern("a*", "a") &&
              !matches_pattern("?", ""));
static_assert(matches_pattern("*ab", "aab") && matches_pattern("a?c*", "abc") &&
              !matches_pattern("a.c", "abc"));

using TheTrainer = Trainer<GivenGradients, AdamW, BFloat16Policy>;
using Values = std::vector<float>;

/// Three weights of sizes 1, 2 and 1, all ones; AdamW that halves them by decay alone at gradient zero.
TheTrainer trainer_with(std::vector<ParameterRule> rules) {
  TheTrainer trainer(GivenGradients({1, 2, 1}), {.learning_rate = 1.0, .weight_decay = 0.5},
                     {.parameters = std::move(rules)});
  trainer.write_parameter("w.0", Values{1.0f});
  trainer.write_parameter("w.1", Values{1.0f, 1.0f});
  trainer.write_parameter("w.2", Values{1.0f});
  return trainer;
}

const GivenBatch zeros{{{0.0f}, {0.0f, 0.0f}, {0.0f}}};

Values after_decay(std::vector<ParameterRule> rules) {
  TheTrainer trainer = trainer_with(std::move(rules));
  trainer.step(zeros);
  return {trainer.read_parameter("w.0")[0], trainer.read_parameter("w.1")[0],
          trainer.read_parameter("w.1")[1], trainer.read_parameter("w.2")[0]};
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_rules_all_parameters_are_alike) {
  BOOST_TEST(after_decay({}) == (Values{0.5f, 0.5f, 0.5f, 0.5f}));
}

BOOST_AUTO_TEST_CASE(decay_can_be_turned_off_or_changed_for_some) {
  BOOST_TEST(after_decay({parameters_named("w.1").no_decay()}) == (Values{0.5f, 1.0f, 1.0f, 0.5f}));
  BOOST_TEST(after_decay({parameters_named("*").weight_decay_factor(0.5f)}) ==
             (Values{0.75f, 0.75f, 0.75f, 0.75f}));
  BOOST_TEST(after_decay({parameters_where([](const ParameterInfo& p) {
                            return p.shape.size() == 1;
                          }).no_decay()}) == (Values{1.0f, 0.5f, 0.5f, 1.0f}));
}

BOOST_AUTO_TEST_CASE(later_rules_win_and_what_they_do_not_name_stays) {
  BOOST_TEST(after_decay({parameters_named("*").no_decay(), parameters_named("w.2").weight_decay_factor(
                                                                1.0f)}) == (Values{1.0f, 1.0f, 1.0f, 0.5f}));
  BOOST_TEST(after_decay({parameters_named("*").no_decay(), parameters_named("w.2").learning_rate_factor(
                                                                0.5f)}) == (Values{1.0f, 1.0f, 1.0f, 1.0f}));
}

BOOST_AUTO_TEST_CASE(a_learning_rate_of_its_own_is_the_schedules_times_a_factor) {
  TheTrainer trainer =
      trainer_with({parameters_named("w.?").no_decay(), parameters_named("w.2").learning_rate_factor(0.25f)});
  const StepReport report = trainer.step(GivenBatch{{{1.0f}, {1.0f, 1.0f}, {1.0f}}}).report();
  BOOST_TEST(report.learning_rate == 1.0f);
  // Adam's first step is the learning rate.
  BOOST_TEST(std::abs(trainer.read_parameter("w.0")[0]) <= 1e-6f);
  BOOST_TEST(std::abs(trainer.read_parameter("w.2")[0] - 0.75f) <= 1e-6f);
}

BOOST_AUTO_TEST_CASE(a_frozen_parameter_has_no_gradient_no_update_and_no_decay) {
  TheTrainer trainer = trainer_with({parameters_named("w.1").freeze()});
  const StepReport report =
      trainer.step(GivenBatch{{{3.0f}, {100.0f, std::numeric_limits<float>::infinity()}, {4.0f}}}).report();
  BOOST_TEST(report.applied());
  BOOST_TEST(report.gradient_norm == 5.0);
  BOOST_TEST(trainer.read_parameter("w.1") == (Values{1.0f, 1.0f}));
  BOOST_TEST(trainer.parameters()[1].frozen);
  BOOST_TEST(!trainer.parameters()[0].frozen);
}

BOOST_AUTO_TEST_CASE(a_parameter_that_the_model_froze_needs_no_rule) {
  GivenGradients model({1, 1});
  model.weights[0].frozen = true;
  TheTrainer trainer(std::move(model), {.learning_rate = 1.0});
  trainer.step(GivenBatch{{{1.0f}, {1.0f}}});
  BOOST_TEST(trainer.read_parameter("w.0") == Values{0.0f});
  BOOST_TEST(trainer.read_parameter("w.1") != Values{0.0f});
}

BOOST_AUTO_TEST_CASE(a_rule_that_matches_none_is_refused_with_the_names_there_are) {
  for (const char* pattern : {"w.3", "", "w", "bias"}) {
    const std::string message =
        refusal<ConfigurationError>([&] { trainer_with({parameters_named(pattern).no_decay()}); });
    check_holds(message, {"named \"" + std::string(pattern) + "\" matches none"});
    check_holds(message, {"\"w.0\" \"w.1\" \"w.2\""});
  }
  const std::string message = refusal<ConfigurationError>(
      [&] { trainer_with({parameters_where([](const ParameterInfo&) { return false; }).freeze()}); });
  check_holds(message, {"a predicate accepts matches none"});
  refusal<ConfigurationError>([] { parameters_where(nullptr); });
}

BOOST_AUTO_TEST_CASE(factors_that_turn_or_poison_an_update_are_refused_by_name) {
  for (const float factor :
       {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::string value = detail::describe_number(factor);
    const std::string rate = refusal<ConfigurationError>(
        [&] { trainer_with({parameters_named("w.1").learning_rate_factor(factor)}); });
    check_holds(rate, {"w.1: learning_rate_factor is " + value});
    const std::string decay = refusal<ConfigurationError>(
        [&] { trainer_with({parameters_named("w.1").weight_decay_factor(factor)}); });
    check_holds(decay, {"w.1: weight_decay_factor is " + value});
  }
}

BOOST_AUTO_TEST_SUITE_END()
