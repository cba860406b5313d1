#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <halfstep/evidence/baseline_file.hpp>
#include <halfstep/evidence/compare_to_baseline.hpp>
#include <halfstep/halfstep.hpp>
#include <limits>
#include <string>
#include <vector>

#include "evidence/diagnosed_models.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(baseline_tests)

using namespace halfstep;
using halfstep::test::Classifier;
using halfstep::test::diagnosed::HalfPolicy;
using halfstep::test::holds;
using halfstep::test::Points;
using halfstep::test::ScalerChoice;

namespace {

template <class Policy>
using Trained = Trainer<Classifier, AdamW, Policy>;

constexpr std::uint64_t seed = 5;
Classifier model() { return Classifier(6, 32, 4); }
AdamW optimizer() { return AdamW{.learning_rate = constant(1e-2f)}; }

std::vector<Points> batches() {
  std::vector<Points> result;
  for (std::uint32_t i = 0; i < 8; ++i) result.emplace_back(24, 6, 4, 1 + i % 4);
  return result;
}
Tensor<const float> predict(auto& trainer, const Points& points) { return trainer.predict(points.images()); }
constexpr auto predictions = [](auto& trainer, const Points& points) { return predict(trainer, points); };

Baseline record() {
  Trained<Float32Policy> trainer(model(), optimizer(), {.clip_norm = 1.0f, .seed = seed});
  return record_baseline(trainer, batches(), predictions);
}

/// With it most gradients are so small that they vanish in float16.
constexpr DynamicScaler scales_the_wrong_way{.initial_scale = 0x1p-18f};
/// Three windows go well; in the fourth the scale is 2^31.
constexpr DynamicScaler grows_too_fast{.initial_scale = 0x1p11f, .growth_factor = 0x1p20f, .growth_interval = 3};

template <class Policy>
BaselineComparison compared(BaselineOptions options = {
                                BaselineTolerance::of<typename Policy::compute_type>()}) {
  return compare_to_baseline<Policy>(record(), model(), optimizer(), {.clip_norm = 1.0f, .seed = seed},
                                     batches(), options, predictions);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_policy_gives_the_baseline_bit_for_bit_through_a_file_too) {
  const test::TemporaryFolder folder;
  const Baseline recorded = record();
  save_baseline(folder / "baseline.json", recorded);
  const Baseline read = load_baseline(folder / "baseline.json");
  BOOST_TEST(read.policy == "float32");
  BOOST_TEST(read.steps.size() == 8u);
  BOOST_TEST(read.predictions.size() == 8u);
  const auto result =
      compare_to_baseline<Float32Policy>(read, model(), optimizer(), {.clip_norm = 1.0f, .seed = seed},
                                         batches(), {BaselineTolerance::exact()}, predictions);
  BOOST_TEST(!result.first, result.first.text());
  BOOST_TEST((result.run.predictions == recorded.predictions));
  for (std::size_t i = 0; i < 8; ++i) {
    BOOST_TEST((result.run.steps[i].weights == recorded.steps[i].weights));
    BOOST_TEST((result.run.steps[i].gradients == recorded.steps[i].gradients));
    BOOST_TEST(result.run.steps[i].update_number == static_cast<std::int64_t>(i) + 1);
  }
}

BOOST_AUTO_TEST_CASE(files_of_this_format_have_this_text) {
  const auto sketch = [](double norm) {
    TensorSketch result{.norm = norm};
    for (double& product : result.products) product = norm += 0.25;
    return result;
  };
  Baseline baseline;
  baseline.policy = "float32";
  baseline.optimizer = "AdamW";
  baseline.seed = 5;
  baseline.parameters = {"w [2]"};
  baseline.first_weights = {sketch(1)};
  baseline.steps = {{.outcome = Outcome::applied,
                     .loss = 0.5,
                     .gradient_norm = 3.0,
                     .update_number = 1,
                     .gradients = {sketch(2)},
                     .weights = {sketch(3)}}};
  baseline.predictions = {{0.25f, -1.0f}, {2.0f}};
  const test::TemporaryFolder folder;
  save_baseline(folder / "baseline.json", baseline);
  std::ifstream file(folder / "baseline.json");
  std::string text, line;
  while (std::getline(file, line)) text += line.substr(line.find_first_not_of(' '));
  BOOST_TEST(
      text ==
      R"({"format": "halfstep baseline 1","policy": "float32","optimizer": "AdamW","seed": 5,"parameters": ["w [2]"],)"
      R"("first_weights": [{"norm": 1.0,"products": [1.25,1.5,1.75,2.0,2.25,2.5,2.75,3.0]}],)"
      R"("steps": [{"loss": 0.5,"gradient_norm": 3.0,"update_number": 1,)"
      R"("gradients": [{"norm": 2.0,"products": [2.25,2.5,2.75,3.0,3.25,3.5,3.75,4.0]}],)"
      R"("weights": [{"norm": 3.0,"products": [3.25,3.5,3.75,4.0,4.25,4.5,4.75,5.0]}]}],)"
      R"("predictions": [[0.25,-1.0],[2.0]]})");
}

BOOST_AUTO_TEST_CASE(recording_changes_no_bit_of_the_training) {
  Trained<Float32Policy> plain(model(), optimizer(), {.clip_norm = 1.0f, .seed = seed});
  for (const Points& batch : batches()) plain.step(batch);
  const Baseline baseline = record();
  std::size_t i = 0;
  for (const ParameterInfo& info : plain.parameters()) {
    BOOST_TEST((sketch_of(plain.read_parameter(info.name)) == baseline.steps.back().weights[i++]));
  }
}

BOOST_AUTO_TEST_CASE(
    the_16_bit_policies_stay_within_the_tolerance_of_their_type_and_not_within_that_of_float) {
  const auto half = compared<HalfPolicy>();
  BOOST_TEST(!half.first, half.first.text());
  const auto brain = compared<BFloat16Policy>();
  BOOST_TEST(!brain.first, brain.first.text());
  BOOST_TEST_MESSAGE("float16: loss " << half.largest.loss << ", gradients " << half.largest.gradients
                                      << ", weights " << half.largest.weights << ", predictions "
                                      << half.largest.predictions);
  BOOST_TEST_MESSAGE("bfloat16: loss " << brain.largest.loss << ", gradients " << brain.largest.gradients
                                       << ", weights " << brain.largest.weights << ", predictions "
                                       << brain.largest.predictions);
  const auto strict = compared<HalfPolicy>({BaselineTolerance::of<float>()});
  BOOST_TEST(strict.first.step == 1);
}

BOOST_AUTO_TEST_CASE(gradients_that_vanish_are_found_at_the_first_step_by_their_tensor) {
  const ScalerChoice scaler(scales_the_wrong_way);
  const auto result = compared<HalfPolicy>();
  BOOST_TEST(result.first.step == 1);
  BOOST_TEST(result.first.quantity == "gradient");
  BOOST_TEST(holds(result.first.tensor, "hidden"));
  BOOST_TEST(holds(result.first.text(), "step 1: gradient of \"hidden"), result.first.text());
}

BOOST_AUTO_TEST_CASE(a_scale_that_grows_too_fast_is_found_at_the_window_that_it_breaks) {
  const ScalerChoice scaler(grows_too_fast);
  const auto result = compared<HalfPolicy>();
  BOOST_TEST(result.first.step == 4);
  BOOST_TEST(result.first.quantity == "outcome");
  BOOST_TEST(!result.first.tensor.empty());
  const auto patient =
      compared<HalfPolicy>({.tolerance = BaselineTolerance::of<float16>(), .skips_allowed = 100});
  BOOST_TEST(!patient.first, patient.first.text());
  BOOST_TEST(patient.skips > 0);
}

BOOST_AUTO_TEST_CASE(other_weights_and_other_options_are_found_where_they_first_show) {
  const Baseline baseline = record();
  Trained<Float32Policy> other(model(), optimizer(), {.clip_norm = 1.0f, .seed = seed});
  auto bias = other.read_parameter("output.bias");
  bias[2] += 0.5f;
  other.write_parameter("output.bias", bias);
  const auto of_weights =
      compare_to_baseline(baseline, other, batches(), {BaselineTolerance::of<float>()}, predictions);
  BOOST_TEST(of_weights.first.step == 1);
  BOOST_TEST(of_weights.first.quantity == "loss");
  Trained<Float32Policy> clipped(model(), optimizer(), {.clip_norm = 1e-6f, .seed = seed});
  const auto of_options =
      compare_to_baseline(baseline, clipped, batches(), {BaselineTolerance::of<float>()}, predictions);
  BOOST_TEST(of_options.first.step == 1);
  BOOST_TEST(of_options.first.quantity == "weights");
}

BOOST_AUTO_TEST_CASE(a_baseline_that_is_not_finite_is_refused_with_window_and_tensor) {
  auto bad = batches();
  bad[2].inputs[7] = std::numeric_limits<float>::infinity();
  Trained<Float32Policy> trainer(model(), optimizer(), {.seed = seed});
  const std::string message = test::refusal<Error>([&] { record_baseline(trainer, bad); });
  BOOST_TEST(holds(message, "window 3 was skipped"), message);
  BOOST_TEST(holds(message, "hidden.weight"), message);
}

BOOST_AUTO_TEST_CASE(runs_that_cannot_be_compared_and_files_that_hold_no_baseline_are_refused) {
  const Baseline baseline = record();
  const auto compare = [&](const Baseline& with, std::uint64_t other_seed, const std::vector<Points>& on) {
    Trained<Float32Policy> trainer(model(), optimizer(), {.clip_norm = 1.0f, .seed = other_seed});
    compare_to_baseline(with, trainer, on, {BaselineTolerance::of<float>()}, predictions);
  };
  BOOST_TEST(holds(test::refusal<ConfigurationError>([&] { compare(baseline, 6, batches()); }), "seed 5"));
  auto fewer = batches();
  fewer.pop_back();
  BOOST_TEST(holds(test::refusal<ConfigurationError>([&] { compare(baseline, seed, fewer); }), "8 steps"));
  auto more = batches();
  more.push_back(more.front());
  BOOST_TEST(
      holds(test::refusal<ConfigurationError>([&] { compare(baseline, seed, more); }), "more batches"));
  Baseline renamed = baseline;
  renamed.parameters.back() = "head.bias [4]";
  BOOST_TEST(
      holds(test::refusal<ConfigurationError>([&] { compare(renamed, seed, batches()); }), "head.bias"));
  Trained<Float32Policy> used(model(), optimizer());
  used.step(batches().front());
  BOOST_TEST(holds(test::refusal<ConfigurationError>([&] { record_baseline(used, batches()); }), "1 steps"));
  Trained<Float32Policy> fresh(model(), optimizer());
  test::refusal<ConfigurationError>([&] { record_baseline(fresh, std::vector<Points>{}); });

  const test::TemporaryFolder folder;
  BOOST_TEST(holds(test::refusal<Error>([&] { load_baseline(folder / "none.json"); }), "none.json"));
  std::ofstream(folder / "other.json") << "{\"format\": \"another\"}";
  BOOST_TEST(holds(test::refusal<Error>([&] { load_baseline(folder / "other.json"); }), "another"));
  std::ofstream(folder / "torn.json") << "{\"format\": \"halfst";
  test::refusal<Error>([&] { load_baseline(folder / "torn.json"); });

  // What would be a baseline but for one value: a list of another kind, or of another length.
  const auto message_with = [&](auto edit) {
    nlohmann::ordered_json json(baseline);
    edit(json);
    std::ofstream(folder / "edited.json") << json;
    return test::refusal<Error>([&] { load_baseline(folder / "edited.json"); });
  };
  const std::string no_list = message_with([](auto& json) { json["steps"] = nlohmann::ordered_json::object(); });
  BOOST_TEST(holds(no_list, "\"steps\" is no list, but object"), no_list);
  const std::string no_inner_list = message_with([](auto& json) { json["predictions"][1] = 7; });
  BOOST_TEST(holds(no_inner_list, "an element of \"predictions\" is no list, but number"), no_inner_list);
  const std::string surplus = message_with([](auto& json) { json["first_weights"][0]["products"].push_back(0.5); });
  BOOST_TEST(holds(surplus, "a tensor has 9 products, not 8"), surplus);
}

BOOST_AUTO_TEST_CASE(predictions_that_would_not_be_held_against_the_baselines_are_refused) {
  const Baseline baseline = record();
  const auto message = [](const Baseline& with, const auto& predict) {
    Trained<Float32Policy> trainer(model(), optimizer(), {.clip_norm = 1.0f, .seed = seed});
    return test::refusal<ConfigurationError>(
        [&] { compare_to_baseline(with, trainer, batches(), {BaselineTolerance::of<float>()}, predict); });
  };
  const std::string none = message(baseline, NoPredictions{});
  BOOST_TEST(holds(none, "predictions for 8 batches"), none);
  Baseline without = baseline;
  without.predictions.clear();
  const std::string unasked = message(without, predictions);
  BOOST_TEST(holds(unasked, "the baseline has none"), unasked);
  Baseline shorter = baseline, longer = baseline;
  shorter.predictions[1].pop_back();
  longer.predictions[1].push_back(0);
  const std::string more = message(shorter, predictions), fewer = message(longer, predictions);
  BOOST_TEST(holds(more, "for batch 2 the baseline predicts 95 numbers, this trainer 96"), more);
  BOOST_TEST(holds(fewer, "for batch 2 the baseline predicts 97 numbers, this trainer 96"), fewer);
  const auto empty = [](auto&, const Points&) { return Tensor<const float>(); };
  BOOST_TEST(holds(message(baseline, empty), "for batch 1 the baseline predicts 96 numbers"));
}

BOOST_AUTO_TEST_CASE(the_distance_of_two_sketches_is_about_that_of_the_tensors) {
  std::mt19937 generator(3);
  for (const double size : {1e-3, 1.0, 1e3}) {
    std::vector<float> a(5000), b(5000);
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<float>(generator() >> 8) * 0x1p-23f - 1.0f;
      const double step = (static_cast<double>(generator() >> 8) * 0x1p-23 - 1.0) * size;
      b[i] = static_cast<float>(static_cast<double>(a[i]) + step);
      squares += (static_cast<double>(b[i]) - static_cast<double>(a[i])) *
                 (static_cast<double>(b[i]) - static_cast<double>(a[i]));
    }
    const double ratio = distance(sketch_of(a), sketch_of(b)) / std::sqrt(squares);
    BOOST_TEST((ratio > 0.4 && ratio < 2.0), "ratio " << ratio);
  }
  std::vector<float> turned{1, -2, 3}, same{1, -2, 3};
  BOOST_TEST(distance(sketch_of(turned), sketch_of(same)) == 0.0);
  for (float& value : turned) value = -value;
  BOOST_TEST(distance(sketch_of(turned), sketch_of(same)) > 3.0);
}

BOOST_AUTO_TEST_SUITE_END()
