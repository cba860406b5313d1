// What a diagnosis says: where, how much, which scale fits, what to do.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evidence/diagnosed_models.hpp"
#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(diagnosis_tests)

using namespace halfstep;
using namespace halfstep::test;
using namespace halfstep::test::diagnosed;

BOOST_AUTO_TEST_CASE(the_diagnosis_is_the_same_for_every_number_of_threads) {
  const auto run = [] {
    DiagnosedTrainer<HalfPolicy> trainer(Classifier(160, 512, 10), {.learning_rate = 1e-3f},
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
  DiagnosedTrainer<HalfPolicy> trainer(Classifier(), {.learning_rate = 1e-3f});
  trainer.diagnose_skips();
  const Points good(4, 4, 3, 1), also_good(4, 4, 3, 3);
  Points bad(4, 4, 3, 2);
  bad.inputs[7] = -std::numeric_limits<float>::infinity();
  trainer.accumulate(good);
  trainer.accumulate(also_good);
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
  DiagnosedTrainer<HalfPolicy> trainer(Classifier(), {.learning_rate = 1e-3f});
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
  DiagnosedTrainer<HalfPolicy> trainer(Classifier(), {.learning_rate = 1e-3f});
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

const float one[] = {1.0f};
const Row one_sample{{one, {1, 1}}, {}};

}  // namespace

BOOST_AUTO_TEST_CASE(the_scale_that_fits_is_the_largest_that_leaves_a_binade_free) {
  // d loss / d (result of outer) is the scale itself: 65536 is no float16, and the first one that fits with a
  // binade to spare is 2^14. With 8 in the outer weights the gradient of inner is eight times that.
  for (const auto& [weight, fits] :
       {std::pair(1.0f, 0x1p14f), {8.0f, 0x1p11f}, {0x1p-20f, 0x1p14f}, {3.0f, 0x1p13f}}) {
    DiagnosedTrainer<HalfPolicy> trainer(TwoProducts(), {.learning_rate = 0.0f});
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
  const ScalerChoice scaler({.initial_scale = 0.5f});
  DiagnosedTrainer<HalfPolicy> trainer(TwoProducts(), {.learning_rate = 0.0f});
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
  DiagnosedTrainer<HalfPolicy> trainer(TwoProducts(), {.learning_rate = 0.0f});
  BOOST_TEST((trainer.step(row).report().skip_cause == SkipCause::loss));
  const Diagnosis diagnosis = trainer.diagnose(row);
  BOOST_TEST((diagnosis.first->place == Place::loss));
  BOOST_TEST(!diagnosis.fitting_scale.has_value());
  BOOST_TEST(diagnosis.advice.find("no loss scale can cure that") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_rate_raised_until_float16_breaks_is_found_and_the_advice_mends_it) {
  const Points points(64, 8, 4);
  const auto train = [&](float rate, Diagnosis& diagnosis) {
    DiagnosedTrainer<HalfPolicy> trainer(Classifier(8, 32, 4), {.learning_rate = rate}, {.seed = 2});
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
  float rate = 10;  // the last that goes well
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
  DiagnosedTrainer<HalfPolicy> trainer(Classifier(), {.learning_rate = 1e-3f});
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

BOOST_AUTO_TEST_CASE(a_window_that_was_mended_by_hand_is_applied_and_explains_nothing) {
  DiagnosedTrainer<HalfPolicy> trainer(GivenGradients({2}, true), {.learning_rate = 1});
  trainer.diagnose_skips();
  const GivenBatch bad{{{std::numeric_limits<float>::quiet_NaN(), 0.25f}}};
  trainer.accumulate(bad);
  auto gradients = trainer.close_window().unscale();
  gradients.for_each([](std::string_view, Tensor<float> gradient) { gradient[0] = 3.0f; });
  const StepReport report = trainer.apply(std::move(gradients)).report();
  BOOST_TEST(report.applied());
  BOOST_TEST(report.diagnosis == nullptr);
  BOOST_TEST(trainer.step(bad).report().diagnosis != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
