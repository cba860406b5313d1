// Bad values planted at every tensor of a step are found where they were planted; looking changes nothing.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <halfstep/halfstep.hpp>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "evidence/diagnosed_models.hpp"
#include "support/each_policy.hpp"

BOOST_AUTO_TEST_SUITE(diagnose_tests)

using namespace halfstep;
using namespace halfstep::test;
using namespace halfstep::test::diagnosed;

namespace {

/// Writes one bad value into one tensor of each pass, after it was computed and before anything reads it: the
/// tensor at a given place in the order of the pass.
class Planter final : public TapeObserver {
 public:
  /// Of the planted tensor, and of each pass: how many there were.
  Observation planted;
  std::string operation;
  std::int64_t tensors = 0;
  bool found = false;

  Planter(std::int64_t position, int which_element, NonFinite kind)
      : position_(position), which_element_(which_element), kind_(kind) {}
  /// Input data is the test's own: it is made good again.
  ~Planter() {
    if (changed_input_ != nullptr) *changed_input_ = input_before_;
  }

  std::int64_t element() const {
    return which_element_ == 0   ? 0
           : which_element_ == 1 ? planted.shape.size() / 2
                                 : planted.shape.size() - 1;
  }

  void see(const Observation& seen) override {
    if (seen.place == Place::input) tensors = 0;
    if (seen.place == Place::activation && seen.slot != nullptr) operations_[seen.slot] = seen.operation;
    if (tensors++ != position_ || seen.place == Place::parameter) return;
    found = true;
    planted = seen;
    operation = seen.slot != nullptr ? operations_[seen.slot] : std::string(seen.operation);
    with_floating_type(seen.dtype, seen.data, [&]<class T>(const T* values) {
      if constexpr (!std::is_same_v<T, double>) {
        T& target = const_cast<T*>(values)[element()];
        if constexpr (std::is_same_v<T, float>) {
          if (seen.place == Place::input && changed_input_ == nullptr) {
            changed_input_ = &target;
            input_before_ = target;
          }
        }
        constexpr float infinity = std::numeric_limits<float>::infinity();
        target = T(kind_ == NonFinite::nan                 ? std::numeric_limits<float>::quiet_NaN()
                   : kind_ == NonFinite::positive_infinity ? infinity
                                                           : -infinity);
      }
    });
  }

 private:
  std::int64_t position_;
  int which_element_;
  NonFinite kind_;
  std::map<const detail::GradientSlot*, std::string> operations_;
  float* changed_input_ = nullptr;
  float input_before_ = 0;
};

/// All bits of all tensors of each pass, in order.
class Recorder final : public TapeObserver {
 public:
  std::vector<std::vector<std::byte>> tensors;
  void see(const Observation& seen) override {
    const auto* bytes = static_cast<const std::byte*>(seen.data);
    tensors.emplace_back(bytes, bytes + seen.shape.size() * size_of(seen.dtype));
  }
};

template <class Trainer>
auto& tape_of(Trainer& trainer) {
  return detail::TrainerAccess::core(trainer).tape();
}

template <class Policy>
DiagnosedTrainer<Policy> every_trainer() {
  // A small rate: float16's first scale is found before anything is planted, and the weights stay sound.
  return DiagnosedTrainer<Policy>(EveryOperation{}, {.learning_rate = 1e-3f}, {.seed = 3});
}

/// The diagnosis names the tensor, the element and the value that were planted, and belongs to the step's
/// report.
void check_named(const Diagnosis& diagnosis, const Planter& planter, std::int64_t position, NonFinite kind,
                 const StepReport& report, std::span<const ParameterInfo> parameters) {
  BOOST_TEST_REQUIRE(diagnosis.first.has_value());
  const TensorEvidence& first = *diagnosis.first;
  const Observation& planted = planter.planted;
  BOOST_TEST_INFO_SCOPE(diagnosis.text());
  BOOST_TEST(first.position == position);
  const bool is_loss = planter.operation == "Loss" && planted.place == Place::activation;
  BOOST_TEST((first.place == (is_loss ? Place::loss : planted.place)));
  BOOST_TEST(first.operation == planter.operation);
  BOOST_TEST((first.dtype == planted.dtype && first.shape == planted.shape));
  BOOST_TEST(first.statistics.first_non_finite == planter.element());
  BOOST_TEST((first.statistics.kind == kind));
  BOOST_TEST(first.statistics.non_finite == 1);
  BOOST_TEST(first.statistics.size == planted.shape.size());
  if (first.place == Place::parameter_gradient) {
    BOOST_TEST(first.layer == parameters[static_cast<std::size_t>(planted.parameter)].name);
  }
  if (report.outcome == Outcome::skipped) {
    BOOST_TEST(diagnosis.attempt == 1);
    BOOST_TEST((diagnosis.skip_cause == report.skip_cause));
    BOOST_TEST(diagnosis.scale == report.scale);
    BOOST_TEST(std::memcmp(&diagnosis.loss, &report.loss, sizeof(double)) == 0);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_bad_value_planted_anywhere_is_the_one_that_is_named) {
  under_each<Float32Policy, HalfPolicy, BFloat16Policy>([]<class Policy>(Policy) {
    const Points points(5, 4, 3);
    std::int64_t count = 0;
    {
      auto trainer = every_trainer<Policy>();
      Planter nothing(-1, 0, NonFinite::nan);
      tape_of(trainer).observe(&nothing);
      trainer.step(points);
      count = nothing.tensors;
    }
    const bool casts = !std::is_same_v<Policy, Float32Policy>;
    BOOST_TEST(count == (casts ? 32 : 29));
    std::map<Place, int> seen;
    for (std::int64_t position = 0; position < count; ++position) {
      for (int element = 0; element < 3; ++element) {
        const auto kind = static_cast<NonFinite>(1 + (position + element) % 3);
        auto trainer = every_trainer<Policy>();
        Planter planter(position, element, kind);
        tape_of(trainer).observe(&planter);
        const StepReport report = trainer.step(points).report();
        if (!planter.found) continue;  // a parameter's numbers: see below
        ++seen[planter.planted.place];

        BOOST_TEST_INFO_SCOPE("tensor " << position << " element " << planter.element() << " is "
                                        << name_of(kind));
        check_named(trainer.diagnose(points), planter, position, kind, report, trainer.parameters());
      }
    }
    BOOST_TEST(seen[Place::input] == 3);
    BOOST_TEST(seen[Place::activation] == (casts ? 30 : 24));
    BOOST_TEST(seen[Place::activation_gradient] == (casts ? 27 : 24));
    BOOST_TEST(seen[Place::parameter_gradient] == 18);
  });
}

namespace {

/// Three batches, the middle one with an infinite input.
std::vector<Points> two_good_and_one_bad() {
  std::vector<Points> batches{{9, 4, 3, 1}, {4, 4, 3, 2}, {6, 4, 3, 3}};
  batches[1].inputs[5] = std::numeric_limits<float>::infinity();
  return batches;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_looked_at_has_the_bits_of_the_window_that_failed) {
  under_each<Float32Policy, HalfPolicy, BFloat16Policy>([]<class Policy>(Policy) {
    const std::vector<Points> batches = two_good_and_one_bad();
    auto trainer = every_trainer<Policy>();
    trainer.step(batches[0]);
    Recorder recorded;
    tape_of(trainer).observe(&recorded);
    std::size_t first_of_second = 0;
    for (const Points& batch : batches) {
      if (&batch == &batches[1]) first_of_second = recorded.tensors.size();
      trainer.accumulate(batch);
    }
    tape_of(trainer).observe(nullptr);
    const StepReport report = trainer.update().report();
    BOOST_TEST_REQUIRE((report.outcome == Outcome::skipped));
    // The next window is open by now: its random numbers are others.
    trainer.accumulate(batches[0]);

    Recorder again;
    tape_of(trainer).observe(&again);
    const Diagnosis diagnosis = trainer.diagnose_window(batches);
    BOOST_TEST((tape_of(trainer).observe(nullptr) == &again));
    BOOST_TEST_REQUIRE(again.tensors.size() >= recorded.tensors.size());
    again.tensors.resize(recorded.tensors.size());
    BOOST_TEST((again.tensors == recorded.tensors));
    BOOST_TEST(diagnosis.attempt == 2);
    BOOST_TEST(diagnosis.scale == report.scale);
    BOOST_TEST(std::memcmp(&diagnosis.loss, &report.loss, sizeof(double)) == 0);
    BOOST_TEST((diagnosis.first->place == Place::input));
    BOOST_TEST(diagnosis.first->micro_batch == 1);
    BOOST_TEST(diagnosis.first->statistics.first_non_finite == 5);
    BOOST_TEST((diagnosis.first->statistics.kind == NonFinite::positive_infinity));

    // The second micro-batch alone: with its own random numbers and the seed that the first one fixed.
    Recorder alone;
    tape_of(trainer).observe(&alone);
    const Diagnosis second = trainer.diagnose(batches[1], {.micro_batch = 1});
    tape_of(trainer).observe(nullptr);
    BOOST_TEST(second.first->name() == diagnosis.first->name());
    BOOST_TEST(second.first->micro_batch == 1);
    constexpr std::size_t forward_and_seed = 16;
    for (std::size_t i = 0; i < forward_and_seed; ++i) {
      BOOST_TEST_INFO_SCOPE("tensor " << i);
      BOOST_TEST((alone.tensors[i] == recorded.tensors[first_of_second + i]));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_run_that_is_diagnosed_has_the_bits_of_one_that_is_not) {
  under_each<Float32Policy, HalfPolicy, BFloat16Policy>([]<class Policy>(Policy) {
    const std::vector<Points> batches = two_good_and_one_bad();
    const auto run = [&](bool diagnoses) {
      DiagnosedTrainer<Policy> trainer(EveryOperation{}, {.learning_rate = 1e-2f, .momentum = 0.9f},
                                       {.clip_norm = 1.0f, .seed = 5});
      trainer.diagnose_skips(diagnoses);
      std::vector<double> numbers;
      int skips = 0;
      for (int window = 0; window < 6; ++window) {
        trainer.accumulate(batches[0]);
        if (diagnoses) trainer.diagnose(batches[1], {.table = true});
        trainer.accumulate(batches[window == 2 ? 1 : 2]);
        if (diagnoses) trainer.diagnose(batches[2]);
        const StepReport report = trainer.update().report();
        const bool skipped = report.outcome == Outcome::skipped;
        skips += skipped ? 1 : 0;
        BOOST_TEST((report.diagnosis != nullptr) == (diagnoses && skipped));
        for (const double value :
             {report.loss, report.gradient_norm, static_cast<double>(report.scale),
              static_cast<double>(report.update_number), static_cast<double>(report.skipped)}) {
          numbers.push_back(value);
        }
        if (diagnoses) trainer.diagnose_window(std::span(batches).subspan(0, 2), {.table = true});
      }
      BOOST_TEST(skips > 0);
      BOOST_TEST(skips < 6);
      for (const float value : all_parameters(trainer)) numbers.push_back(static_cast<double>(value));
      std::vector<std::uint64_t> bits(numbers.size());
      std::memcpy(bits.data(), numbers.data(), numbers.size() * sizeof(double));
      return bits;
    };
    BOOST_TEST((run(true) == run(false)));
  });
}

BOOST_AUTO_TEST_CASE(blocks_computed_again_are_diagnosed_as_those_that_are_kept) {
  const auto text = [](bool again) {
    DiagnosedTrainer<HalfPolicy> trainer(Repeated{again}, {.learning_rate = 1e-2f}, {.seed = 3});
    const Points points = two_good_and_one_bad()[0];
    std::string result;
    for (int step = 0; step < 3; ++step) result += std::to_string(trainer.step(points).report().loss) + "\n";
    const Diagnosis diagnosis = trainer.diagnose(points, {.table = true});
    return result + diagnosis.text() + "\n" + diagnosis.table_text();
  };
  const std::string expected = text(false);
  BOOST_TEST(text(true) == expected);
  BOOST_TEST_MESSAGE(expected);
}

namespace {

/// What both kinds of diagnosis must agree on: all but the places in the order of all that was computed, and the size
/// of what earlier micro-batches have added to a parameter's gradient.
std::string agreed(Diagnosis diagnosis) {
  std::string text = std::to_string(diagnosis.micro_batches);
  for (auto* tensor : {&diagnosis.first, &diagnosis.first_gradient}) {
    if (!*tensor) continue;
    text += "\n" + (*tensor)->name() + " in " + std::to_string((*tensor)->micro_batch);
    if ((*tensor)->place == Place::parameter_gradient) (*tensor)->statistics.largest = 0;
  }
  return text + "\n" + diagnosis.text();
}

/// Trains on windows of micro-batches that come in one object, and on the same kept. Gives the bits of the masters.
template <class Policy, class Batch>
std::vector<float> check_one_object(const DiagnosedModel& model, const std::vector<std::vector<Batch>>& windows) {
  const auto trainer_of = [&] {
    return DiagnosedTrainer<Policy>(model, {.learning_rate = 1e-2f, .momentum = 0.9f}, {.seed = 5});
  };
  auto refilled = trainer_of(), kept = trainer_of();
  refilled.diagnose_skips();
  std::size_t skips = 0;
  for (const std::vector<Batch>& window : windows) {
    Batch one = window[0];
    for (const Batch& batch : window) {
      one = batch;
      refilled.accumulate(one);
      kept.accumulate(batch);
    }
    one = window[0];
    const StepReport report = refilled.update().report(), expected = kept.update().report();
    BOOST_TEST(std::memcmp(&report.gradient_norm, &expected.gradient_norm, sizeof(double)) == 0);
    BOOST_TEST((report.outcome == expected.outcome && report.next_scale == expected.next_scale));
    BOOST_TEST_REQUIRE((report.diagnosis != nullptr) == (report.outcome == Outcome::skipped));
    if (report.diagnosis == nullptr) continue;
    ++skips;
    BOOST_TEST(agreed(*report.diagnosis) == agreed(kept.diagnose_window(window)));
  }
  BOOST_TEST(skips > 0U);
  BOOST_TEST(skips < windows.size());
  const std::vector<float> masters = all_parameters(refilled);
  BOOST_TEST((masters == all_parameters(kept)));
  return masters;
}

}  // namespace

BOOST_AUTO_TEST_CASE(micro_batches_that_come_in_one_object_are_diagnosed_as_those_that_are_kept) {
  under_each<Float32Policy, HalfPolicy, BFloat16Policy>([]<class Policy>(Policy) {
    const std::vector<Points> batches = two_good_and_one_bad();
    const Points &good = batches[0], &bad = batches[1], &short_one = batches[2];
    Points large = short_one;
    for (float& value : large.inputs) value *= 1e6f;
    check_one_object<Policy>(EveryOperation{},
                             std::vector<std::vector<Points>>{{good, short_one, good},
                                                              {bad, good, good},
                                                              {good, bad, short_one},
                                                              {good, short_one, bad},
                                                              {short_one, bad, bad},
                                                              {short_one, large, bad},
                                                              {short_one, good}});
  });
}

BOOST_AUTO_TEST_CASE(the_gradient_that_overflows_in_one_object_is_named) {
  const GivenBatch small{{{0.5f, 0.25f}, {0.5f}}}, other{{{0.5f, 3.0f}, {}}}, wrong{{{}, {4.0f}}, 1, 0.0f};
  check_one_object<HalfPolicy>(GivenGradients({2, 1}, true), std::vector<std::vector<GivenBatch>>{
                                                                 {small, other},
                                                                 {small, small, wrong, other},
                                                                 {small, small}});
}

BOOST_AUTO_TEST_CASE(a_sum_that_overflows_though_no_micro_batch_does_is_named) {
  GivenBatch most{{{1.0f, 1.0f}, {2.5e38f}}};
  DiagnosedTrainer<Float32Policy> trainer(GivenGradients({2, 1}), {.learning_rate = 0.0f});
  trainer.diagnose_skips();
  trainer.accumulate(most);
  trainer.accumulate(most);
  const StepReport report = trainer.update().report();
  BOOST_TEST_REQUIRE(report.diagnosis != nullptr);
  const Diagnosis whole = trainer.diagnose_window(std::vector<GivenBatch>{most, most});
  BOOST_TEST(report.diagnosis->first->name() == whole.first->name());
  BOOST_TEST(report.diagnosis->first->name() == "gradient of \"w.1\"");
  BOOST_TEST(report.diagnosis->first->micro_batch == 1);
  BOOST_TEST(report.diagnosis->text().find("their sum is beyond") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_window_begun_before_diagnosis_is_asked_for_is_stepped_as_ever) {
  const std::vector<Points> batches = two_good_and_one_bad();
  DiagnosedTrainer<Float32Policy> trainer(EveryOperation{});
  trainer.accumulate(batches[1]);
  trainer.diagnose_skips();
  trainer.accumulate(batches[0]);
  const StepReport report = trainer.update().report();
  BOOST_TEST((report.outcome == Outcome::skipped));
  BOOST_TEST(report.diagnosis == nullptr);
  trainer.accumulate(batches[0]);
  trainer.diagnose_skips(false);
  trainer.accumulate(batches[1]);
  BOOST_TEST((trainer.update().report().outcome == Outcome::skipped));
}

BOOST_AUTO_TEST_CASE(a_label_that_a_mask_forbids_is_told_from_an_overflow) {
  auto trainer = every_trainer<HalfPolicy>();
  const float infinity = std::numeric_limits<float>::infinity();
  trainer.write_parameter("head.bias", std::vector<float>{-infinity, 0.0f, 0.0f});
  const Points points(5, 4, 3);
  BOOST_TEST((trainer.step(points).report().skip_cause == SkipCause::loss));
  const Diagnosis diagnosis = trainer.diagnose(points);
  BOOST_TEST(diagnosis.first->name() == "parameter \"head.bias\"");
  BOOST_TEST(!diagnosis.first_gradient.has_value());
  BOOST_TEST(diagnosis.advice.find("asks for one of them") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
