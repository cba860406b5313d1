// One gradient of many is not finite, at the ends and in the middle of the first, a middle and the last
// tensor: both devices say which.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <string>
#include <vector>

#include "support/classifier.hpp"
#include "support/given_gradients.hpp"

BOOST_AUTO_TEST_SUITE(injected_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace injected_test {

/// A tensor of three, which is smaller than a four; of more than a chunk; and of what neither divides.
const std::vector<std::int64_t> sizes{3, 8195, 1031};

GivenBatch good_batch() {
  GivenBatch batch;
  for (const std::int64_t size : sizes) {
    std::vector<float>& gradient = batch.gradients.emplace_back();
    for (std::int64_t i = 0; i < size; ++i) gradient.push_back(0.01f * static_cast<float>(i % 7 - 3));
  }
  batch.loss_sum = 1.0f;
  return batch;
}

template <class Policy>
void compare_devices() {
  const GivenGradients model(sizes, true);
  Trainer<GivenGradients, AdamW, Policy, Host> host(model);
  Trainer<GivenGradients, AdamW, Policy, Cuda> cuda(model);
  const GivenBatch good = good_batch();
  host.step(good);
  cuda.step(good);
  const auto before = all_parameters(cuda);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::int64_t skipped = 0;
  for (std::size_t tensor = 0; tensor < sizes.size(); ++tensor) {
    for (const std::int64_t index : {std::int64_t{0}, sizes[tensor] / 2, sizes[tensor] - 1}) {
      for (const float value : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
        GivenBatch bad = good;
        bad.gradients[tensor][static_cast<std::size_t>(index)] = value;
        // And what comes after it.
        bad.gradients.back().back() = -infinity;
        const StepReport expected = host.step(bad).report(), found = cuda.step(bad).report();
        BOOST_TEST_CONTEXT(Policy::name << ", " << value << " at " << index << " of tensor " << tensor) {
          BOOST_TEST((found.outcome == Outcome::skipped));
          BOOST_TEST((found.skip_cause == SkipCause::gradient));
          BOOST_TEST(found.first_non_finite.tensor == "w." + std::to_string(tensor));
          BOOST_TEST(found.first_non_finite.index == index);
          BOOST_TEST(found.first_non_finite.tensor == expected.first_non_finite.tensor);
          BOOST_TEST(found.first_non_finite.index == expected.first_non_finite.index);
          BOOST_TEST(found.skipped == ++skipped);
        }
      }
    }
  }
  BOOST_TEST((all_parameters(cuda) == before));
  BOOST_TEST((host.state() == cuda.state()));
  BOOST_TEST(cuda.step(good).report().applied());
  BOOST_TEST((all_parameters(cuda) != before));
}

}  // namespace injected_test

using namespace injected_test;

BOOST_AUTO_TEST_CASE(the_tensor_and_the_index_that_are_blamed_are_the_hosts) {
  compare_devices<Float16ScaledPolicy>();
  compare_devices<BFloat16Policy>();
  compare_devices<Float32Policy>();
}

BOOST_AUTO_TEST_SUITE_END()
