#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/array_dataset.hpp>
#include <halfstep/evidence/comparison_gate.hpp>
#include <halfstep/evidence/comparison_json.hpp>
#include <halfstep/evidence/comparison_page.hpp>
#include <halfstep/halfstep.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "evidence/diagnosed_models.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(comparison_tests)

using namespace halfstep;
using halfstep::test::Classifier;
using halfstep::test::diagnosed::HalfPolicy;
using halfstep::test::holds;
using halfstep::test::ScalerChoice;

namespace {

struct Thirds {
  ArrayDataset<> training = points(50), validation = points(30);
  static ArrayDataset<> points(std::int64_t count) {
    std::vector<float> features;
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < count; ++i) {
      features.push_back(static_cast<float>(i * 7 % count) / static_cast<float>(count));
      features.push_back(static_cast<float>(i * 3 % 11) / 11.0f);
      labels.push_back(static_cast<std::int32_t>(features[features.size() - 2] * 2.999f));
    }
    return {Shape{2}, std::move(features), std::move(labels)};
  }
};

Classifier model() { return Classifier(2, 16, 3); }

/// Two skips in a row are too many.
struct StopsSoon : Float32Policy {
  static constexpr std::int64_t stop_after_skips = 2;
};

/// Training samples of which the last ones are infinite, and a few have a label that the loss ignores.
Thirds spoiled(std::int64_t infinite) {
  const ArrayDataset<> all = Thirds::points(50);
  std::vector<float> features(all.features().begin(), all.features().end());
  std::vector<std::int32_t> labels(all.labels().begin(), all.labels().end());
  std::fill(features.end() - 2 * infinite, features.end(), std::numeric_limits<float>::infinity());
  std::fill(labels.begin(), labels.begin() + 20, -100);
  return {.training = {Shape{2}, std::move(features), std::move(labels)}};
}
PolicyRun stopping_soon(const Thirds& data) {
  return train_under<StopsSoon, Classifier, AdamW>(
      data, {.model = model(), .trainer = {.seed = 3}, .epochs = 1, .batch_size = 16, .long_tail = {49}});
}

const Comparison& trained() {
  // Its first windows overflow.
  const ScalerChoice too_high({.initial_scale = 0x1p24f});
  static const Comparison comparison = compare_policies<Classifier, AdamW, StopsSoon, HalfPolicy>(
      Thirds{}, {.model = model(),
                 .optimizer = AdamW{.learning_rate = constant(3e-2f)},
                 .trainer = {.clip_norm = 0.5f, .seed = 3},
                 .epochs = 8,
                 .batch_size = 16,
                 .long_tail = {0, 1, 2}});
  return comparison;
}

/// A run with these logits, two to a sample.
PolicyRun run_of(const char* name, std::vector<float> logits, double loss) {
  PolicyRun run;
  run.policy = name;
  run.logits = std::move(logits);
  run.classes = 2;
  for (std::size_t i = 0; i < run.logits.size(); i += 2) {
    run.predictions.push_back(detail::most_likely(run.logits.data() + i, 2));
    run.labels.push_back(0);
  }
  run.validation_loss = loss;
  run.state.update_number = 1;
  return run;
}

Comparison made(double margin_tolerance) {
  PolicyRun reference = run_of("float32", {1.0f, 0.0f, 1.0f, 0.75f, 0.0f, 3.0f, 1.0f, 0.0f}, 0.5);
  reference.computes_in_float = true;
  std::vector<PolicyRun> runs{run_of("float16", {1.0f, 0.0f, 0.75f, 1.0f, 1.0f, 0.0f, 1.0f, 0.0f}, 0.51),
                              reference};
  return compare_runs(std::move(runs), ComparisonOptions<Classifier, AdamW>{.margin_tolerance = margin_tolerance});
}

}  // namespace

BOOST_AUTO_TEST_CASE(flips_have_the_margin_of_the_reference_and_near_ones_are_counted_apart) {
  const Comparison comparison = made(0.25);
  BOOST_TEST(comparison.reference == 1);
  const PolicyDifference& difference = comparison.differences[0];
  BOOST_TEST(difference.flips == 2);
  BOOST_TEST(difference.near_flips == 1);
  BOOST_TEST((difference.margins == std::vector<float>{0.25f, 3.0f}));
  BOOST_TEST(difference.largest_logit_difference == 3.0);
  BOOST_TEST(difference.mean_logit_difference == (0.25 + 0.25 + 1.0 + 3.0) / 8);
  BOOST_TEST(std::fabs(difference.loss_increase - 0.02) < 1e-12);
  BOOST_TEST(comparison.differences[1].flips == 0);
  BOOST_TEST(comparison.differences[1].largest_logit_difference == 0.0);
  BOOST_TEST(made(0.2).differences[0].near_flips == 0);
  BOOST_TEST(holds(comparison_page(comparison), "whose label float32 itself prefers by a margin of at most 0.25."));
  BOOST_TEST(!holds(comparison_page(made(0.2)), "itself prefers"));
}

BOOST_AUTO_TEST_CASE(a_logit_that_is_no_number_is_the_largest_difference) {
  const PolicyRun reference = run_of("float32", {1, 0, 1, 0}, 1);
  const PolicyRun bad = run_of("float16", {std::numeric_limits<float>::quiet_NaN(), 0, 1, 5}, 1);
  BOOST_TEST(!is_finite(difference_between(bad, reference, 0).largest_logit_difference));
}

BOOST_AUTO_TEST_CASE(a_gate_counts_flips_over_the_margin_and_the_relative_increase_of_the_loss) {
  const Comparison comparison = made(0.25);
  BOOST_TEST(violations(comparison, {}).empty());
  BOOST_TEST(violations(comparison, {.max_flips = 0.25, .max_loss_increase = 0.03}).empty());
  const auto flips = violations(comparison, {.max_flips = 0.2});
  BOOST_REQUIRE(flips.size() == 1u);
  BOOST_TEST(flips[0] == "float16: 25.00 % of the labels are others, 20 % are allowed");
  const auto loss = violations(comparison, {.max_loss_increase = 0.01});
  BOOST_REQUIRE(loss.size() == 1u);
  BOOST_TEST(holds(loss[0], "larger by 2.00 %"));
  Comparison bad = comparison;
  bad.runs[0].validation_loss = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(violations(bad, {}).size() == 1u);
  bad = comparison;
  bad.runs[0].stopped = "training stopped";
  BOOST_TEST(violations(bad, {}).size() == 1u);
  bad = comparison;
  bad.runs[0].state.update_number = 0;
  BOOST_REQUIRE(violations(bad, {}).size() == 1u);
  BOOST_TEST(holds(violations(bad, {})[0], "float16: no update was applied"));
  bad.reference = -1;
  test::refusal<ConfigurationError>([&] { violations(bad, {}); });
}

BOOST_AUTO_TEST_CASE(policies_train_on_the_same_samples_from_the_same_seed_and_skips_are_counted) {
  const Comparison& comparison = trained();
  BOOST_REQUIRE(comparison.runs.size() == 2u);
  BOOST_TEST(comparison.reference == 0);
  for (const PolicyRun& run : comparison.runs) {
    BOOST_TEST(run.steps.size() == 8u * 4u);
    BOOST_TEST(run.state.attempts == 32);
    BOOST_TEST(run.state.update_number + run.state.skipped == 32);
    BOOST_TEST(run.predictions.size() == 30u);
    BOOST_TEST(run.logits.size() == 90u);
    BOOST_TEST(run.short_batch == 2);
    BOOST_TEST(run.memory.total() > 0);
    for (const double seconds : {run.step_seconds, run.short_step_seconds, run.long_tail_seconds}) {
      BOOST_TEST(seconds > 0);
    }
  }
  BOOST_TEST(comparison.runs[0].state.skipped == 0);
  BOOST_TEST(comparison.runs[1].state.skipped > 0);
  // The first loss is that of the same weights on the same samples; nothing was updated before.
  BOOST_TEST(std::fabs(comparison.runs[0].steps[0].loss - comparison.runs[1].steps[0].loss) < 1e-3);
  BOOST_TEST(comparison.runs[1].memory.working_copy > 0);
}

BOOST_AUTO_TEST_CASE(a_long_tail_that_training_stops_in_has_no_time_and_the_run_is_kept) {
  const PolicyRun run = stopping_soon(spoiled(1));
  BOOST_TEST(run.stopped.empty());
  BOOST_TEST(run.steps.size() == 4u);
  BOOST_TEST(!is_finite(run.long_tail_seconds));
  BOOST_TEST(is_finite(run.validation_loss));
  // A batch is short by its samples, whatever the loss ignored of it.
  BOOST_TEST((run.samples == std::vector<std::int64_t>{16, 16, 16, 2}));
  BOOST_TEST(run.short_batch == 2);
  BOOST_TEST(run.short_step_seconds == run.seconds[3]);
  BOOST_TEST(is_finite(run.step_seconds));
  const double seconds = run.seconds[0] + run.seconds[1] + run.seconds[2] + run.seconds[3];
  BOOST_TEST(run.samples_per_second == 50 / seconds);
  std::int64_t counted = 0;
  for (const StepReport& step : run.steps) counted += step.valid_count;
  BOOST_TEST(counted == 30);
}

BOOST_AUTO_TEST_CASE(the_step_that_stops_training_is_no_part_of_the_rate) {
  PolicyRun run = stopping_soon(spoiled(50));
  BOOST_TEST(!run.stopped.empty());
  BOOST_REQUIRE(run.steps.size() == 2u);
  BOOST_REQUIRE(run.seconds.size() == 2u);
  BOOST_TEST(!is_finite(run.seconds[1]));
  BOOST_TEST(run.samples_per_second == 16 / run.seconds[0]);
  BOOST_TEST(run.step_seconds == run.seconds[0]);
  BOOST_TEST(!is_finite(run.short_step_seconds));
  // Where it was the first, there is no rate.
  run.steps.resize(1);
  run.samples.resize(1);
  run.seconds = {std::numeric_limits<double>::quiet_NaN()};
  detail::summarise(run, 16, 4);
  const Comparison comparison = compare_runs({run}, ComparisonOptions<Classifier, AdamW>{.batch_size = 16});
  BOOST_TEST(!is_finite(run.samples_per_second));
  BOOST_TEST(holds(comparison_page(comparison), ">-/s<"));
}

BOOST_AUTO_TEST_CASE(the_reference_is_what_a_plain_loop_gives) {
  const Thirds data;
  Trainer<Classifier, AdamW, Float32Policy> trainer{
      model(), AdamW{.learning_rate = constant(3e-2f)}, {.clip_norm = 0.5f, .seed = 3}};
  Loader loader(data.training, {.batch_size = 16}, Shuffled(3));
  for (int epoch = 0; epoch < 8; ++epoch) {
    for (const auto& batch : loader) trainer.step(batch);
  }
  const auto batch = data.validation.all();
  const auto logits = trainer.predict(batch.features);
  const PolicyRun& run = trained().runs[0];
  BOOST_TEST((std::vector<float>(logits.begin(), logits.end()) == run.logits));
  BOOST_TEST(trainer.evaluate(batch).loss() == run.validation_loss);
}

BOOST_AUTO_TEST_CASE(table_json_and_page_tell_the_same_and_the_page_is_whole_in_itself) {
  const Comparison& comparison = trained();
  const auto json = nlohmann::ordered_json::parse(nlohmann::ordered_json(comparison).dump());
  BOOST_TEST(json.at("reference") == "float32");
  BOOST_TEST(json.at("runs").at(1).at("steps").size() == 32u);
  BOOST_TEST(json.at("runs").at(1).at("skipped") == comparison.runs[1].state.skipped);
  BOOST_TEST(json.at("runs").at(1).at("memory").at("total") == comparison.runs[1].memory.total());
  const std::string table = comparison_table(comparison);
  BOOST_TEST(holds(table, "float16 <chosen>\n"));
  BOOST_TEST(holds(table, "last step of an epoch, 2 samples"));
  const std::string page = comparison_page(comparison);
  for (const char* part : {"Loss of applied windows", "Loss scale", "Gradient norm", "Throughput", "Memory",
                           "float16 &lt;chosen&gt;: skipped at window 1", ": clipped at window"}) {
    BOOST_TEST(holds(page, part), part);
  }
  for (const char* outside : {"http", "src=", "href=", "<script", "<chosen>", "nan", "inf,"}) {
    BOOST_TEST(!holds(page, outside), outside);
  }
}

BOOST_AUTO_TEST_CASE(json_names_every_number_that_is_not_finite_and_has_no_null) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  // The reference prefers its own labels by an infinite margin, and by one that is no number.
  PolicyRun reference = run_of("float32", {infinity, 0.0f, infinity, infinity, 1.0f, 0.9f}, 1);
  reference.computes_in_float = true;
  PolicyRun bad = run_of("float16", {0.0f, 1.0f, 0.0f, 1.0f, 0.0f, 1.0f}, not_a_number);
  for (double* const figure :
       {&bad.validation_accuracy, &bad.final_loss, &bad.samples_per_second, &bad.step_seconds,
        &bad.short_step_seconds, &bad.long_tail_seconds}) {
    *figure = not_a_number;
  }
  bad.state.scaler.scale = infinity;
  bad.steps.resize(1);
  bad.steps[0].loss = not_a_number;
  const Comparison comparison = compare_runs(
      {reference, bad}, ComparisonOptions<Classifier, AdamW>{.margin_tolerance = static_cast<double>(infinity)});
  const std::string text = nlohmann::ordered_json(comparison).dump();
  BOOST_TEST(!holds(text, "null"), text);
  const auto run = nlohmann::ordered_json::parse(text).at("runs").at(1);
  BOOST_TEST(run.at("validation_accuracy") == "NaN");
  BOOST_TEST(holds(text, "\"margins\":[0.100000024,\"Infinity\",\"NaN\"]"), text);
}

BOOST_AUTO_TEST_CASE(charts_bear_what_is_empty_constant_or_not_finite) {
  using namespace halfstep::detail;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const bool logarithmic : {false, true}) {
    Chart chart{"title", "mark", logarithmic, false, {{"run", {}, {}}}};
    BOOST_TEST(holds(SvgChart(chart).text(), "<svg"));
    chart.series[0].line = {{1, 5}};
    BOOST_TEST(!holds(SvgChart(chart).text(), "nan"));
    chart.series[0].line = {{1, 5}, {2, infinity}, {3, 0}, {4, 7}, {5, 8}};
    chart.series[0].marks = {{2, infinity}};
    const std::string text = SvgChart(chart).text();
    BOOST_TEST(!holds(text, "nan"));
    BOOST_TEST(!holds(text, "inf"));
    BOOST_TEST(holds(text, "mark at window 2"));
  }
  BOOST_TEST((nice_ticks(0, 10) == std::vector<double>{0, 2, 4, 6, 8, 10}));
  BOOST_TEST(nice_ticks(1e16, 1e16 + 4).size() <= 11u);
  BOOST_TEST(thinned(std::vector<ChartPoint>(1000, {1, 2}), 600).size() == 600u);
}

BOOST_AUTO_TEST_SUITE_END()
