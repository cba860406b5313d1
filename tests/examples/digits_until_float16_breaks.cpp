#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include <halfstep/halfstep.hpp>

#include "../../examples/digits/model.hpp"

// The digits model under float16 with a learning rate that is raised until the forward pass leaves the type's range: what
// the skipped window's report says of it, and what becomes of the run where its advice is followed.

BOOST_AUTO_TEST_SUITE(digits_until_float16_breaks_tests)

namespace {

using namespace halfstep;

/// How a run of an epoch or less ended: the first window that was skipped for more than a high loss scale.
struct Ending {
  std::optional<Diagnosis> broken = {};
  std::string text = {};
  std::int64_t updates = 0;
  double last_loss = 0;
};

template <class Policy>
Ending train(float learning_rate, const Digits& data) {
  Trainer<DigitsMlp, AdamW, Policy> trainer{DigitsMlp{}, AdamW{.learning_rate = learning_rate}, {.seed = 7}};
  trainer.diagnose_skips();
  Ending ending;
  constexpr int epochs = 2;
  Loader loader(data.training, {.batch_size = 64}, Shuffled(7));
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const auto& batch : loader) {
      const StepReport report = trainer.step(batch).report();
      ending.updates = report.update_number;
      if (report.outcome == Outcome::applied) {
        ending.last_loss = report.loss;
        continue;
      }
      BOOST_REQUIRE(report.diagnosis != nullptr);
      if (report.diagnosis->first && report.diagnosis->first->is_gradient()) continue;
      ending.broken = *report.diagnosis;
      ending.text = report.diagnosis->text();
      return ending;
    }
  }
  return ending;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_report_names_the_operation_and_its_advice_followed_mends_the_run) {
  const Digits data = Digits::read(HALFSTEP_SOURCE_DIR "/examples/data/digits.csv");
  float rate = 1e-3f;
  Ending ending = train<Float16ScaledPolicy>(rate, data);
  BOOST_REQUIRE(!ending.broken);
  while (!ending.broken && rate < 1e3f) {
    rate *= 10;
    ending = train<Float16ScaledPolicy>(rate, data);
  }
  BOOST_REQUIRE(ending.broken.has_value());
  BOOST_TEST_MESSAGE("learning rate " << rate << " breaks after " << ending.updates << " updates\n" << ending.text);

  // The forward pass, at a layer that it names, after updates that went well.
  const TensorEvidence& first = *ending.broken->first;
  BOOST_TEST((first.place == Place::activation));
  BOOST_TEST((first.layer == "hidden" || first.layer == "output"), first.name());
  BOOST_TEST(first.operation == "Matmul");
  BOOST_TEST((first.dtype == DType::f16));
  BOOST_TEST(first.statistics.non_finite > 0);
  BOOST_TEST(ending.updates > 0);
  BOOST_TEST(ending.broken->advice.find("lower the learning rate") != std::string::npos, ending.broken->advice);
  BOOST_TEST(ending.broken->advice.find("BFloat16Policy") != std::string::npos, ending.broken->advice);
  BOOST_TEST(ending.text.find("loss NaN") != std::string::npos, ending.text);
  BOOST_TEST(ending.text.find(first.layer) != std::string::npos, ending.text);

  // Its first advice, a lower rate: a tenth no longer overflows, a thousandth learns. Its last, the type with float's
  // range: the same rate no longer overflows.
  BOOST_TEST(!train<Float16ScaledPolicy>(rate / 10, data).broken);
  const Ending lower = train<Float16ScaledPolicy>(rate / 1000, data);
  BOOST_TEST(!lower.broken);
  BOOST_TEST(lower.last_loss < 0.5);
  BOOST_TEST(!train<BFloat16Policy>(rate, data).broken);
}

BOOST_AUTO_TEST_SUITE_END()
