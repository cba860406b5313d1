// Where halfstep differs from PyTorch on purpose: one test for each row of the table in
// docs/coming-from-pytorch.md. What PyTorch does there was asked of PyTorch (differences.npz).
#include <algorithm>
#include <boost/test/tree/traverse.hpp>
#include <boost/test/tree/visitor.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <halfstep/halfstep.hpp>
#include <limits>

#include "golden/golden.hpp"
#include "support/given_gradients.hpp"
#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(differences_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

const GoldenFile& pytorch() {
  static const GoldenFile golden("differences");
  return golden;
}
float pytorchs(const std::string& name) { return pytorch().number(name); }
bool raises_in_pytorch(const std::string& call) {
  return pytorch().read<std::int32_t>("error." + call).size() > 0;
}

struct AdvancingPolicy : ChosenScalerPolicy {
  using on_skip = AdvanceSchedule;
  static constexpr std::int64_t stop_after_skips = 3;
};

/// As many weights of one element as named, zero at first; learning rate 1.
template <class Policy = ChosenScalerPolicy, class Optimizer = SGD>
Trainer<GivenGradients, Optimizer, Policy> weights(std::size_t count,
                                                   Optimizer optimizer = {.learning_rate = 1.0},
                                                   float clip_norm = infinity, bool in_compute_type = false) {
  return Trainer<GivenGradients, Optimizer, Policy>(
      GivenGradients(std::vector<std::int64_t>(count, 1), in_compute_type), std::move(optimizer),
      {.clip_norm = clip_norm});
}
GivenBatch gradient_of(float g, std::int64_t count = 1) { return {{{g}}, count}; }

}  // namespace

BOOST_AUTO_TEST_CASE(finite_gradients_never_have_an_infinite_norm) {
  const auto gradients = pytorch().read("large.gradients");
  BOOST_TEST(pytorchs("large.norm") == infinity);
  for (const float clipped : pytorch().read("large.clipped").values)
    BOOST_TEST(clipped == 0.0f);  // nothing is learned

  auto trainer = weights<Float32Policy>(3, SGD{.learning_rate = 1.0}, 1.0f);
  const StepReport report =
      trainer.step(GivenBatch{{{gradients[0]}, {gradients[1]}, {gradients[2]}}}).report();
  BOOST_TEST(std::abs(report.gradient_norm / 3e30 - 1) < 1e-6);
  BOOST_TEST(std::abs(trainer.read_parameter("w.0")[0] + 1.0f / 3) < 1e-6f);
  BOOST_TEST(std::abs(trainer.read_parameter("w.2")[0] - 2.0f / 3) < 1e-6f);
}

namespace {

/// The gradient of its one weight is the sum of the inputs.
template <class Layer>
struct SumOfInputs {
  Layer layer{1, 1, LinearOptions{.bias = false}};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
  template <class Tape>
  Loss loss(Tape& tape, const std::vector<float>& inputs) const {
    return sum(
        tape, layer(tape, Tensor<const float>(inputs.data(), {static_cast<std::int64_t>(inputs.size()), 1})));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_are_checked_after_they_were_unscaled) {
  BOOST_TEST(pytorchs("weight_where_unscaling_overflows") == -infinity);

  const ScalerChoice scaler({.initial_scale = 0x1p-10f});
  using Model = SumOfInputs<ComputeIn<float, Linear>>;
  Trainer<Model, SGD, ChosenScalerPolicy> trainer(Model{}, {.learning_rate = 1.0});
  trainer.write_parameter("layer.weight", std::vector<float>{0.0f});
  const StepReport report = trainer.step(std::vector<float>{3e38f, 3e38f}).report();
  BOOST_TEST((report.skip_cause == SkipCause::gradient));
  BOOST_TEST(trainer.read_parameter("layer.weight")[0] == 0.0f);
}

BOOST_AUTO_TEST_CASE(the_scale_has_a_minimum_and_says_when_it_is_there) {
  BOOST_TEST(pytorchs("scale_after_100_overflows") == 0x1p-84f);

  auto trainer = weights(1);
  ScaleChange last{};
  for (int window = 0; window < 100; ++window)
    last = trainer.step(gradient_of(infinity)).report().scale_change;
  BOOST_TEST(trainer.state().scaler.scale == 0x1p-16f);
  BOOST_TEST((last == ScaleChange::at_minimum));
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_skips_and_leaves_the_scale) {
  BOOST_TEST(pytorchs("scale_after_an_infinite_loss") == 32768.0f);

  auto trainer = weights(1);
  const StepReport report = trainer.step(GivenBatch{{{infinity}}, 1, infinity}).report();
  BOOST_TEST((report.skip_cause == SkipCause::loss));
  BOOST_TEST(report.next_scale == 65536.0f);
}

BOOST_AUTO_TEST_CASE(the_mean_is_over_the_window_and_not_of_the_means_of_micro_batches) {
  BOOST_TEST(pytorchs("weight_after_micro_batches_of_3_and_1") == -(2.0f + 10.0f) / 2);

  auto trainer = weights(1);
  trainer.accumulate(gradient_of(1.0f + 2.0f + 3.0f, 3));
  trainer.accumulate(gradient_of(10.0f, 1));
  trainer.update();
  BOOST_TEST(trainer.read_parameter("w.0")[0] == -(1.0f + 2.0f + 3.0f + 10.0f) / 4);
}

BOOST_AUTO_TEST_CASE(a_window_without_gradients_is_counted_and_is_no_error) {
  BOOST_TEST(raises_in_pytorch("step_without_gradients"));

  auto trainer = weights(1);
  const StepReport report = trainer.step(GivenBatch{{{}}}).report();
  BOOST_TEST((report.outcome == Outcome::no_gradients));
  BOOST_TEST(report.empty == 1);
  BOOST_TEST(report.next_scale == 65536.0f);
}

BOOST_AUTO_TEST_CASE(a_batch_whose_rows_are_all_ignored_counts_nothing) {
  BOOST_TEST(is_nan(pytorchs("loss_with_all_rows_ignored")));

  auto trainer = weights(1);
  trainer.accumulate(gradient_of(nan_value, 0));
  trainer.accumulate(gradient_of(2.0f, 1));
  BOOST_TEST(trainer.update().report().applied());
  BOOST_TEST(trainer.read_parameter("w.0")[0] == -2.0f);
}

BOOST_AUTO_TEST_CASE(gradients_of_weights_are_summed_and_kept_in_float) {
  BOOST_TEST(pytorchs("weight_gradient_in_float16") == infinity);

  // 64 times 2048 is over 65504.
  Session<Float16ScaledPolicy, SumOfInputs<Linear>> session;
  const Loss loss = session.model.loss(session.tape, std::vector<float>(64, 1.0f));
  session.backward(loss.sum, 2048.0f);
  BOOST_TEST(session.gradient("layer.weight")[0] == 64.0f * 2048.0f);
}

BOOST_AUTO_TEST_CASE(gradients_are_checked_without_a_scaler_too) {
  BOOST_TEST(is_nan(pytorchs("weight_after_nan_without_scaler")));

  auto trainer = weights<Float32Policy>(1);
  BOOST_TEST((trainer.step(gradient_of(nan_value)).report().outcome == Outcome::skipped));
  BOOST_TEST(trainer.read_parameter("w.0")[0] == 0.0f);
}

BOOST_AUTO_TEST_CASE(the_schedule_holds_on_a_skip_unless_the_policy_says_otherwise) {
  const auto rates = [](auto trainer) {
    std::vector<float> used;
    for (const float gradient : {infinity, infinity, 1.0f, 1.0f}) {
      const StepReport report = trainer.step(gradient_of(gradient)).report();
      if (report.applied()) used.push_back(report.learning_rate);
    }
    return used;
  };
  const SGD halving{.learning_rate = exponential(1.0, 0.5)};
  BOOST_TEST(rates(weights(1, halving)) == (std::vector<float>{1.0f, 0.5f}),
             boost::test_tools::per_element());
  BOOST_TEST(rates(weights<AdvancingPolicy>(1, halving)) == pytorch().read("rates_of_updates").values,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(thresholds_of_clipping_that_turn_or_erase_gradients_are_refused) {
  BOOST_TEST(pytorch().read("clipped_by_minus_one")[0] < 0.0f);
  BOOST_TEST(pytorch().read("clipped_by_zero")[0] == 0.0f);
  BOOST_TEST(is_nan(pytorch().read("clipped_by_nan")[0]));

  for (const float max_norm : {-1.0f, 0.0f, nan_value}) {
    const std::string message =
        refusal<ConfigurationError>([&] { weights(1, SGD{.learning_rate = 1.0}, max_norm); });
    BOOST_TEST(holds(message, "clip_norm is"), message);
  }
}

BOOST_AUTO_TEST_CASE(by_hand_the_norm_is_clipped_before_the_values_in_whichever_order_it_is_asked_for) {
  const auto by_hand = [](auto clip) {
    auto trainer = weights<Float32Policy>(2);
    trainer.accumulate(GivenBatch{{{3.0f}, {4.0f}}});
    auto gradients = trainer.close_window().unscale();
    clip(gradients);
    trainer.apply(std::move(gradients));
    return std::vector<float>{-trainer.read_parameter("w.0")[0], -trainer.read_parameter("w.1")[0]};
  };
  const auto norm_first = pytorch().read("clipped_by_norm_then_value").values;   // 0.6, 0.8
  const auto value_first = pytorch().read("clipped_by_value_then_norm").values;  // twice the root of a half
  check_close(by_hand([](auto& gradients) {
                gradients.clip_value(1.0f);
                gradients.clip_norm(1.0f);
              }),
              norm_first, float_tolerance);
  check_close(by_hand([](auto& gradients) {
                gradients.clip_norm(1.0f);
                gradients.clip_value(1.0f);
              }),
              norm_first, float_tolerance);
  check_close(by_hand([](auto& gradients) {
                gradients.clip_value(1.0f);
                gradients.for_each([](std::string_view, Tensor<float>) {});
                gradients.clip_norm(1.0f);
              }),
              value_first, float_tolerance);
  BOOST_TEST(std::abs(norm_first[0] - value_first[0]) > 0.1f);
}

BOOST_AUTO_TEST_CASE(a_dropout_that_would_drop_everything_is_refused) {
  for (const float value : pytorch().read("dropped_with_probability_1").values) BOOST_TEST(value == 0.0f);

  Session<Float32Policy> session;
  Watched<float> x(Shape{3}, {1.0f, -2.0f, 3.0f});
  const auto input = watch(session.tape, x);
  const std::string message = refusal<ConfigurationError>([&] { dropout(session.tape, input, 1.0f); });
  BOOST_TEST(holds(message, "the probability is 1"), message);
}

BOOST_AUTO_TEST_CASE(an_epsilon_that_lets_zero_be_divided_by_zero_is_refused) {
  BOOST_TEST(is_nan(pytorchs("adam_without_epsilon")));

  const std::string message = refusal<ConfigurationError>(
      [] { weights<Float32Policy>(1, Adam{.learning_rate = 1.0, .epsilon = 0}); });
  BOOST_TEST(holds(message, "epsilon is 0"), message);
}

BOOST_AUTO_TEST_CASE(a_schedule_stays_at_its_floor_past_its_end) {
  BOOST_TEST(raises_in_pytorch("one_cycle_past_its_end"));
  BOOST_TEST(std::abs(pytorchs("cosine_100_at_150") - 0.5f) < 1e-6f);  // on its way up again

  BOOST_TEST(one_cycle(1.0, 10)(11) == one_cycle(1.0, 10)(9));
  BOOST_TEST(warmup_cosine(1.0, 0, 100)(150) == 0.0f);
}

BOOST_AUTO_TEST_CASE(warm_up_rises_from_zero) {
  BOOST_TEST(pytorchs("first_rate_of_linear_warmup") == static_cast<float>(1.0 / 3));
  BOOST_TEST(pytorchs("last_rate_of_linear_warmup") == 1.0f);

  BOOST_TEST(warmup_constant(1.0, 100)(0) == 0.0f);
  BOOST_TEST(warmup_constant(1.0, 100)(100) == 1.0f);
}

BOOST_AUTO_TEST_CASE(one_update_number_serves_all_parameters) {
  const auto after_three_windows_without = [](auto trainer) {
    for (int window = 0; window < 3; ++window) trainer.step(GivenBatch{{{1.0f}, {}}});
    trainer.step(GivenBatch{{{1.0f}, {1.0f}}});
    return trainer.read_parameter("w.1")[0];
  };
  BOOST_TEST(std::abs(pytorchs("adam_late_first_step") + 1.0f) < 1e-6f);  // t = 1
  BOOST_TEST(pytorchs("sgd_late_first_step") == -1.0f);                   // undamped

  const float adam = after_three_windows_without(weights<Float32Policy>(2, Adam{.learning_rate = 1.0}));
  const double m = 0.1 / (1 - std::pow(0.9, 4)), v = 0.001 / (1 - std::pow(0.999, 4));
  BOOST_TEST(std::abs(static_cast<double>(adam) + m / std::sqrt(v)) < 1e-5);  // t = 4
  const SGD damped{.learning_rate = 1.0, .momentum = 0.9, .dampening = 0.5};
  BOOST_TEST(after_three_windows_without(weights<Float32Policy>(2, damped)) == -0.5f);
}

BOOST_AUTO_TEST_CASE(the_backward_pass_starts_from_a_power_of_two_below_the_mean) {
  BOOST_TEST(std::abs(pytorchs("scaled_gradient_of_three") / (1024.0f / 3 * 150) - 1) <
             0.001f);  // in float16: finite

  // Of three samples the divisor is two: 1024 / 2 * 150 is over 65504, one scale lower is not.
  const ScalerChoice scaler({.initial_scale = 1024});
  auto trainer = weights(1, SGD{.learning_rate = 1.0}, infinity, true);
  BOOST_TEST((trainer.step(gradient_of(150.0f, 3)).report().skip_cause == SkipCause::gradient));
  BOOST_TEST(trainer.step(gradient_of(150.0f, 3)).report().applied());
  BOOST_TEST(std::abs(trainer.read_parameter("w.0")[0] + 50.0f) < 1e-4f);
}

BOOST_AUTO_TEST_CASE(training_stops_after_as_many_skips_in_a_row_as_the_policy_allows) {
  BOOST_TEST(pytorchs("scale_after_100_overflows") < 1.0f);  // and on it goes

  auto trainer = weights<AdvancingPolicy>(1);
  trainer.step(gradient_of(infinity));
  trainer.step(gradient_of(infinity));
  const std::string message = refusal<TrainingStopped>([&] { trainer.step(gradient_of(infinity)); });
  BOOST_TEST(holds(message, "3 windows in a row"), message);
}

namespace {

struct NamesOfTests : boost::unit_test::test_tree_visitor {
  std::vector<std::string> names;
  void visit(const boost::unit_test::test_case& test) override { names.push_back(test.p_name); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_page_names_each_of_these_tests_in_a_row_and_no_others) {
  const auto& here = boost::unit_test::framework::current_test_case();
  NamesOfTests tests;
  boost::unit_test::traverse_test_tree(here.p_parent_id, tests, true);
  std::ifstream file(HALFSTEP_SOURCE_DIR "/docs/coming-from-pytorch.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with("` |") && holds(line, " | `") && std::count(line.begin(), line.end(), '|') == 5) {
      const auto begin = line.rfind(" | `") + 4;
      rows.push_back(line.substr(begin, line.size() - begin - 3));
    }
  }
  for (const std::string& name : tests.names) {
    const std::int64_t expected = name == here.p_name.get() ? 0 : 1;
    BOOST_TEST(std::count(rows.begin(), rows.end(), name) == expected, name);
  }
  BOOST_TEST(rows.size() + 1 == tests.names.size());
}

BOOST_AUTO_TEST_SUITE_END()
