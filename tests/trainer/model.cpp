// A real model in a trainer: it learns, predicts and is evaluated; its parameters are read and written by
// name.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <string>
#include <vector>

#include "support/classifier.hpp"
#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(model_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using TheTrainer = Trainer<Classifier, AdamW, Float16ScaledPolicy>;

TheTrainer new_trainer() {
  return TheTrainer(Classifier(), {.learning_rate = 0.02}, {.clip_norm = 1.0f, .seed = 3});
}

std::vector<float> copy(const Tensor<const float>& tensor) { return {tensor.begin(), tensor.end()}; }

}  // namespace

BOOST_AUTO_TEST_CASE(it_learns) {
  const Points training(256, 4, 3), validation(100, 4, 3, 2);
  TheTrainer trainer = new_trainer();
  const double before = trainer.evaluate(validation).loss();
  for (int step = 0; step < 150; ++step) trainer.step(training);
  BOOST_TEST(trainer.evaluate(validation).loss() < 0.4 * before);
  BOOST_TEST(trainer.state().update_number + trainer.state().skipped == 150);

  const Tensor<const float> logits = trainer.predict(validation.images());
  BOOST_TEST((logits.shape() == Shape{100, 3}));
  int right = 0;
  for (std::int64_t row = 0; row < 100; ++row) {
    const float* first = logits.data() + 3 * row;
    right += std::max_element(first, first + 3) - first == validation.labels[static_cast<std::size_t>(row)]
                 ? 1
                 : 0;
  }
  BOOST_TEST(right > 85);
}

BOOST_AUTO_TEST_CASE(an_evaluation_is_the_loss_that_a_step_on_the_same_batch_reports) {
  const Points points(37, 4, 3);
  TheTrainer trainer = new_trainer();
  for (int step = 0; step < 3; ++step) {
    const Evaluation evaluation = trainer.evaluate(points);
    BOOST_TEST(evaluation.valid_count == 37);
    const StepReport report = trainer.step(points).report();
    BOOST_TEST(evaluation.loss() == report.loss);
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_is_that_of_the_prediction) {
  const Points points(10, 4, 3);
  TheTrainer trainer = new_trainer();
  const Tensor<const float> logits = trainer.predict(points.images());
  double expected = 0;
  for (std::size_t row = 0; row < 10; ++row) {
    const float* first = logits.data() + 3 * row;
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += std::exp(static_cast<double>(first[k]));
    expected += std::log(sum) - static_cast<double>(first[points.labels[row]]);
  }
  BOOST_TEST(std::abs(trainer.evaluate(points).loss_sum - expected) <= 1e-5 * expected);  // ten float terms
}

BOOST_AUTO_TEST_CASE(an_evaluation_over_batches_of_several_sizes_is_the_mean_over_their_samples) {
  TheTrainer trainer = new_trainer();
  const std::vector<Points> batches{Points(20, 4, 3, 1), Points(5, 4, 3, 2), Points(1, 4, 3, 3)};
  const Evaluation all = trainer.evaluate_all(batches);
  double sum = 0;
  for (const Points& batch : batches) sum += trainer.evaluate(batch).loss_sum;
  BOOST_TEST(all.valid_count == 26);
  BOOST_TEST(all.loss_sum == sum);
  BOOST_TEST(all.loss() == sum / 26);
  BOOST_TEST(is_nan(trainer.evaluate_all(std::vector<Points>{}).loss()));
}

BOOST_AUTO_TEST_CASE(to_evaluate_and_to_predict_leaves_windows_and_state_as_they_were) {
  const Points first(16, 4, 3, 1), second(7, 4, 3, 2), other(50, 4, 3, 3);
  TheTrainer plain = new_trainer(), watched = new_trainer();
  const auto look = [&] {
    const StepState before = watched.state();
    watched.predict(other.images());
    watched.evaluate(other);
    BOOST_TEST((watched.state() == before));
  };
  for (int window = 0; window < 4; ++window) {
    look();
    for (const Points* batch : {&first, &second}) {
      plain.accumulate(*batch);
      watched.accumulate(*batch);
      look();
    }
    if (window % 2 == 0) {
      plain.update();
      watched.update();
    } else {
      plain.apply(plain.close_window().unscale());
      auto scaled = watched.close_window();
      look();
      auto unscaled = std::move(scaled).unscale();
      look();
      watched.apply(std::move(unscaled));
    }
    BOOST_TEST(all_parameters(plain) == all_parameters(watched));
    BOOST_TEST((plain.state() == watched.state()));
  }
}

BOOST_AUTO_TEST_CASE(a_prediction_stays_until_the_next) {
  const Points points(5, 4, 3), other(3, 4, 3, 2);
  TheTrainer trainer = new_trainer();
  const Tensor<const float> prediction = trainer.predict(points.images());
  const std::vector<float> before = copy(prediction);
  trainer.step(points);
  trainer.evaluate(other);
  BOOST_TEST(copy(prediction) == before);
  BOOST_TEST(copy(trainer.predict(points.images())) != before);
}

BOOST_AUTO_TEST_CASE(parameters_are_known_by_name_and_shape) {
  TheTrainer trainer(Classifier(), {}, {.parameters = {parameters_named("hidden.*").freeze()}});
  std::string text;
  for (const ParameterInfo& parameter : trainer.parameters()) {
    text += parameter.name + parameter.shape.text() + (parameter.frozen ? " frozen" : "") + ";";
  }
  BOOST_TEST(text == "hidden.weight[8, 4] frozen;hidden.bias[8] frozen;output.weight[3, 8];output.bias[3];");
  BOOST_TEST(trainer.model().hidden.in_features() == 4);
}

BOOST_AUTO_TEST_CASE(a_parameter_that_was_written_is_what_the_model_computes_with_at_once) {
  TheTrainer trainer = new_trainer();
  trainer.write_parameter("output.weight", std::vector<float>(24, 0.0f));
  trainer.write_parameter("output.bias", std::vector<float>{1.0f, -2.0f, 0.1f});
  BOOST_TEST(trainer.read_parameter("output.bias") == (std::vector<float>{1.0f, -2.0f, 0.1f}));
  const float tenth = static_cast<float>(float16(0.1f));  // the working copy's
  BOOST_TEST(copy(trainer.predict(Points(2, 4, 3).images())) ==
             (std::vector<float>{1.0f, -2.0f, tenth, 1.0f, -2.0f, tenth}));
}

BOOST_AUTO_TEST_CASE(unknown_names_and_wrong_numbers_of_values_are_refused_and_change_nothing) {
  TheTrainer trainer = new_trainer();
  const std::vector<float> before = all_parameters(trainer);
  const std::string unknown = refusal<ConfigurationError>([&] { trainer.read_parameter("output.weights"); });
  check_holds(unknown, {"\"output.weights\""});
  check_holds(unknown, {"\"output.weight\""});
  const std::vector<float> three(3, 5.0f);
  refusal<ConfigurationError>([&] { trainer.write_parameter("output", three); });
  const std::string size = refusal<ShapeError>([&] { trainer.write_parameter("hidden.weight", three); });
  check_holds(size, {"\"hidden.weight\" of shape [8, 4] has 32 elements, 3 were given"});
  BOOST_TEST(all_parameters(trainer) == before);
}

BOOST_AUTO_TEST_SUITE_END()
