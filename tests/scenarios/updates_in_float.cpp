#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>
#include <halfstep/optim/adam.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/sgd.hpp>
#include <limits>
#include <scenarios/pure_loop.hpp>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(updates_in_float_tests)

using namespace halfstep;

namespace {

// Floats near 1 are 6e-8 apart; a root, two quotients and a product lie between a gradient and its step.
constexpr float few_units_at_one = 2.5e-7f;
constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

BOOST_AUTO_TEST_CASE(adams_epsilon_and_second_moment_live_in_float) {
  PureLoop<Adam, NoScaler> loop{{.learning_rate = 1}, {}, {0.0f}};
  loop.window({1e-4f});
  BOOST_TEST(std::abs(loop.weights[0] + 0.99990001f) <= few_units_at_one);
  BOOST_TEST(loop.second_moments[0] > 0);
}

BOOST_AUTO_TEST_CASE(adam_on_zero_gradients_keeps_every_bit) {
  PureLoop<Adam, DynamicScaler> loop{{.learning_rate = 1e-3}, {}, {1.0f, -2.0f, 0.5f}};
  for (int window = 0; window < 3; ++window) loop.window({0.0f, 0.0f, 0.0f});
  BOOST_TEST(loop.weights == (std::vector<float>{1.0f, -2.0f, 0.5f}), boost::test_tools::per_element());
  BOOST_TEST(loop.first_moments == (std::vector<float>(3, 0.0f)), boost::test_tools::per_element());
  BOOST_TEST(loop.second_moments == (std::vector<float>(3, 0.0f)), boost::test_tools::per_element());
  BOOST_TEST(loop.state.update_number == 3);
}

BOOST_AUTO_TEST_CASE(updates_too_small_for_bfloat16_add_up_in_a_float_master) {
  PureLoop<SGD, NoScaler> loop{{.learning_rate = 6e-4}, {}, {1.0f}};
  for (int window = 0; window < 100; ++window) loop.window({1.0f});
  BOOST_TEST(loop.weights[0] == 0.940001965f);
  BOOST_TEST(static_cast<float>(bfloat16(loop.weights[0])) == 0.94140625f);
}

BOOST_AUTO_TEST_CASE(decoupled_decay_works_on_a_float_master_without_any_gradient) {
  PureLoop<AdamW, NoScaler> loop{{.learning_rate = 1e-3, .weight_decay = 0.01}, {}, {1.0f}};
  for (int window = 0; window < 1000; ++window) loop.window({0.0f});
  BOOST_TEST(std::abs(loop.weights[0] - 0.990034f) <= 5e-7f);  // the digits that are given
}

BOOST_AUTO_TEST_CASE(updates_too_small_for_float16_add_up_in_a_float_master) {
  PureLoop<SGD, DynamicScaler> loop{{.learning_rate = 2e-4}, {.initial_scale = 1024}, {1.0f}};
  for (int window = 0; window < 100; ++window) loop.window_of_true({1.0f});
  BOOST_TEST(std::abs(loop.weights[0] - 0.98f) <= 100 * 3e-8f);  // half a unit an update
  BOOST_TEST(std::abs(static_cast<float>(float16(loop.weights[0])) - 0.97998f) <= 5e-6f);
}

BOOST_AUTO_TEST_CASE(the_norm_is_that_of_the_unscaled_gradients_and_clips_only_where_it_is_too_large) {
  PureLoop<SGD, StaticScaler> small{{.learning_rate = 1}, {}, {0.0f, 0.0f}, 1.0f};
  const StepDecision decision = small.window_of_true({0.3f, 0.4f});
  BOOST_TEST(std::abs(decision.gradient_norm - 0.5) <= 1e-7);
  BOOST_TEST(decision.clip_coefficient == 1.0f);
  BOOST_TEST(small.weights == (std::vector<float>{-0.3f, -0.4f}), boost::test_tools::per_element());

  PureLoop<SGD, StaticScaler> large{{.learning_rate = 1}, {}, {0.0f, 0.0f}, 1.0f};
  BOOST_TEST(large.window_of_true({3.0f, 4.0f}).gradient_norm == 5.0);
  BOOST_TEST(std::abs(large.weights[0] + 0.6f) <= 1e-6f);
  BOOST_TEST(std::abs(large.weights[1] + 0.8f) <= 1e-6f);
}

BOOST_AUTO_TEST_CASE(degenerate_norms_and_thresholds_have_one_meaning_each) {
  PureLoop<SGD, StaticScaler> loop{{.learning_rate = 1}, {}, {0.0f, 0.0f}, 1.0f};
  const StepDecision zero = loop.window_of_true({0.0f, 0.0f});
  BOOST_TEST((zero.outcome == Outcome::applied));
  BOOST_TEST(zero.gradient_norm == 0.0);
  BOOST_TEST(loop.weights == (std::vector<float>{0.0f, 0.0f}), boost::test_tools::per_element());

  BOOST_TEST(loop.window({}).gradient_norm == 0.0);

  PureLoop<SGD, StaticScaler> measured{{.learning_rate = 1}, {}, {0.0f, 0.0f}, infinity};
  BOOST_TEST(measured.window_of_true({3.0f, 4.0f}).gradient_norm == 5.0);
  BOOST_TEST(measured.weights == (std::vector<float>{-3.0f, -4.0f}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(norm_and_coefficient_of_float16_gradients_leave_float16s_range_unharmed) {
  PureLoop<SGD, NoScaler> one{{.learning_rate = 1}, {}, {0.0f}, 1.0f};
  BOOST_TEST(one.window({300.0f}).gradient_norm == 300.0);
  BOOST_TEST(std::abs(one.weights[0] + 1.0f) <= 1e-3f);
  PureLoop<SGD, NoScaler> four{{.learning_rate = 1}, {}, {0, 0, 0, 0}, 1e-3f};
  BOOST_TEST(four.window({60000, 60000, 60000, 60000}).gradient_norm == 120000.0);
  for (const float weight : four.weights) BOOST_TEST(std::abs(weight + 5.0e-4f) <= 1e-9f);
}

BOOST_AUTO_TEST_SUITE_END()
