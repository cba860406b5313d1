#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/compute_in.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/norm_case.hpp"
#include "support/refusal.hpp"
#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(layer_norm_tests)

using namespace halfstep;
using namespace halfstep::test;

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_central_differences_in_double, Policy, NormPolicies) {
  // One element, primes, no multiple of a vector, ranks 1 and 3, several blocks of rows, with and without
  // bias.
  check_norm<Policy>(LayerNorm{1}, {2, 1});
  check_norm<Policy>(LayerNorm{37}, {37});
  check_norm<Policy>(LayerNorm{19, {.epsilon = 0.1f, .bias = false}}, {2, 5, 19});
  check_norm<Policy>(LayerNorm{7}, {1200, 7});
}

BOOST_AUTO_TEST_CASE(statistics_in_half_neither_vanish_nor_overflow) {
  // A: eps 1e-12 under a variance of 0 would be 0 in half.
  OneNorm<LayerNorm> model{LayerNorm{8, {.epsilon = 1e-12f}}};
  model.norm.weight.initializer = Initializer::constant(2.0f);
  model.norm.bias.initializer = Initializer::constant(0.5f);
  Session<NormsInFloat16, OneNorm<LayerNorm>> session(model);
  Watched<float16> x({1, 8}, std::vector<float>(8, 5.0f));
  BOOST_TEST(floats(session.model.norm(session.tape, watch(session.tape, x)).value()) ==
             std::vector<float>(8, 0.5f));

  // B: squares that add up beyond 65504; C: one square beyond it.
  for (const auto& [width, magnitude] : {std::pair<std::int64_t, float>{1280, 16.0f}, {8, 300.0f}}) {
    const auto y = norm_of_alternating<float16>(LayerNorm{width}, magnitude);
    for (std::size_t j = 0; j < y.size(); ++j) BOOST_TEST(y[j] == (j % 2 == 0 ? 1.0f : -1.0f));
  }
}

BOOST_AUTO_TEST_CASE(large_rows_are_normalized_or_not_a_number_but_never_silent) {
  check_large_rows(LayerNorm{8});
}

BOOST_AUTO_TEST_CASE(a_row_of_equal_numbers_is_the_bias_whatever_the_numbers) {
  // Their mean in float is a few roundings off, which 1 / sqrt(epsilon) would magnify.
  Session<Float32Policy, OneNorm<LayerNorm>> session(OneNorm<LayerNorm>{LayerNorm{771, {.epsilon = 1e-12f}}});
  for (const float value : {0.1f, -1000.1f, 3e7f, 1e-20f}) {
    Watched<float> x({1, 771}, std::vector<float>(771, value));
    const auto y = floats(session.model.norm(session.tape, watch(session.tape, x)).value());
    BOOST_TEST(y == std::vector<float>(771, 0.0f));
  }
}

BOOST_AUTO_TEST_CASE(a_small_variance_around_a_large_mean_does_not_cancel) {
  // E[x^2] - E[x]^2 would lose every digit of it.
  Session<Float32Policy, OneNorm<LayerNorm>> session(OneNorm<LayerNorm>{LayerNorm{4, {.epsilon = 0.0f}}});
  Watched<float> x({1, 4}, {4096.0f, 4097.0f, 4096.0f, 4097.0f});
  const auto y = floats(session.model.norm(session.tape, watch(session.tape, x)).value());
  BOOST_TEST(y == (std::vector<float>{-1.0f, 1.0f, -1.0f, 1.0f}));
}

BOOST_AUTO_TEST_CASE(the_fused_residual_is_add_and_then_norm_to_the_bit) {
  check_residual<float, float, Float32Policy>(LayerNorm{13});
  check_residual<float, bfloat16, BFloat16Policy>(LayerNorm{13});
  check_residual<float16, float16, NormsInFloat16>(LayerNorm{13, {.bias = false}});
}

BOOST_AUTO_TEST_CASE(the_fused_sum_is_written_once_and_its_gradient_is_that_of_x_in_the_same_memory) {
  Session<Float32Policy, OneNorm<LayerNorm>> session(OneNorm<LayerNorm>{LayerNorm{4}});
  Watched<float> x({1, 4}, {1, 2, 3, 4}), branch({1, 4}, {4, 1, 1, 0});
  const auto a = watch(session.tape, x), b = watch(session.tape, branch);
  const auto [sum, normed] = session.model.norm.add(session.tape, a, b);
  session.backward(weighted_sum(session.tape, normed, {1, -1, 2, 3}));
  BOOST_TEST(a.slot()->data == sum.slot()->data);
  BOOST_TEST(b.slot()->data != sum.slot()->data);
  BOOST_TEST(x.visits == 1);
  BOOST_TEST(x.gradient == branch.gradient);
}

BOOST_AUTO_TEST_CASE(gradients_add_up_within_a_window_and_frozen_weights_get_none) {
  check_norm_windows(LayerNorm{6});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, NormThreadPolicies) {
  check_norm_threads<Policy>(LayerNorm{131});
}

BOOST_AUTO_TEST_CASE(norms_are_float_unless_the_policy_or_the_layer_says_otherwise) {
  Watched<float16> x({1, 2}, {1.0f, 3.0f});
  Session<Float16ScaledPolicy, OneNorm<ComputeIn<float16, LayerNorm>>> session(
      OneNorm<ComputeIn<float16, LayerNorm>>{ComputeIn<float16, LayerNorm>{2}});
  auto& tape = session.tape;
  const auto a = watch(tape, x);
  const LayerNorm& plain = session.model.norm;
  static_assert(std::is_same_v<decltype(plain(tape, a)), Variable<float>>);
  static_assert(std::is_same_v<decltype(session.model.norm(tape, a)), Variable<float16>>);
  static_assert(std::is_same_v<decltype(session.model.norm.add(tape, a, a).normed), Variable<float16>>);
  BOOST_TEST(floats(session.model.norm(tape, a).value()) == (std::vector<float>{-1.0f, 1.0f}));
  const auto twice = session.model.norm.add(tape, a, a);
  BOOST_TEST(floats(twice.sum.value()) == (std::vector<float>{2.0f, 6.0f}));
  BOOST_TEST(floats(twice.normed.value()) == (std::vector<float>{-1.0f, 1.0f}));
}

BOOST_AUTO_TEST_CASE(inference_records_nothing_and_rows_may_be_missing) {
  Session<Float32Policy, OneNorm<LayerNorm>> session(OneNorm<LayerNorm>{LayerNorm{3}});
  Watched<float> none({0, 3}, {});
  const auto y = session.model.norm(session.tape, watch(session.tape, none));
  BOOST_TEST((y.shape() == Shape{0, 3}));
  session.backward(weighted_sum(session.tape, y, {}));
  BOOST_TEST(session.gradient("norm.weight") == std::vector<float>(3, 0.0f));
  session.tape.begin(Pass::inference);
  BOOST_TEST(!session.model.norm(session.tape, watch(session.tape, none)).requires_gradient());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_with_names_and_numbers) {
  Session<Float32Policy, OneNorm<LayerNorm>> session(OneNorm<LayerNorm>{LayerNorm{3}});
  auto& tape = session.tape;
  const auto& norm = session.model.norm;
  const std::vector<float> values(12, 1.0f);
  const Tensor<const float> wrong(values.data(), {3, 4}), right(values.data(), {4, 3}),
      scalar(values.data(), Shape());
  const auto width = refusal<ShapeError>([&] { norm(tape, wrong); });
  check_holds(width, {"LayerNorm{3}", "[3, 4]", "LayerNorm{4}"});
  check_holds(refusal<ShapeError>([&] { norm(tape, scalar); }), {"[]"});
  check_holds(refusal<ShapeError>([&] { norm.add(tape, wrong, wrong); }), {"[3, 4]"});
  const Tensor<const float> other(values.data(), {2, 2, 3});
  const auto shapes = refusal<ShapeError>([&] { norm.add(tape, right, other); });
  check_holds(shapes, {"[4, 3]", "[2, 2, 3]"});

  check_holds(refusal<ConfigurationError>([] { LayerNorm{0}; }), {"LayerNorm{0}"});
  check_holds(refusal<ConfigurationError>([] { LayerNorm{2, {.epsilon = -1e-5f}}; }), {"epsilon is -1e-05"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_holds(refusal<ConfigurationError>([=] { LayerNorm{2, {.epsilon = nan}}; }), {"epsilon is NaN"});
}

BOOST_AUTO_TEST_SUITE_END()
