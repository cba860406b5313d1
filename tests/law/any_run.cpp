// What holds in every run, whatever happens in it: trainers driven by random windows, with their seeds in the
// message.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "support/classifier.hpp"
#include "support/given_gradients.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(any_run_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Floats = std::vector<float>;
using Random = std::mt19937_64;

constexpr float infinity = std::numeric_limits<float>::infinity();
const float bad_values[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};

std::int64_t up_to(Random& random, std::int64_t most) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
}
bool one_in(Random& random, std::uint64_t chances) { return random() % chances == 0; }

struct HoldingPolicy : ChosenScalerPolicy {
  static constexpr std::int64_t stop_after_skips = 0;
};
struct AdvancingPolicy : HoldingPolicy {
  using on_skip = AdvanceSchedule;
};

template <class T>
std::vector<std::byte> bytes(const T* data, std::int64_t size) {
  std::vector<std::byte> copy(static_cast<std::size_t>(size) * sizeof(T));
  std::memcpy(copy.data(), data, copy.size());
  return copy;
}

/// Every bit that an update may move: of one parameter, or with `which` < 0 of the whole flat buffers, gaps
/// included.
template <class Trainer>
std::vector<std::byte> bits_of(const Trainer& trainer, int which = -1) {
  auto& core = halfstep::detail::TrainerAccess::core(trainer);
  auto& store = core.store();
  const auto segment =
      which < 0 ? compute::Segment{0, store.size()} : store.segments()[static_cast<std::size_t>(which)];
  std::vector<std::byte> all = bytes(store.working() + segment.offset, segment.size);
  for (const float* buffer : {store.masters(), core.moment(0).data(), core.moment(1).data()}) {
    const auto more = bytes(buffer + segment.offset, segment.size);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

const std::vector<std::int64_t> sizes{3, 1, 70};
constexpr std::size_t frozen_one = 1;

/// One micro-batch, and what of it counts.
struct RandomBatch {
  GivenBatch batch;
  bool loss_finite = true, gradients_finite = true;
  bool reaches[3] = {};
};

RandomBatch random_batch(Random& random) {
  RandomBatch result;
  result.batch.count = up_to(random, 5);
  result.batch.loss_sum = static_cast<float>(up_to(random, 1000)) / 100;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    Floats gradient;
    if (!one_in(random, 3)) {
      for (std::int64_t i = 0; i < sizes[p]; ++i) {
        const int exponent = static_cast<int>(up_to(random, 40)) - 20;
        gradient.push_back(std::ldexp(static_cast<float>(up_to(random, 200)) / 100 - 1, exponent));
      }
    }
    result.reaches[p] = !gradient.empty() && result.batch.count > 0 && p != frozen_one;
    if (result.reaches[p] && one_in(random, 12)) {
      gradient[random() % gradient.size()] = bad_values[random() % 3];
      result.gradients_finite = false;
    }
    result.batch.gradients.push_back(std::move(gradient));
  }
  if (one_in(random, 10)) {
    result.batch.loss_sum = bad_values[random() % 3];
    result.loss_finite = result.batch.count == 0;
  }
  return result;
}

DynamicScaler random_scaler(Random& random) {
  DynamicScaler options;
  options.growth_interval = static_cast<std::int32_t>(1 + up_to(random, 4));
  options.hysteresis = static_cast<std::int32_t>(1 + up_to(random, 2));
  options.backoff_factor = one_in(random, 2) ? 0.5 : 0.7;
  options.growth_factor = one_in(random, 2) ? 2 : 1.3;
  options.minimum_scale = 0.75f;
  options.maximum_scale = 1e6f;
  options.initial_scale = one_in(random, 2) ? 1024.0f : 333.3f;
  return options;
}

template <class Policy>
void check_a_random_run(std::uint64_t seed) {
  Random random(seed);
  choose_scaler(random_scaler(random));
  const Schedule schedule = warmup_cosine(0.1, 5, 60);
  Trainer<GivenGradients, AdamW, Policy> trainer{
      GivenGradients(sizes),
      {.learning_rate = schedule},
      {.clip_norm = one_in(random, 2) ? 1.0f : infinity, .parameters = {parameters_named("w.1").freeze()}}};
  StepState expected = initial_step_state(ChosenScaler{});
  for (int window = 0; window < 120; ++window) {
    bool loss_finite = true, gradients_finite = true, any = false, reached[3] = {};
    for (std::int64_t micro_batch = up_to(random, 2); micro_batch >= 0; --micro_batch) {
      const RandomBatch next = random_batch(random);
      trainer.accumulate(next.batch);
      loss_finite = loss_finite && next.loss_finite;
      gradients_finite = gradients_finite && next.gradients_finite;
      for (std::size_t p = 0; p < sizes.size(); ++p) {
        reached[p] = reached[p] || next.reaches[p];
        any = any || reached[p];
      }
    }
    std::vector<std::vector<std::byte>> before;
    for (int p = 0; p < 3; ++p) before.push_back(bits_of(trainer, p));
    const auto all_before = bits_of(trainer);
    if (one_in(random, 15)) {
      trainer.abandon();
      BOOST_TEST_REQUIRE((trainer.state() == expected));
      BOOST_TEST_REQUIRE((bits_of(trainer) == all_before));
      continue;
    }
    const StepReport report = trainer.update().report();

    const Outcome outcome = !any                              ? Outcome::no_gradients
                            : loss_finite && gradients_finite ? Outcome::applied
                                                              : Outcome::skipped;
    BOOST_TEST_REQUIRE((report.outcome == outcome));
    BOOST_TEST_REQUIRE(report.learning_rate == static_cast<float>(schedule(expected.schedule_position)));
    expected.attempts += 1;
    expected.update_number += outcome == Outcome::applied;
    expected.skipped += outcome == Outcome::skipped;
    expected.empty += outcome == Outcome::no_gradients;
    expected.skipped_in_a_row = outcome == Outcome::skipped   ? expected.skipped_in_a_row + 1
                                : outcome == Outcome::applied ? 0
                                                              : expected.skipped_in_a_row;
    expected.schedule_position =
        expected.update_number + Policy::on_skip::positions_on_skip * expected.skipped;
    expected.scaler = trainer.state().scaler;  // held against the law in every_state.cpp
    BOOST_TEST_REQUIRE((trainer.state() == expected));
    BOOST_TEST_REQUIRE(report.next_scale == expected.scaler.scale);
    BOOST_TEST_REQUIRE(
        (is_finite(report.next_scale) && report.next_scale >= 0.75f && report.next_scale <= 1e6f));
    if (outcome != Outcome::applied) BOOST_TEST_REQUIRE((bits_of(trainer) == all_before));
    for (int p = 0; p < 3; ++p) {
      const bool moves = outcome == Outcome::applied && reached[p];
      if (!moves) BOOST_TEST_REQUIRE((bits_of(trainer, p) == before[static_cast<std::size_t>(p)]));
    }
  }
  BOOST_TEST(expected.update_number > 5);
  BOOST_TEST(expected.skipped > 5);
}

/// A classifier whose layers are named in either order, and whose loss is scaled though it computes in float.
struct TurnedClassifier : Classifier {
  explicit TurnedClassifier(bool output_comes_first = false)
      : Classifier(5, 11, 3), turned(output_comes_first) {}

  template <class Visitor>
  void parameters(Visitor&& visit) {
    if (turned) visit("output", output);
    visit("hidden", hidden);
    if (!turned) visit("output", output);
  }

  bool turned;
};
struct ScaledFloatPolicy : Float32Policy {
  static constexpr ChosenScaler scaler{};
};
using FloatTrainer = Trainer<TurnedClassifier, AdamW, ScaledFloatPolicy>;

FloatTrainer float_trainer(float scale, float clip_norm, bool turned = false) {
  choose_scaler({.initial_scale = scale, .growth_interval = 2, .minimum_scale = 0x1p-40f});
  return FloatTrainer{
      TurnedClassifier(turned),
      {.learning_rate = 0.02},
      {.clip_norm = clip_norm, .seed = 11, .parameters = {parameters_named("*.bias").no_decay()}}};
}

/// Some rows of a batch.
Points rows(const Points& all, std::size_t begin, std::size_t end) {
  Points part(0, all.columns, 1);
  const auto columns = static_cast<std::size_t>(all.columns);
  part.inputs.assign(all.inputs.begin() + static_cast<std::ptrdiff_t>(begin * columns),
                     all.inputs.begin() + static_cast<std::ptrdiff_t>(end * columns));
  part.labels.assign(all.labels.begin() + static_cast<std::ptrdiff_t>(begin),
                     all.labels.begin() + static_cast<std::ptrdiff_t>(end));
  return part;
}

/// Where a window of this many samples is cut: 0, ..., samples.
std::vector<std::size_t> random_cuts(Random& random, std::size_t samples) {
  std::vector<std::size_t> cuts{0, samples};
  for (std::int64_t more = up_to(random, 4); more > 0; --more) cuts.push_back(random() % samples);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// The true gradients of the open window, all parameters in a row; the window is dropped.
template <class Trainer>
Floats gradients_of_window(Trainer& trainer) {
  Floats all;
  auto unscaled = trainer.close_window().unscale();
  unscaled.for_each([&](std::string_view, Tensor<float> gradient) {
    all.insert(all.end(), gradient.begin(), gradient.end());
  });
  return all;
}

std::map<std::string, Floats> by_name(const FloatTrainer& trainer) {
  std::map<std::string, Floats> values;
  for (const auto& parameter : trainer.parameters())
    values[parameter.name] = trainer.read_parameter(parameter.name);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_CASE(counters_add_up_and_a_window_that_is_not_applied_moves_no_bit) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      check_a_random_run<HoldingPolicy>(seed);
      check_a_random_run<AdvancingPolicy>(seed);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_power_of_two_as_a_scale_gives_the_same_float_bits) {
  struct Result {
    std::vector<double> losses, norms;
    Floats parameters;
    bool operator==(const Result&) const = default;
  };
  const auto run = [](float scale) {
    FloatTrainer trainer = float_trainer(scale, 0.05f);
    Result result;
    for (std::uint32_t window = 0; window < 6; ++window) {
      const StepReport report = trainer.step(Points(37, 5, 3, window)).report();
      BOOST_TEST(report.applied());
      BOOST_TEST(report.clip_coefficient < 1.0f);
      result.losses.push_back(report.loss);
      result.norms.push_back(report.gradient_norm);
    }
    result.parameters = all_parameters(trainer);
    return result;
  };
  const Result expected = run(1);
  for (const int exponent : {-30, -9, -1, 1, 2, 16, 40, 80}) {
    BOOST_TEST((run(std::ldexp(1.0f, exponent)) == expected), "2^" << exponent);
  }
  BOOST_TEST((run(3.0f) != expected));  // what is compared can differ
}

BOOST_AUTO_TEST_CASE(how_a_window_is_cut_changes_its_gradients_by_rounding_only) {
  constexpr std::size_t samples = 24;
  const Points all(samples, 5, 3, 4);
  Random random(5);
  FloatTrainer trainer = float_trainer(1024, infinity);
  trainer.accumulate(all);
  const Floats expected = gradients_of_window(trainer);
  const double loss = trainer.evaluate(all).loss();
  for (int turn = 0; turn < 20; ++turn) {
    const auto cuts = random_cuts(random, samples);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) trainer.accumulate(rows(all, cuts[i], cuts[i + 1]));
    check_close(gradients_of_window(trainer), expected, float_tolerance.over(samples));
  }
  FloatTrainer whole = float_trainer(1024, infinity), parts = float_trainer(1024, infinity);
  for (std::size_t i = 0; i < samples; i += 8) parts.accumulate(rows(all, i, i + 8));
  const StepReport report = parts.update().report();
  BOOST_TEST(std::abs(report.loss - loss) <= float_tolerance.at(loss));
  BOOST_TEST(std::abs(report.gradient_norm - whole.step(all).report().gradient_norm) <=
             float_tolerance.over(samples).at(report.gradient_norm));
}

BOOST_AUTO_TEST_CASE(how_a_window_is_cut_changes_nothing_where_sums_are_exact) {
  constexpr std::size_t samples = 32;
  Random random(6);
  std::vector<Floats> each;
  for (std::size_t i = 0; i < samples; ++i) {
    Floats gradient;
    for (int k = 0; k < 3; ++k) gradient.push_back(static_cast<float>(up_to(random, 200)) - 100);
    each.push_back(gradient);
  }
  const auto run = [&](const std::vector<std::size_t>& order, const std::vector<std::size_t>& cuts) {
    choose_scaler({.initial_scale = 1024});
    Trainer<GivenGradients, AdamW, HoldingPolicy> trainer{GivenGradients({3}), {}, {.clip_norm = 1.0f}};
    for (int window = 0; window < 3; ++window) {
      for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
        GivenBatch batch{{Floats(3, 0.0f)}, static_cast<std::int64_t>(cuts[c + 1] - cuts[c])};
        for (std::size_t i = cuts[c]; i < cuts[c + 1]; ++i) {
          for (std::size_t k = 0; k < 3; ++k) batch.gradients[0][k] += each[order[i]][k];
        }
        trainer.accumulate(batch);
      }
      BOOST_TEST(trainer.update().report().valid_count == static_cast<std::int64_t>(samples));
    }
    return bits_of(trainer);
  };
  std::vector<std::size_t> order(samples);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto expected = run(order, {0, samples});
  for (int turn = 0; turn < 20; ++turn) {
    std::shuffle(order.begin(), order.end(), random);
    BOOST_TEST((run(order, random_cuts(random, samples)) == expected));
  }
}

BOOST_AUTO_TEST_CASE(parameters_in_another_order_are_the_same_parameters) {
  FloatTrainer straight = float_trainer(64, infinity), turned = float_trainer(64, infinity, true);
  BOOST_TEST(straight.parameters()[0].name == "hidden.weight");
  BOOST_TEST(turned.parameters()[0].name == "output.weight");
  for (std::uint32_t window = 0; window < 8; ++window) {
    Points points(19, 5, 3, window);
    if (window == 5) points.inputs[7] = infinity;
    const StepReport one = straight.step(points).report(), other = turned.step(points).report();
    BOOST_TEST((one.loss == other.loss || one.outcome == Outcome::skipped));
    BOOST_TEST((one.outcome == other.outcome && one.next_scale == other.next_scale));
    BOOST_TEST((by_name(straight) == by_name(turned)));
  }
  BOOST_TEST((straight.state() == turned.state()));
}

BOOST_AUTO_TEST_SUITE_END()
