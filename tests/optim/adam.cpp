#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/optim/adam.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(adam_tests)

using namespace halfstep;
using test::check_is;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// Float against double over some hundred updates near 1.
constexpr double float_absolute = 1e-6, float_relative = 5e-6;

bool close(double got, double expected) {
  return std::abs(got - expected) <= float_absolute + float_relative * std::abs(expected);
}

struct Element {
  float weight = 1, m = 0, v = 0;
};

void apply(const Adam& optimizer, Element& element, float gradient, std::int64_t t,
           const ParameterOptions& options = {}) {
  const auto coefficients = optimizer.coefficients(optimizer.learning_rate(t - 1), t);
  Adam::update(element.weight, gradient, element.m, element.v, coefficients, options);
}

/// The paper's algorithm with PyTorch's epsilon, one weight, in double.
struct Reference {
  double rate, beta1, beta2, epsilon, decay;
  bool maximize;
  double weight = 1, m = 0, v = 0;
  void step(double gradient, double t) {
    double g = maximize ? -gradient : gradient;
    g += decay * weight;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double corrected_m = m / (1 - std::pow(beta1, t)), corrected_v = v / (1 - std::pow(beta2, t));
    weight -= rate * corrected_m / (std::sqrt(corrected_v) + epsilon);
  }
};

void check_sequence(const Adam& optimizer, const std::vector<double>& expected, double m, double v) {
  const std::vector<float> gradients{0.5f, -0.25f, 1.0f, 1e-3f, -2.0f};
  Element element;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    apply(optimizer, element, gradients[i], static_cast<std::int64_t>(i) + 1);
    BOOST_TEST(close(element.weight, expected[i]), element.weight << " is not " << expected[i]);
  }
  BOOST_TEST(close(element.m, m));
  BOOST_TEST(close(element.v, v));
}

std::string refusal(const Adam& optimizer) {
  try {
    optimizer.validate();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

// The numbers are those of PyTorch's single-tensor formulas worked out step by step in Python.
BOOST_AUTO_TEST_CASE(five_updates_end_where_pytorchs_formulas_end) {
  check_sequence({.learning_rate = 0.1}, {0.900000036, 0.873366356, 0.807555199, 0.753595948, 0.778294742},
                 -0.104330011, 0.00530931633);
  check_sequence({.learning_rate = 0.1, .weight_decay = 0.1},
                 {0.900000036, 0.854441404, 0.781504452, 0.718204856, 0.734833002}, -0.070071429,
                 0.0052840542);
  check_sequence({.learning_rate = 0.1, .beta1 = 0, .beta2 = 0.5},
                 {0.899999976, 0.970710635, 0.844219565, 0.844034374, 0.978701651}, -2, 2.13671899);
}

BOOST_AUTO_TEST_CASE(random_options_and_gradients_follow_the_paper_in_double) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int run = 0; run < 200; ++run) {
    Adam optimizer{.learning_rate = 0.01};
    optimizer.beta1 = run % 4 == 0 ? 0.3 : 0.9;
    optimizer.beta2 = run % 3 == 0 ? 0.95 : 0.999;
    optimizer.epsilon = run % 2 == 0 ? 1e-8 : 1e-3;
    optimizer.weight_decay = run % 5 == 0 ? 0 : 0.1;
    optimizer.maximize = run % 7 == 0;
    Reference reference{0.01,
                        optimizer.beta1,
                        optimizer.beta2,
                        optimizer.epsilon,
                        optimizer.weight_decay,
                        optimizer.maximize};
    Element element;
    for (std::int64_t t = 1; t <= 50; ++t) {
      const float gradient = normal(random);
      apply(optimizer, element, gradient, t);
      reference.step(static_cast<double>(gradient), static_cast<double>(t));
      BOOST_TEST_REQUIRE(close(element.weight, reference.weight));
      BOOST_TEST_REQUIRE(close(element.m, reference.m));
      BOOST_TEST_REQUIRE(close(element.v, reference.v));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_zero_gradient_moves_nothing_and_divides_by_no_zero) {
  Element element;
  for (std::int64_t t = 1; t <= 3; ++t) apply({.learning_rate = 1e-3, .weight_decay = 0}, element, 0.0f, t);
  BOOST_TEST(element.weight == 1.0f);
  BOOST_TEST(element.m == 0.0f);
  BOOST_TEST(element.v == 0.0f);
}

BOOST_AUTO_TEST_CASE(a_first_moment_that_forgets_at_once_is_the_gradient_itself) {
  Element element{1, 1e8f, 1};
  apply({.beta1 = 0}, element, 0.1f, 5);
  BOOST_TEST(element.m == 0.1f);
}

BOOST_AUTO_TEST_CASE(corrections_vanish_after_many_updates_and_stay_finite) {
  const auto late = Adam{.learning_rate = 0.5}.coefficients(0.5f, std::int64_t{1} << 60);
  BOOST_TEST(late.step_size == 0.5f);
  BOOST_TEST(late.root_of_correction == 1.0f);
}

BOOST_AUTO_TEST_CASE(a_parameters_factors_scale_its_rate_and_its_decay) {
  const Adam adam{.learning_rate = 0.5, .weight_decay = 0.25};
  Element element, without, slower;
  apply(adam, element, 0.0f, 1);
  BOOST_TEST(close(element.weight, 0.5));  // the decay alone, normalised by its own size
  apply(adam, without, 0.0f, 1, {.weight_decay_factor = 0});
  BOOST_TEST(without.weight == 1.0f);
  apply(adam, slower, 0.0f, 1, {.learning_rate_factor = 0.5f});
  BOOST_TEST(close(slower.weight, 0.75));
}

BOOST_AUTO_TEST_CASE(options_that_cannot_be_are_refused_by_name_and_value) {
  const std::string beta = "; it must be at least 0 and less than 1.";
  const std::string epsilon =
      "; it must be finite and at least 2^-126, or a gradient of zero would give 0 / 0.";
  const std::string decay = "; it must be finite and not negative.";
  check_is(refusal({}), "accepted");
  check_is(refusal({.beta1 = 0}), "accepted");
  check_is(refusal({.beta1 = 1}), "Adam: beta1 is 1" + beta);
  check_is(refusal({.beta1 = -0.1}), "Adam: beta1 is -0.1" + beta);
  check_is(refusal({.beta2 = 1.5}), "Adam: beta2 is 1.5" + beta);
  check_is(refusal({.beta2 = nan_value}), "Adam: beta2 is NaN" + beta);
  check_is(refusal({.beta2 = 0.999999999}), "Adam: beta2 is 0.999999999" + beta);  // 1 as a float
  check_is(refusal({.epsilon = -1}), "Adam: epsilon is -1" + epsilon);
  check_is(refusal({.epsilon = 0}), "Adam: epsilon is 0" + epsilon);
  check_is(refusal({.epsilon = 0x1p-126}), "accepted");
  check_is(refusal({.epsilon = nan_value}), "Adam: epsilon is NaN" + epsilon);
  check_is(refusal({.weight_decay = -0.5}), "Adam: weight_decay is -0.5" + decay);
  check_is(refusal({.weight_decay = nan_value}), "Adam: weight_decay is NaN" + decay);
  check_is(refusal({.learning_rate = nan_value}),
           "schedule constant: learning_rate is NaN; a learning rate must be finite and not negative.");
}

// torch.lerp interpolates from the nearer end, and from the gradient where both are as near: the numbers are its own.
BOOST_AUTO_TEST_CASE(a_beta1_of_one_half_interpolates_from_the_gradient_as_pytorch_does) {
  float weight = 0, m = -0x1.270114p+0f, v = 0;
  Adam::update(weight, 0x1.195ddep+0f, m, v, Adam{.beta1 = 0.5}.coefficients(0.1f, 5), {});
  BOOST_TEST(m == -0x1.b4668p-6f);
}

BOOST_AUTO_TEST_SUITE_END()
