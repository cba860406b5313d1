// Cross-entropy where a probability is too small for the compute type, and where a class is masked by -inf.
#include <boost/test/unit_test.hpp>
#include <halfstep/nn/cross_entropy.hpp>
#include <limits>
#include <string_view>
#include <vector>

#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(confident_and_masked_logits_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Result {
  float loss;
  std::vector<float> gradient;
};

template <class Policy>
Result run(const std::vector<float>& logits, int label, float smoothing) {
  Session<Policy> session;
  Watched<typename Policy::compute_type> x({1, static_cast<std::int64_t>(logits.size())}, logits);
  const Loss loss = cross_entropy(session.tape, watch(session.tape, x), Tensor<const int>(&label, {1}),
                                  {.label_smoothing = smoothing});
  session.backward(loss.sum);
  return {*loss.sum.data(), x.gradient};
}

struct Way {
  std::string_view name;
  Result (*run)(const std::vector<float>& logits, int label, float smoothing);
  Tolerance tolerance;
};

template <class Policy>
constexpr Way way{Policy::name, run<Policy>, tolerance_of<typename Policy::compute_type>};
constexpr Way ways[] = {way<Float32Policy>, way<BFloat16Policy>, way<Float16ScaledPolicy>};

}  // namespace

BOOST_AUTO_TEST_CASE(the_log_of_a_probability_that_float16_flushes_to_zero_is_right) {
  for (const Way& in : ways) {
    const Result result = in.run({0.0f, 20.0f}, 0, 0.0f);
    BOOST_TEST(result.loss == 20.0f, in.name);
    check_close(result.gradient, std::vector<double>{-1.0, 1.0}, float_tolerance);
  }
}

BOOST_AUTO_TEST_CASE(a_masked_class_of_weight_zero_costs_nothing) {
  for (const Way& in : ways) {
    const Result result = in.run({-infinity, 0.0f}, 1, 0.0f);
    BOOST_TEST(result.loss == 0.0f, in.name);
    BOOST_TEST(result.gradient == (std::vector<float>{0.0f, 0.0f}));
  }
}

BOOST_AUTO_TEST_CASE(smoothing_over_a_masked_class_is_an_infinite_loss_with_finite_gradients) {
  // The loss says that model and labels do not fit; the gradients do not look like an overflow that a smaller
  // scale would cure.
  for (const Way& in : ways) {
    const Result result = in.run({-infinity, 0.0f}, 1, 0.1f);
    BOOST_TEST(result.loss == infinity, in.name);
    check_close(result.gradient, std::vector<double>{-0.05, 0.05}, in.tolerance);
  }
}

BOOST_AUTO_TEST_CASE(a_masked_class_as_the_label_is_an_infinite_loss_with_finite_gradients) {
  for (const Way& in : ways) {
    const Result result = in.run({-infinity, 0.0f}, 0, 0.0f);
    BOOST_TEST(result.loss == infinity, in.name);
    BOOST_TEST(result.gradient == (std::vector<float>{-1.0f, 1.0f}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
