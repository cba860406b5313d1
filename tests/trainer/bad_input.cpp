// What a trainer refuses: the exact type of error, a message with names and values, and nothing changed by
// it.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/classifier.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(bad_input_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

/// A rate for every position up to the end, then something that may be none.
struct RateThatEnds {
  std::int64_t end = 1000;
  float after = 0.1f;
  float operator()(std::int64_t position) const { return position < end ? 0.1f : after; }
};

using Optimizer = BasicSGD<RateThatEnds>;

/// A classifier that can be wrong in its names and its loss.
struct Faulty : Classifier {
  enum class Fault { none, same_names, no_names, unnamed_layer, negative_count, huge_count, loss_of_two, no_loss };
  Fault fault = Fault::none;
  Linear unnamed{3, 3};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    if (fault == Fault::no_names) return;
    visit("hidden", hidden);
    visit(fault == Fault::same_names ? "hidden" : "output", output);
  }
  template <class Tape>
  auto forward(Tape& tape, const Tensor<const float>& inputs) const {
    const auto logits = Classifier::forward(tape, inputs);
    return fault == Fault::unnamed_layer ? unnamed(tape, logits) : logits;
  }
  template <class Tape>
  Loss loss(Tape& tape, const Points& points) const {
    const Loss right = cross_entropy(tape, forward(tape, points.images()), points.targets());
    if (fault == Fault::negative_count) return {right.sum, -1};
    if (fault == Fault::huge_count) return {right.sum, (std::int64_t{1} << 53) + 1};
    if (fault == Fault::loss_of_two) return {Variable<float>(tape.template allocate<float>({2}), nullptr), 1};
    if (fault == Fault::no_loss) return {};
    return right;
  }
};

using Fault = Faulty::Fault;
using TheTrainer = Trainer<Faulty, Optimizer, Float16ScaledPolicy>;

TheTrainer new_trainer(Fault fault = Fault::none, TheTrainer::Options options = {},
                       Optimizer optimizer = {}) {
  Faulty model;
  model.fault = fault;
  return TheTrainer(std::move(model), optimizer, std::move(options));
}

/// Points that the model cannot take, and what the error says of them.
struct BadBatch {
  Points points;
  std::vector<std::string> says;
};

std::vector<BadBatch> bad_batches() {
  std::vector<BadBatch> all{{Points(6, 5, 3), {"[6, 5]", "[8, 4]"}},
                            {Points(0, 4, 3), {"empty batch", "[0, 3]"}}};
  Points large(6, 4, 3);
  large.labels[4] = 3;
  all.push_back({large, {"label 3 at position 4", "[0, 3)"}});
  Points negative(6, 4, 3);
  negative.labels[0] = -1;
  all.push_back({negative, {"label -1 at position 0", "[0, 3)"}});
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_batch_that_does_not_fit_is_refused_and_leaves_window_weights_and_counters) {
  const Points first(5, 4, 3, 1), second(9, 4, 3, 2);
  for (const BadBatch& wrong : bad_batches()) {
    const Points& bad = wrong.points;
    TheTrainer plain = new_trainer(), tried = new_trainer();
    const auto refuse = [&](const std::function<void()>& call) {
      const StepState before = tried.state();
      const std::string message = refusal<ShapeError>(call);
      for (const std::string& part : wrong.says) check_holds(message, {part});
      BOOST_TEST((tried.state() == before));
    };
    const auto refuse_all = [&] {
      refuse([&] { tried.accumulate(bad); });
      refuse([&] { tried.step(bad); });
      refuse([&] { tried.evaluate(bad); });
      refuse([&] { tried.evaluate_all(std::vector<Points>{first, bad}); });
    };
    refuse_all();
    refusal<ConfigurationError>([&] { tried.update(); });  // the window is as empty as before
    for (const Points* good : {&first, &second}) {
      plain.accumulate(*good);
      tried.accumulate(*good);
      refuse_all();
    }
    const StepReport expected = plain.update().report(), report = tried.update().report();
    BOOST_TEST(report.loss == expected.loss);
    BOOST_TEST(report.gradient_norm == expected.gradient_norm);
    BOOST_TEST(report.valid_count == 14);
    BOOST_TEST(report.micro_batches == 2);
    BOOST_TEST(all_parameters(tried) == all_parameters(plain));
    BOOST_TEST((tried.state() == plain.state()));
  }
  TheTrainer trainer = new_trainer();
  const std::string message = refusal<ShapeError>([&] { trainer.predict(Points(2, 3, 3).images()); });
  check_holds(message, {"[2, 3]"});
}

BOOST_AUTO_TEST_CASE(an_empty_window_cannot_be_updated) {
  TheTrainer trainer = new_trainer();
  const auto refuse = [&](const std::function<void()>& call, const std::string& name) {
    const StepState before = trainer.state();
    const std::string message = refusal<ConfigurationError>(call);
    check_holds(message, {name + " of an empty window"});
    check_holds(message, {"call accumulate(batch) first"});
    BOOST_TEST((trainer.state() == before));
  };
  const auto refuse_both = [&] {
    refuse([&] { trainer.update(); }, "update");
    refuse([&] { (void)trainer.close_window(); }, "close_window");
  };
  refuse_both();
  trainer.step(Points(5, 4, 3));
  refuse_both();
  trainer.accumulate(Points(5, 4, 3));
  trainer.abandon();
  refuse_both();
  trainer.accumulate(Points(5, 4, 3));
  { const auto gone = trainer.close_window(); }
  refuse_both();
  trainer.step(Points(5, 4, 3));
  BOOST_TEST(trainer.state().attempts == 2);
}

BOOST_AUTO_TEST_CASE(a_trainer_that_was_moved_from_is_refused_at_every_use) {
  const Points points(5, 4, 3);
  TheTrainer moved = new_trainer();
  TheTrainer trainer = std::move(moved);
  trainer.accumulate(points);
  auto gradients = trainer.close_window().unscale();
  const std::vector<std::function<void()>> uses{[&] { moved.step(points); },
                                                [&] { moved.accumulate(points); },
                                                [&] { moved.update(); },
                                                [&] { moved.abandon(); },
                                                [&] { (void)moved.close_window(); },
                                                [&] { moved.apply(std::move(gradients)); },
                                                [&] { moved.predict(points.images()); },
                                                [&] { moved.evaluate(points); },
                                                [&] { moved.evaluate_all(std::vector<Points>{points}); },
                                                [&] { moved.state(); },
                                                [&] { moved.parameters(); },
                                                [&] { moved.read_parameter("output.bias"); },
                                                [&] { moved.write_parameter("output.bias", {}); },
                                                [&] { moved.model(); }};
  for (const auto& use : uses) {
    const std::string message = refusal<ConfigurationError>(use);
    check_holds(message, {"this trainer was moved from"});
  }
  BOOST_TEST(trainer.apply(std::move(gradients)).report().attempts == 1);
}

BOOST_AUTO_TEST_CASE(clipping_options_that_cannot_be_right_are_refused) {
  for (const float threshold : {0.0f, -1.5f, nan_value, -infinity}) {
    const std::string value = detail::describe_number(threshold);
    const std::string norm = refusal<ConfigurationError>([&] { new_trainer({}, {.clip_norm = threshold}); });
    check_holds(norm, {"clip_norm is " + value});
    const std::string single =
        refusal<ConfigurationError>([&] { new_trainer({}, {.clip_value = threshold}); });
    check_holds(single, {"clip_value is " + value});
  }
}

BOOST_AUTO_TEST_CASE(optimizer_options_that_cannot_be_right_are_refused) {
  const std::string momentum = refusal<ConfigurationError>([] { new_trainer({}, {}, {.momentum = -0.5}); });
  check_holds(momentum, {"SGD: momentum is -0.5"});
  for (const float rate : {-0.25f, nan_value, infinity}) {
    const std::string message = refusal<ConfigurationError>([&] {
      new_trainer({}, {}, {.learning_rate = {0, rate}});
    });
    check_holds(message, {"SGD: learning_rate(0) is " + detail::describe_number(rate)});
  }
}

BOOST_AUTO_TEST_CASE(a_schedule_that_runs_into_a_rate_that_is_none_stops_before_anything_moves) {
  const Points points(5, 4, 3), others(9, 4, 3, 2);
  const auto with_an_open_window = [&](const RateThatEnds& rate) {
    TheTrainer trainer = new_trainer({}, {}, {.learning_rate = rate});
    for (int step = 0; step < 3; ++step) trainer.step(points);
    trainer.accumulate(points);
    return trainer;
  };
  TheTrainer untroubled = with_an_open_window({});
  const double norm = untroubled.close_window().unscale().norm();
  for (const float after : {nan_value, -0.5f, infinity}) {
    TheTrainer trainer = with_an_open_window({3, after});
    const std::vector<float> before = all_parameters(trainer);
    const StepState state = trainer.state();
    const std::string says = "SGD: learning_rate(3) is " + detail::describe_number(after);
    const std::string step = refusal<ConfigurationError>([&] { trainer.step(others); });
    check_holds(step, {says});
    const std::string update = refusal<ConfigurationError>([&] { trainer.update(); });
    check_holds(update, {says});
    {
      auto gradients = trainer.close_window().unscale();
      const std::string apply = refusal<ConfigurationError>([&] { trainer.apply(std::move(gradients)); });
      check_holds(apply, {says});
      BOOST_TEST(gradients.norm() == norm);  // still in hand, and no batch of a refused step in it
    }
    BOOST_TEST(all_parameters(trainer) == before);
    BOOST_TEST((trainer.state() == state));
  }
}

BOOST_AUTO_TEST_CASE(models_whose_parameters_cannot_be_told_apart_are_refused) {
  const std::string same = refusal<ConfigurationError>([] { new_trainer(Fault::same_names); });
  check_holds(same, {"two parameters are named \"hidden.weight\""});
  const std::string none = refusal<ConfigurationError>([] { new_trainer(Fault::no_names); });
  check_holds(none, {"the model names no parameters"});
  TheTrainer trainer = new_trainer(Fault::unnamed_layer);
  const std::string unnamed = refusal<ConfigurationError>([&] { trainer.step(Points(5, 4, 3)); });
  check_holds(unnamed, {"shape [3, 3] that the model does not name"});
  BOOST_TEST(trainer.state().attempts == 0);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_a_loss_is_refused) {
  const Points points(5, 4, 3);
  for (const auto& [fault, says] :
       std::vector<std::pair<Fault, std::string>>{{Fault::negative_count, "shape [] over -1 samples"},
                                                    {Fault::huge_count, "over 9007199254740993 samples"},
                                                  {Fault::loss_of_two, "shape [2] over 1"},
                                                  {Fault::no_loss, "shape [0] over 0"}}) {
    TheTrainer trainer = new_trainer(fault);
    const std::string step = refusal<ConfigurationError>([&] { trainer.step(points); });
    check_holds(step, {says});
    const std::string evaluation = refusal<ConfigurationError>([&] { trainer.evaluate(points); });
    check_holds(evaluation, {says});
    BOOST_TEST(trainer.state().attempts == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
