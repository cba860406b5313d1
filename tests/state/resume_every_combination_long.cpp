#include <boost/test/unit_test.hpp>
#include <tuple>

#include "state/resumed_run.hpp"

using namespace halfstep;
using namespace halfstep::test;

struct HighScale : Float16ScaledPolicy {
  static constexpr DynamicScaler scaler = high_scale;
};
using Policies = std::tuple<Float32Policy, BFloat16Policy, HighScale, Advancing<Float32Policy>,
                            Advancing<BFloat16Policy>, Advancing<HighScale>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(a_run_resumes_exactly_with_every_optimizer_and_schedule, Policy, Policies) {
  for (const Schedule& schedule : schedules) {
    const auto check = [](const auto& make) {
      for (const Plan& plan : plans) resumes_exactly(make, plan);
    };
    check(trainer<Policy>(SGD{.learning_rate = schedule, .momentum = 0.9f, .nesterov = true}));
    check(trainer<Policy>(Adam{.learning_rate = schedule, .weight_decay = 0.01f}));
    check(trainer<Policy>(AdamW{.learning_rate = schedule}));
  }
}
