// Bad values planted at every tensor of a step are found where they were planted; looking changes nothing.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <halfstep/halfstep.hpp>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/classifier.hpp"
#include "support/given_gradients.hpp"
#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(diagnose_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

/// float16 with a scaler that a test may choose, and an end.
struct HalfPolicy : ChosenScalerPolicy {
  static constexpr std::int64_t stop_after_skips = 40;
};

using Policies = std::tuple<Float32Policy, BFloat16Policy, HalfPolicy>;

/// Each operation that there is, some of them twice, one layer in float.
struct EveryOperation {
  Linear first{4, 6}, second{6, 6};
  ComputeIn<float, Linear> head{6, 3};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    visit("blocks.second", second);
    visit("head", head);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Points& points) const {
    const auto x = dropout(tape, gelu(tape, first(tape, points.images())), 0.25f);
    return cross_entropy(tape, head(tape, relu(tape, relu(tape, second(tape, x)))), points.targets());
  }
};

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
using EveryTrainer = Trainer<EveryOperation, SGD, Policy>;

template <class Policy>
EveryTrainer<Policy> every_trainer() {
  // A small rate: float16's first scale is found before anything is planted, and the weights stay sound.
  EveryTrainer<Policy> trainer(EveryOperation{}, {.learning_rate = 1e-3f}, {.seed = 3});
  return trainer;
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

BOOST_AUTO_TEST_CASE_TEMPLATE(a_bad_value_planted_anywhere_is_the_one_that_is_named, Policy, Policies) {
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
}

namespace {

/// Three batches, the middle one with an infinite input.
std::vector<Points> two_good_and_one_bad() {
  std::vector<Points> batches{{9, 4, 3, 1}, {4, 4, 3, 2}, {6, 4, 3, 3}};
  batches[1].inputs[5] = std::numeric_limits<float>::infinity();
  return batches;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(what_is_looked_at_has_the_bits_of_the_window_that_failed, Policy, Policies) {
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
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_run_that_is_diagnosed_has_the_bits_of_one_that_is_not, Policy, Policies) {
  const std::vector<Points> batches = two_good_and_one_bad();
  const auto run = [&](bool diagnoses) {
    EveryTrainer<Policy> trainer(EveryOperation{}, {.learning_rate = 1e-2f, .momentum = 0.9f},
                                 {.clip_norm = 1.0f, .seed = 5});
    trainer.diagnose_skips(diagnoses);
    std::vector<double> numbers;
    const auto end_window = [&] {
      const StepReport report = trainer.update().report();
      BOOST_TEST((report.diagnosis != nullptr) == (diagnoses && report.outcome == Outcome::skipped));
      for (const double value :
           {report.loss, report.gradient_norm, static_cast<double>(report.scale),
            static_cast<double>(report.update_number), static_cast<double>(report.skipped)}) {
        numbers.push_back(value);
      }
      return report.outcome;
    };
    int skips = 0;
    for (int window = 0; window < 6; ++window) {
      trainer.accumulate(batches[0]);
      if (diagnoses) trainer.diagnose(batches[1], {.table = true});
      trainer.accumulate(batches[window == 2 ? 1 : 2]);
      if (diagnoses) trainer.diagnose(batches[2]);
      skips += end_window() == Outcome::skipped ? 1 : 0;
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
}

BOOST_AUTO_TEST_CASE(the_diagnosis_is_the_same_for_every_number_of_threads) {
  const auto run = [] {
    Trainer<Classifier, SGD, HalfPolicy> trainer(Classifier(160, 512, 10), {.learning_rate = 1e-3f},
                                                 {.device = {.deterministic = true}});
    Points points(64, 160, 10);
    for (float& value : points.inputs) value *= 3e4f;
    trainer.step(points);
    const Diagnosis diagnosis = trainer.diagnose(points, {.table = true});
    return diagnosis.text() + diagnosis.table_text();
  };
  const auto [one, two] = with_one_and_two_threads(run);
  BOOST_TEST(one.find("is +inf") != std::string::npos);
  BOOST_TEST(one == two);
}

BOOST_AUTO_TEST_CASE(a_skipped_window_explains_itself_where_that_is_asked_for) {
  Trainer<Classifier, SGD, HalfPolicy> trainer({}, {.learning_rate = 1e-3f});
  trainer.diagnose_skips();
  const Points good(4, 4, 3, 1);
  Points bad(4, 4, 3, 2);
  bad.inputs[7] = -std::numeric_limits<float>::infinity();
  trainer.accumulate(good);
  trainer.accumulate(good);
  trainer.accumulate(bad);
  const StepReport report = trainer.update().report();
  BOOST_TEST_REQUIRE(report.diagnosis != nullptr);
  BOOST_TEST(report.diagnosis->first->micro_batch == 2);
  BOOST_TEST(report.diagnosis->first->statistics.first_non_finite == 7);
  BOOST_TEST((report.diagnosis->first->statistics.kind == NonFinite::negative_infinity));
  BOOST_TEST(report.diagnosis->text().find("micro-batch 2") != std::string::npos);

  trainer.accumulate(bad);
  trainer.abandon();
  try {
    for (int window = 2; window <= 40; ++window) {
      trainer.accumulate(good);
      trainer.accumulate(bad);
      trainer.update();
    }
    BOOST_ERROR("training did not stop");
  } catch (const TrainingStopped& stopped) {
    BOOST_TEST_REQUIRE(stopped.report.diagnosis != nullptr);
    BOOST_TEST(stopped.report.diagnosis->attempt == 40);
    BOOST_TEST(stopped.report.diagnosis->first->micro_batch == 1);
    BOOST_TEST(std::string(stopped.what()).find(stopped.report.diagnosis->text()) != std::string::npos);
  }
  trainer.accumulate(bad);
  trainer.abandon();
  BOOST_TEST(trainer.step(good).report().diagnosis == nullptr);
}

BOOST_AUTO_TEST_CASE(nothing_of_a_sample_is_shown_unless_asked) {
  Trainer<Classifier, SGD, HalfPolicy> trainer({}, {.learning_rate = 1e-3f});
  Points points(4, 4, 3);
  points.inputs[0] = 0.4375f;
  points.inputs[1] = 1234.5f;
  points.inputs[5] = std::numeric_limits<float>::quiet_NaN();
  trainer.step(points);
  const Diagnosis quiet = trainer.diagnose(points, {.table = true});
  BOOST_TEST((quiet.first->place == Place::input));
  BOOST_TEST(quiet.first->statistics.largest == 0);
  BOOST_TEST(quiet.first->statistics.mean == 0);
  BOOST_TEST((quiet.text() + quiet.table_text()).find("1234") == std::string::npos);
  BOOST_TEST(quiet.advice.find("data") != std::string::npos);
  // The copy in the compute type is the sample as well.
  const Diagnosis asked = trainer.diagnose(points, {.table = true, .input_values = true});
  BOOST_TEST(asked.first->statistics.largest == 1234.5);
}

BOOST_AUTO_TEST_CASE(weights_too_large_for_float16_are_named_by_parameter) {
  Trainer<Classifier, SGD, HalfPolicy> trainer({}, {.learning_rate = 1e-3f});
  auto values = trainer.read_parameter("output.weight");
  values[9] = -70000.0f;
  trainer.write_parameter("output.weight", values);
  const Points points(4, 4, 3);
  trainer.step(points);
  const Diagnosis diagnosis = trainer.diagnose(points);
  BOOST_TEST((diagnosis.first->place == Place::parameter));
  BOOST_TEST(diagnosis.first->layer == "output.weight");
  BOOST_TEST(diagnosis.first->statistics.first_non_finite == 9);
  BOOST_TEST((diagnosis.first->statistics.kind == NonFinite::negative_infinity));
  BOOST_TEST(!diagnosis.fitting_scale.has_value());
}

namespace {

struct Row {
  Tensor<const float> inputs, targets;
};

/// sum of (x W1^T) W2^T in the compute type: gradients are products of weights and the loss scale.
struct TwoProducts {
  Linear inner{1, 3, {.bias = false}}, outer{3, 1, {.bias = false}};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("inner", inner);
    visit("outer", outer);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Row& row) const {
    const auto y = outer(tape, inner(tape, row.inputs));
    return row.targets.size() > 0 ? mean_squared_error(tape, y, row.targets) : sum(tape, y);
  }
};

const float one[] = {1.0f};
const Row one_sample{{one, {1, 1}}, {}};

}  // namespace

BOOST_AUTO_TEST_CASE(the_scale_that_fits_is_the_largest_that_leaves_a_binade_free) {
  // d loss / d (result of outer) is the scale itself: 65536 is no float16, and the first one that fits with a
  // binade to spare is 2^14. With 8 in the outer weights the gradient of inner is eight times that.
  for (const auto& [weight, fits] :
       {std::pair(1.0f, 0x1p14f), {8.0f, 0x1p11f}, {0x1p-20f, 0x1p14f}, {3.0f, 0x1p13f}}) {
    Trainer<TwoProducts, SGD, HalfPolicy> trainer({}, {.learning_rate = 0.0f});
    trainer.write_parameter("outer.weight", std::vector<float>(3, weight));
    trainer.write_parameter("inner.weight", std::vector<float>(3, 1.0f));
    BOOST_TEST((trainer.step(one_sample).report().skip_cause == SkipCause::gradient));
    const Diagnosis diagnosis = trainer.diagnose(one_sample);
    BOOST_TEST(diagnosis.first->name() == "gradient of Matmul of \"outer\"");
    BOOST_TEST(diagnosis.first->written_by == "Loss after \"outer\"");
    BOOST_TEST(diagnosis.first->statistics.first_non_finite == 0);
    BOOST_TEST_REQUIRE(diagnosis.fitting_scale.has_value());
    BOOST_TEST(*diagnosis.fitting_scale == fits);
    BOOST_TEST(diagnosis.advice.find(".initial_scale = ") != std::string::npos);
    // After the skip that scale is not reached at once; a batch that fits says the same.
    while (!trainer.step(one_sample).report().applied()) {
    }
    BOOST_TEST(trainer.diagnose(one_sample).finite());
    BOOST_TEST(*trainer.diagnose(one_sample).fitting_scale == fits);
  }
}

BOOST_AUTO_TEST_CASE(zeros_that_were_too_small_are_told_from_zeros_that_are_zero) {
  ChosenScaler::options = {.initial_scale = 0.5f};
  Trainer<TwoProducts, SGD, HalfPolicy> trainer({}, {.learning_rate = 0.0f});
  ChosenScaler::options = {};
  // At scale 1/2 the gradients of inner's result are 2^-25, which rounds to zero, 1/2, and a true zero.
  trainer.write_parameter("outer.weight", std::vector<float>{0x1p-24f, 1.0f, 0.0f});
  trainer.write_parameter("inner.weight", std::vector<float>{1.0f, 40000.0f, -3.0f});
  const Diagnosis diagnosis = trainer.diagnose(one_sample, {.table = true});
  const auto row = [&](const std::string& name) {
    for (const TensorEvidence& tensor : diagnosis.table) {
      if (tensor.name() == name) return tensor.statistics;
    }
    BOOST_FAIL("no row " + name + " in\n" + diagnosis.table_text());
    return TensorStatistics{};
  };
  const TensorStatistics gradient = row("gradient of Matmul of \"inner\"");
  BOOST_TEST(gradient.size == 3);
  BOOST_TEST(gradient.zeros == 2);
  BOOST_TEST(*gradient.rounded_to_zero == 1);
  BOOST_TEST(gradient.largest == 0.5);
  const TensorStatistics result = row("Matmul of \"inner\"");
  BOOST_TEST(result.largest == 40000);
  BOOST_TEST(result.smallest == 1);
  BOOST_TEST(result.mean == (1.0 + 40000.0 - 3.0) / 3);
  BOOST_TEST(result.near_overflow == 1);
  BOOST_TEST(!result.rounded_to_zero.has_value());
  BOOST_TEST(*row("gradient of \"inner.weight\"").rounded_to_zero == 1);
}

BOOST_AUTO_TEST_CASE(a_loss_that_overflows_by_itself_is_no_matter_of_the_scale) {
  const float huge[] = {1e30f};
  const Row row{{one, {1, 1}}, {huge, {1, 1}}};
  Trainer<TwoProducts, SGD, HalfPolicy> trainer({}, {.learning_rate = 0.0f});
  BOOST_TEST((trainer.step(row).report().skip_cause == SkipCause::loss));
  const Diagnosis diagnosis = trainer.diagnose(row);
  BOOST_TEST((diagnosis.first->place == Place::loss));
  BOOST_TEST(!diagnosis.fitting_scale.has_value());
  BOOST_TEST(diagnosis.advice.find("no loss scale can cure that") != std::string::npos);
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

BOOST_AUTO_TEST_CASE(a_rate_raised_until_float16_breaks_is_found_and_the_advice_mends_it) {
  const Points points(64, 8, 4);
  const auto train = [&](float rate, Diagnosis& diagnosis) {
    Trainer<Classifier, SGD, HalfPolicy> trainer(Classifier(8, 32, 4), {.learning_rate = rate}, {.seed = 2});
    trainer.diagnose_skips();
    StepReport report;
    for (int step = 0; step < 200; ++step) {
      report = trainer.step(points).report();
      if (report.skip_cause == SkipCause::loss) {
        diagnosis = *report.diagnosis;
        return report;
      }
    }
    return report;
  };
  Diagnosis diagnosis;
  float rate = 1.0f;
  while (train(rate, diagnosis).applied()) rate *= 10;
  BOOST_TEST_INFO_SCOPE(rate << ": " << diagnosis.text());
  BOOST_TEST((diagnosis.first->place == Place::activation));
  BOOST_TEST(diagnosis.first->operation == "Matmul");
  BOOST_TEST(!diagnosis.fitting_scale.has_value());
  BOOST_TEST(diagnosis.advice.find("lower the learning rate") != std::string::npos);
  const StepReport mended = train(rate / 1000, diagnosis);
  BOOST_TEST(mended.applied());
  BOOST_TEST(mended.loss < 0.5);
}

BOOST_AUTO_TEST_CASE(a_diagnosis_of_what_was_not_in_the_window_is_refused) {
  Trainer<Classifier, SGD, HalfPolicy> trainer({}, {.learning_rate = 1e-3f});
  const Points points(4, 4, 3);
  BOOST_CHECK_THROW(trainer.diagnose(points, {.micro_batch = 1}), ConfigurationError);
  BOOST_CHECK_THROW(trainer.diagnose(points, {.micro_batch = -1}), ConfigurationError);
  BOOST_CHECK_THROW(trainer.diagnose_window(std::vector<Points>{}), ConfigurationError);
  Points bad(4, 4, 3);
  bad.inputs[0] = std::numeric_limits<float>::infinity();
  trainer.accumulate(points);
  trainer.accumulate(bad);
  trainer.update();
  BOOST_CHECK_THROW(trainer.diagnose(points, {.micro_batch = 2}), ConfigurationError);
  BOOST_CHECK_THROW(trainer.diagnose_window(std::vector<Points>{points}), ConfigurationError);
  BOOST_TEST(trainer.diagnose(points).advice.find("is it the batch that was skipped") != std::string::npos);
  BOOST_TEST(!trainer.diagnose_window(std::vector<Points>{points, bad}).finite());
  // After an applied window the present state is looked at.
  trainer.step(points);
  BOOST_TEST(trainer.diagnose(bad).attempt == 0);
  BOOST_TEST(trainer.diagnose(points).finite());
}

BOOST_AUTO_TEST_SUITE_END()
