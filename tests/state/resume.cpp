#include <boost/test/unit_test.hpp>

#include "state/resumed_run.hpp"

BOOST_AUTO_TEST_SUITE(resume_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

template <class Policy, class Optimizer>
auto with_high_scale(const Optimizer& optimizer) {
  return [optimizer] {
    choose_scaler(high_scale);  // of this process
    return trainer<Policy>(optimizer)();
  };
}
auto half_trainer(const AdamW& optimizer) { return with_high_scale<ChosenScalerPolicy>(optimizer); }

}  // namespace

BOOST_AUTO_TEST_CASE(float32_with_adam_resumes_exactly) {
  const auto make = trainer<Float32Policy>(Adam{.learning_rate = warmup_cosine(2e-2f, 5, 60)});
  resumes_exactly(make, before_any_update);
  resumes_exactly(make, in_a_later_epoch);
  resumes_exactly(make, in_the_middle_of_a_window);
  resumes_exactly(make, on_other_threads);
}

BOOST_AUTO_TEST_CASE(bfloat16_with_adamw_resumes_exactly) {
  const auto make = trainer<BFloat16Policy>(AdamW{.learning_rate = exponential(1e-2f, 0.98f)});
  resumes_exactly(make, in_a_later_epoch);
  resumes_exactly(make, in_the_middle_of_a_window);
}

BOOST_AUTO_TEST_CASE(float16_with_adamw_resumes_exactly) {
  const auto make = trainer<Float16ScaledPolicy>(AdamW{.learning_rate = warmup_cosine(2e-2f, 5, 60)});
  resumes_exactly(make, in_a_later_epoch);
  resumes_exactly(make, in_the_middle_of_a_window);
  resumes_exactly(make, on_other_threads);
}

BOOST_AUTO_TEST_CASE(float16_with_adamw_resumes_exactly_from_amid_the_skips_of_a_high_scale) {
  const auto make = half_trainer(AdamW{.learning_rate = one_cycle(2e-2f, 80)});
  resumes_exactly(make, before_any_update);
  resumes_exactly(make, amid_the_skips_at_the_start);
  resumes_exactly(make, in_the_middle_of_a_window);
}

BOOST_AUTO_TEST_CASE(float16_with_momentum_and_a_schedule_that_advances_on_skips_resumes_exactly) {
  const auto make = [](const SGD& optimizer) { return with_high_scale<Advancing<ChosenScalerPolicy>>(optimizer); };
  const auto heavy_ball = make(SGD{.learning_rate = step_decay(5e-2f, 10, 0.5f), .momentum = 0.9f});
  resumes_exactly(heavy_ball, amid_the_skips_at_the_start);
  resumes_exactly(heavy_ball, in_the_middle_of_a_window);
  const auto nesterov = make(SGD{.learning_rate = warmup_linear(5e-2f, 3, 60), .momentum = 0.9f, .nesterov = true});
  resumes_exactly(nesterov, in_a_later_epoch);
  resumes_exactly(nesterov, in_the_middle_of_a_window);
}

// The long tests have every policy with every optimizer and rule: resume_every_combination_long.cpp.
BOOST_AUTO_TEST_CASE(every_schedule_resumes_exactly) {
  for (const Schedule& schedule : schedules) {
    resumes_exactly(half_trainer(AdamW{.learning_rate = schedule}), in_the_middle_of_a_window);
  }
}

BOOST_AUTO_TEST_SUITE_END()
