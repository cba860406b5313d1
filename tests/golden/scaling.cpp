// GradScaler, clip_grad_norm_ and clip_grad_value_ of PyTorch, through a trainer.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>

#include "golden/golden.hpp"
#include "support/given_gradients.hpp"

BOOST_AUTO_TEST_SUITE(scaling_tests)

using namespace halfstep;
using namespace halfstep::test;

BOOST_AUTO_TEST_CASE(scale_tracker_skips_updates_and_weights_are_grad_scalers_in_twelve_thousand_windows) {
  const GoldenFile golden("grad_scaler");
  const auto settings = golden.read<double>("settings");
  const auto gradients = golden.read("gradients"), scales = golden.read("scales"),
             weights = golden.read("weights");
  const auto trackers = golden.read<std::int32_t>("growth_trackers");
  const auto updates = golden.read<std::int32_t>("update_numbers");
  const std::int64_t windows = gradients.shape[1];
  std::int64_t skips = 0, growths = 0;
  for (std::int64_t c = 0; c < settings.rows(); ++c) {
    const auto chosen = settings.at(c);
    const ScalerChoice scaler({.initial_scale = static_cast<float>(chosen[0]),
                               .growth_factor = chosen[1],
                               .backoff_factor = chosen[2],
                               .growth_interval = static_cast<std::int32_t>(chosen[3]),
                               .minimum_scale = smallest_loss_scale});
    BOOST_TEST_REQUIRE(is_valid(ChosenScaler::options));
    Trainer<GivenGradients, SGD, ChosenScalerPolicy> trainer(GivenGradients({gradients.shape[2]}),
                                                             {.learning_rate = 0.0625});
    for (std::int64_t w = 0; w < windows; ++w) {
      const auto given = gradients.at(c, w);
      const StepReport report = trainer.step(GivenBatch{{{given.begin(), given.end()}}}).report();
      BOOST_TEST_CONTEXT("case " << c << ", window " << w) {
        const StepState state = trainer.state();
        const std::int32_t before = w == 0 ? 0 : updates.at(c, w - 1)[0];
        BOOST_TEST_REQUIRE(report.applied() == (updates.at(c, w)[0] > before));
        BOOST_TEST_REQUIRE(same_bits(state.scaler.scale, scales.at(c, w)[0]));
        BOOST_TEST_REQUIRE(state.scaler.growth_tracker == trackers.at(c, w)[0]);
        BOOST_TEST_REQUIRE(state.update_number == updates.at(c, w)[0]);
        const std::vector<float> ours = trainer.read_parameter("w.0");
        for (std::size_t i = 0; i < ours.size(); ++i) {
          BOOST_TEST_REQUIRE(same_bits(ours[i], weights.at(c, w)[i]));
        }
      }
      skips += report.outcome == Outcome::skipped;
      growths += report.scale_change == ScaleChange::grown;
    }
  }
  BOOST_TEST(skips > 1000);
  BOOST_TEST(growths > 1000);
}

namespace {

/// The gradient that an update uses: with a rate of 1 and weights of 0 it is what the weights become, but for
/// the sign.
struct Clipped {
  std::vector<float> gradients;
  double norm;
};

Clipped clipped(const std::vector<std::vector<float>>& gradients, float max_norm, float max_value) {
  std::vector<std::int64_t> sizes;
  for (const auto& gradient : gradients) sizes.push_back(static_cast<std::int64_t>(gradient.size()));
  Trainer<GivenGradients, SGD, Float32Policy> trainer(GivenGradients(sizes), {.learning_rate = 1.0},
                                                      {.clip_norm = max_norm, .clip_value = max_value});
  Clipped result;
  result.norm = trainer.step(GivenBatch{gradients}).report().gradient_norm;
  for (const auto& parameter : trainer.parameters()) {
    for (const float weight : trainer.read_parameter(parameter.name))
      result.gradients.push_back(0.0f - weight);
  }
  return result;
}

std::vector<std::vector<float>> split(std::span<const float> values, const GoldenArray<std::int64_t>& sizes) {
  std::vector<std::vector<float>> parts;
  for (const std::int64_t size : sizes.values) {
    const auto part = values.first(static_cast<std::size_t>(size));
    parts.emplace_back(part.begin(), part.end());
    values = values.subspan(static_cast<std::size_t>(size));
  }
  return parts;
}

}  // namespace

// PyTorch sums the squares in float, halfstep in double; each norm is rounded once, then the coefficient,
// then the product.
constexpr std::int64_t norm_ulps = 2, clipped_ulps = 3;

BOOST_AUTO_TEST_CASE(norms_and_gradients_clipped_by_norm_are_clip_grad_norms_within_3_ulps) {
  const GoldenFile golden("clip");
  const auto sizes = golden.read<std::int64_t>("sizes");
  const auto gradients = golden.read("gradients"), expected = golden.read("clipped_by_norm");
  const auto norms = golden.read("norms"), max_norms = golden.read("max_norms");
  for (std::int64_t c = 0; c < gradients.rows(); ++c) {
    const Clipped ours = clipped(split(gradients.at(c), sizes), max_norms[c], INFINITY);
    BOOST_TEST_CONTEXT("case " << c << ", norm " << norms[c] << ", at most " << max_norms[c]) {
      BOOST_TEST(ulps_between(static_cast<float>(ours.norm), norms[c]) <= norm_ulps);
      for (std::size_t i = 0; i < ours.gradients.size(); ++i) {
        BOOST_TEST(ulps_between(ours.gradients[i], expected.at(c)[i]) <= clipped_ulps);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_clipped_by_value_are_clip_grad_values_to_the_bit) {
  const GoldenFile golden("clip");
  const auto sizes = golden.read<std::int64_t>("sizes");
  const auto gradients = golden.read("gradients"), expected = golden.read("clipped_by_value");
  const auto max_values = golden.read("max_values");
  for (std::int64_t c = 0; c < gradients.rows(); ++c) {
    const Clipped ours = clipped(split(gradients.at(c), sizes), INFINITY, max_values[c]);
    for (std::size_t i = 0; i < ours.gradients.size(); ++i) {
      BOOST_TEST(ours.gradients[i] == expected.at(c)[i], "case " << c << ", element " << i);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
