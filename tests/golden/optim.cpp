// PyTorch's optimizers and schedules.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/optim/adam.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>

#include "golden/golden.hpp"
#include "support/given_gradients.hpp"

BOOST_AUTO_TEST_SUITE(optim_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

// Counted in units of the last place of the largest magnitude that a weight has had: where a weight passes
// through zero, the roundings of the updates before are large beside it. Both sides round every product and
// sum of every update; a compiler that fuses some of them rounds less often. Measured: at most 4 without
// fusing, 12 with it (AdamW, whose decay rounds each weight in each update).
constexpr double optimizer_ulps = 16;

SGD sgd_of(std::span<const double> s) {
  return {.learning_rate = s[0],
          .momentum = s[1],
          .dampening = s[2],
          .weight_decay = s[4],
          .nesterov = s[3] != 0,
          .maximize = s[5] != 0};
}
template <class Adam>
Adam adam_of(std::span<const double> s) {
  return {.learning_rate = s[0],
          .beta1 = s[1],
          .beta2 = s[2],
          .epsilon = s[3],
          .weight_decay = s[4],
          .maximize = s[5] != 0};
}

/// How far apart are, at most: ours and PyTorch's floats; ours and PyTorch's doubles; PyTorch's floats and
/// doubles.
struct Distances {
  double between = 0, ours_from_exact = 0, theirs_from_exact = 0;
};

double ulps(float a, float b, double magnitude) {
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) /
         std::ldexp(1.0, std::ilogb(magnitude) - 23);
}
void raise(double& largest, double value) { largest = (std::max)(largest, value); }

template <class Optimizer>
Distances follow(Optimizer (*make)(std::span<const double>)) {
  const GoldenFile golden("optimizers");
  const std::string kind = Optimizer::name;
  const auto sizes = golden.read<std::int64_t>("sizes"), shown = golden.read<std::int64_t>("shown_steps");
  const auto start = golden.read("start"), gradients = golden.read("gradients");
  const auto settings = golden.read<double>(kind + ".settings");
  const auto theirs = golden.read(kind + ".weights"), exact = golden.read(kind + ".weights_in_double");
  const auto first = static_cast<std::size_t>(sizes[0]);
  Distances largest;
  for (std::int64_t c = 0; c < settings.rows(); ++c) {
    const auto chosen = settings.at(c);
    Trainer<GivenGradients, Optimizer, Float32Policy> trainer(
        GivenGradients(sizes.values), make(chosen),
        {.parameters = {parameters_named("w.1")
                            .learning_rate_factor(static_cast<float>(chosen[6]))
                            .weight_decay_factor(static_cast<float>(chosen[7]))}});
    trainer.write_parameter("w.0", std::span(start.values).first(first));
    trainer.write_parameter("w.1", std::span(start.values).subspan(first));
    std::vector<double> magnitude(start.values.begin(), start.values.end());
    std::int64_t row = 0;
    for (std::int64_t step = 1; step <= gradients.rows(); ++step) {
      const auto g = gradients.at(step - 1);
      trainer.step(GivenBatch{{{g.begin(), g.begin() + sizes[0]}, {g.begin() + sizes[0], g.end()}}});
      std::vector<float> ours = trainer.read_parameter("w.0");
      for (const float weight : trainer.read_parameter("w.1")) ours.push_back(weight);
      const bool shows = step == shown[row];
      for (std::size_t i = 0; i < ours.size(); ++i) {
        magnitude[i] = (std::max)(std::abs(magnitude[i]), std::abs(static_cast<double>(ours[i])));
        if (!shows) continue;
        raise(largest.between, ulps(ours[i], theirs.at(c, row)[i], magnitude[i]));
        raise(largest.ours_from_exact, ulps(ours[i], exact.at(c, row)[i], magnitude[i]));
        raise(largest.theirs_from_exact, ulps(theirs.at(c, row)[i], exact.at(c, row)[i], magnitude[i]));
      }
      row += shows;
    }
    BOOST_TEST_REQUIRE(row == shown.size());
  }
  BOOST_TEST_MESSAGE(kind << ", " << settings.rows() << " settings: " << largest.between
                          << " ulps apart; from exact " << largest.ours_from_exact << " here, "
                          << largest.theirs_from_exact << " there");
  return largest;
}

void check(const Distances& largest) {
  BOOST_TEST(largest.between <= optimizer_ulps);
  BOOST_TEST(largest.ours_from_exact <= largest.theirs_from_exact + optimizer_ulps / 4);
}

}  // namespace

BOOST_AUTO_TEST_CASE(sgd_in_all_its_options_follows_pytorchs_for_100_updates_within_16_ulps) {
  check(follow(sgd_of));
}
BOOST_AUTO_TEST_CASE(adam_in_all_its_options_follows_pytorchs_for_100_updates_within_16_ulps) {
  check(follow(adam_of<Adam>));
}
BOOST_AUTO_TEST_CASE(adamw_in_all_its_options_follows_pytorchs_for_100_updates_within_16_ulps) {
  check(follow(adam_of<AdamW>));
}

namespace {

struct Pair {
  const char* name;
  Schedule schedule;
};

const Pair pairs[] = {
    {"constant", 0.05},
    {"step_decay", step_decay(0.05, 130, 0.3)},
    {"exponential", exponential(0.05, 0.995)},
    {"linear", warmup_linear(0.05, 0, 700, 0.0125)},
    {"cosine", warmup_cosine(0.1, 0, 999, 0.001)},
    {"one_cycle", one_cycle(0.1, 1000)},
    {"one_cycle_chosen", one_cycle(0.5, 1000, 0.137, 10, 100)},
    {"warmup_constant", warmup_constant(1e-3, 100)},
    {"warmup_linear", warmup_linear(1e-3, 100, 900)},
    {"warmup_cosine", warmup_cosine(1e-3, 100, 900)},
    {"inverse_square_root", inverse_square_root(1e-3, 100)},
};

// Both are computed in double and rounded once here. PyTorch goes from each rate to the next, so that a
// thousand roundings in double lie between the two.
constexpr std::int64_t rate_ulps = 1;

}  // namespace

BOOST_AUTO_TEST_CASE(every_schedule_gives_pytorchs_rates_within_one_ulp_at_1000_positions) {
  const GoldenFile golden("schedules");
  for (const auto& [name, schedule] : pairs) {
    const auto expected = golden.read(name);
    BOOST_TEST_REQUIRE(expected.size() == 1000);
    std::int64_t equal = 0;
    for (std::int64_t position = 0; position < expected.size(); ++position) {
      const float ours = schedule(position);
      equal += same_bits(ours, expected[position]);
      BOOST_TEST(ulps_between(ours, expected[position]) <= rate_ulps,
                 name << " at " << position << ": " << ours << " instead of " << expected[position]);
    }
    BOOST_TEST(equal >= 990, name << ": " << equal << " rates of 1000 are the same to the bit");
  }
}

BOOST_AUTO_TEST_SUITE_END()
