// Compiled with -ffast-math, which deletes isfinite and NaN != NaN: a trainer still sees every overflow.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "support/classifier.hpp"
#include "support/float_from_bits.hpp"
#include "support/given_gradients.hpp"
#include "support/refusal.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace {

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

constexpr std::uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0xffffffffu};

using Policies = std::tuple<BFloat16Policy, Float16ScaledPolicy>;

}  // namespace

BOOST_AUTO_TEST_SUITE(overflows_seen_fast_math_tests)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_bad_gradient_is_skipped_with_evidence, Policy, Policies) {
  using TheTrainer = Trainer<GivenGradients, AdamW, Policy>;
  TheTrainer trainer{GivenGradients({2, 3}), {.learning_rate = 0.5}, {.clip_norm = 1.0f}};
  const GivenBatch good{{{0.1f, 0.2f}, {0.3f, 0.4f, 0.5f}}, 1, 1.0f};
  trainer.step(good);
  const auto before = bits_of(trainer.read_parameter("w.1"));
  for (const std::uint32_t bits : bad) {
    for (std::size_t index = 0; index < 3; ++index) {
      GivenBatch batch = good;
      batch.gradients[1][index] = float_from_bits(bits);
      const StepReport report = trainer.step(batch).report();
      BOOST_TEST((report.outcome == Outcome::skipped));
      BOOST_TEST((report.skip_cause == SkipCause::gradient));
      BOOST_TEST(report.first_non_finite.tensor == "w.1");
      BOOST_TEST(report.first_non_finite.index == static_cast<std::int64_t>(index));
    }
    GivenBatch batch = good;
    batch.loss_sum = float_from_bits(bits);
    BOOST_TEST((trainer.step(batch).report().skip_cause == SkipCause::loss));
  }
  BOOST_TEST(bits_of(trainer.read_parameter("w.1")) == before);
  BOOST_TEST(trainer.state().skipped == 20);
  BOOST_TEST(trainer.step(good).report().applied());
  BOOST_TEST(bits_of(trainer.read_parameter("w.1")) != before);
}

BOOST_AUTO_TEST_CASE(an_overflow_by_the_scale_is_seen_and_cured) {
  Trainer<GivenGradients, AdamW, Float16ScaledPolicy> trainer{GivenGradients({1}, true), {}, {}};
  int skips = 0;
  while (!trainer.step(GivenBatch{{{10.0f}}}).report().applied() && skips < 100) ++skips;
  BOOST_TEST(skips == 4);
  BOOST_TEST(trainer.state().scaler.scale == 4096.0f);
}

BOOST_AUTO_TEST_CASE(a_bad_input_to_a_real_model_is_seen) {
  Trainer<Classifier, AdamW, Float16ScaledPolicy> trainer{Classifier(), {.learning_rate = 0.01}};
  Points points(6, 4, 3);
  trainer.step(points);
  const auto before = bits_of(all_parameters(trainer));
  for (const std::uint32_t bits : bad) {
    points.inputs[5] = float_from_bits(bits);
    BOOST_TEST((trainer.step(points).report().outcome == Outcome::skipped));
  }
  BOOST_TEST(bits_of(all_parameters(trainer)) == before);
}

BOOST_AUTO_TEST_CASE(thresholds_and_rates_are_checked) {
  for (const std::uint32_t bits : bad) {
    const float value = float_from_bits(bits);
    refusal<ConfigurationError>([&] {
      Trainer<GivenGradients, AdamW, BFloat16Policy>(GivenGradients({1}), {.learning_rate = value});
    });
    if (bits == 0x7f800000u) continue;
    refusal<ConfigurationError>([&] {
      Trainer<GivenGradients, AdamW, BFloat16Policy>(GivenGradients({1}), {}, {.clip_norm = value});
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
