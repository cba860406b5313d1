#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/optim/sgd.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(sgd_tests)

using namespace halfstep;
using test::check_is;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// Float against double over some hundred updates near 1: each rounds to 6e-8 once or twice.
constexpr double float_absolute = 1e-6, float_relative = 5e-6;

bool close(double got, double expected) {
  return std::abs(got - expected) <= float_absolute + float_relative * std::abs(expected);
}

struct Element {
  float weight = 1, buffer = 0;
};

template <class O>
void apply(const O& optimizer, Element& element, float gradient, std::int64_t t,
           const ParameterOptions& options = {}) {
  O::update(element.weight, gradient, element.buffer,
            optimizer.coefficients(optimizer.learning_rate(t - 1), t), options);
}

/// torch.optim.SGD, one weight, in double.
struct Reference {
  double rate, momentum, dampening, decay;
  bool nesterov, maximize;
  double weight = 1, buffer = 0;
  bool has_buffer = false;
  void step(double gradient) {
    double d = maximize ? -gradient : gradient;
    if (decay != 0) d += decay * weight;
    if (momentum != 0) {
      buffer = has_buffer ? momentum * buffer + (1 - dampening) * d : d;
      has_buffer = true;
      d = nesterov ? d + momentum * buffer : buffer;
    }
    weight -= rate * d;
  }
};

void check_sequence(const SGD& sgd, const std::vector<double>& expected) {
  const std::vector<float> gradients{0.5f, -0.25f, 1.0f, 1e-3f, -2.0f};
  Element element;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    apply(sgd, element, gradients[i], static_cast<std::int64_t>(i) + 1);
    BOOST_TEST(close(element.weight, expected[i]), element.weight << " is not " << expected[i]);
  }
}

std::string refusal(const SGD& sgd) {
  try {
    sgd.validate();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

// Constant expressions all the way: momentum's first step is the gradient, undamped.
constexpr float first_step(SGD sgd) {
  float weight = 0, buffer = 0;
  SGD::update(weight, 3.0f, buffer, sgd.coefficients(1.0f, 1), {});
  return weight;
}
static_assert(first_step(SGD{}) == -3 && first_step(SGD{.momentum = 0.5, .dampening = 0.75}) == -3);
static_assert(first_step(SGD{.momentum = 0.5, .nesterov = true}) == -4.5f);
static_assert(first_step(SGD{.maximize = true}) == 3);

}  // namespace

// The numbers are those of PyTorch's single-tensor formulas worked out step by step in Python.
BOOST_AUTO_TEST_CASE(five_updates_end_where_pytorchs_formulas_end) {
  check_sequence({.learning_rate = 0.1}, {0.95, 0.975, 0.875, 0.8749, 1.0749});
  check_sequence({.learning_rate = 0.1, .momentum = 0.9}, {0.95, 0.93, 0.812, 0.7057, 0.81003});
  check_sequence({.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5},
                 {0.95, 0.9175, 0.83825, 0.766875, 0.8026375});
  check_sequence({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true},
                 {0.905, 0.912, 0.7058, 0.61003, 0.903927});
  check_sequence({.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1},
                 {0.94, 0.89692, 0.78186956, 0.672781077, 0.709891975});
}

BOOST_AUTO_TEST_CASE(random_options_and_gradients_follow_the_formula_in_double) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int run = 0; run < 200; ++run) {
    SGD sgd{.learning_rate = 0.01};
    sgd.momentum = run % 3 == 0 ? 0 : 0.85;
    sgd.nesterov = run % 3 == 1;
    sgd.dampening = run % 3 == 2 ? 0.25 : 0;
    sgd.weight_decay = run % 2 == 0 ? 0 : 0.1;
    sgd.maximize = run % 5 == 0;
    Reference reference{0.01, sgd.momentum, sgd.dampening, sgd.weight_decay, sgd.nesterov, sgd.maximize};
    Element element;
    for (std::int64_t t = 1; t <= 50; ++t) {
      const float gradient = normal(random);
      apply(sgd, element, gradient, t);
      reference.step(static_cast<double>(gradient));
      BOOST_TEST_REQUIRE(close(element.weight, reference.weight));
      BOOST_TEST_REQUIRE(close(element.buffer, reference.buffer));
    }
  }
}

BOOST_AUTO_TEST_CASE(without_momentum_the_step_is_exact_and_the_buffer_keeps_its_zeros) {
  Element element{1.0f, 0.0f};
  for (std::int64_t t = 1; t <= 5; ++t) {
    const float before = element.weight;
    apply(SGD{.learning_rate = 0.5}, element, 0.3f, t);
    BOOST_TEST(element.weight == before - 0.5f * 0.3f);
    BOOST_TEST(element.buffer == 0.0f);
  }
}

BOOST_AUTO_TEST_CASE(a_parameters_factors_scale_its_rate_and_its_decay) {
  Element element;
  apply(SGD{.learning_rate = 0.5, .weight_decay = 0.25}, element, 1.0f, 1, {.learning_rate_factor = 0.5f});
  BOOST_TEST(element.weight == 1.0f - 0.25f * 1.25f);
  element = {};
  apply(SGD{.learning_rate = 0.5, .weight_decay = 0.25}, element, 1.0f, 1, {.weight_decay_factor = 0});
  BOOST_TEST(element.weight == 0.5f);
  element = {};
  apply(SGD{.learning_rate = 0.5}, element, 1.0f, 1, {.learning_rate_factor = 0});
  BOOST_TEST(element.weight == 1.0f);
}

BOOST_AUTO_TEST_CASE(options_that_cannot_be_are_refused_by_name_and_value) {
  const std::string rule = "; it must be finite and not negative.";
  check_is(refusal({.momentum = -0.1}), "SGD: momentum is -0.1" + rule);
  check_is(refusal({.momentum = nan_value}), "SGD: momentum is NaN" + rule);
  check_is(refusal({.dampening = nan_value}), "SGD: dampening is NaN; it must be finite.");
  check_is(refusal({.weight_decay = -1}), "SGD: weight_decay is -1" + rule);
  check_is(refusal({.nesterov = true}), "SGD: momentum is 0; nesterov needs a momentum greater than 0.");
  check_is(refusal({.momentum = 0.9, .dampening = 0.5, .nesterov = true}),
           "SGD: dampening is 0.5; nesterov needs a dampening of 0.");
  check_is(refusal({.learning_rate = -1}),
           "schedule constant: learning_rate is -1; a learning rate must be finite and not negative.");
}

BOOST_AUTO_TEST_CASE(the_first_update_forgets_what_the_buffer_held_and_one_without_momentum_leaves_it) {
  const SGD heavy{.momentum = 0.9}, plain{};
  float weight = 1, buffer = 7;
  SGD::update(weight, 2.0f, buffer, heavy.coefficients(0.5f, 1), {});
  BOOST_TEST(buffer == 2.0f);
  BOOST_TEST(weight == 0.0f);
  for (const std::int64_t t : {1, 2}) {
    weight = 1, buffer = 7;
    SGD::update(weight, 2.0f, buffer, plain.coefficients(0.5f, t), {});
    BOOST_TEST(buffer == 7.0f);
    BOOST_TEST(weight == 0.0f);
  }
}

BOOST_AUTO_TEST_SUITE_END()
