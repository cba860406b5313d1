#include <boost/test/unit_test.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/compute_in.hpp>
#include <halfstep/nn/rms_norm.hpp>
#include <type_traits>
#include <vector>

#include "support/norm_case.hpp"
#include "support/refusal.hpp"
#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(rms_norm_tests)

using namespace halfstep;
using namespace halfstep::test;

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_central_differences_in_double, Policy, NormPolicies) {
  check_norm<Policy>(RmsNorm{1}, {2, 1});
  check_norm<Policy>(RmsNorm{37}, {37});
  check_norm<Policy>(RmsNorm{19, {.epsilon = 0.1f}}, {2, 5, 19});
  check_norm<Policy>(RmsNorm{7}, {1200, 7});
}

BOOST_AUTO_TEST_CASE(large_rows_are_normalized_or_not_a_number_but_never_silent) {
  check_large_rows(RmsNorm{8});
  check_large_rows(RmsNorm{1280});
}

BOOST_AUTO_TEST_CASE(a_row_of_zeros_stays_zeros) {
  Session<NormsInFloat16, OneNorm<RmsNorm>> session(OneNorm<RmsNorm>{RmsNorm{5, {.epsilon = 1e-12f}}});
  Watched<float16> x({1, 5}, std::vector<float>(5, 0.0f));
  BOOST_TEST(floats(session.model.norm(session.tape, watch(session.tape, x)).value()) ==
             std::vector<float>(5, 0.0f));
}

BOOST_AUTO_TEST_CASE(the_fused_residual_is_add_and_then_norm_to_the_bit) {
  check_residual<float, float, Float32Policy>(RmsNorm{13});
  check_residual<bfloat16, float, BFloat16Policy>(RmsNorm{13});
  check_residual<float16, float16, NormsInFloat16>(RmsNorm{13});
}

BOOST_AUTO_TEST_CASE(gradients_add_up_within_a_window_and_frozen_weights_get_none) {
  check_norm_windows(RmsNorm{6});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, NormThreadPolicies) {
  check_norm_threads<Policy>(RmsNorm{131});
}

BOOST_AUTO_TEST_CASE(norms_are_float_unless_the_policy_or_the_layer_says_otherwise) {
  Session<BFloat16Policy, OneNorm<ComputeIn<bfloat16, RmsNorm>>> session(
      OneNorm<ComputeIn<bfloat16, RmsNorm>>{ComputeIn<bfloat16, RmsNorm>{2}});
  Watched<bfloat16> x({1, 2}, {1.0f, 3.0f});
  const auto a = watch(session.tape, x);
  const RmsNorm& plain = session.model.norm;
  static_assert(std::is_same_v<decltype(plain(session.tape, a)), Variable<float>>);
  static_assert(std::is_same_v<decltype(session.model.norm(session.tape, a)), Variable<bfloat16>>);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_with_names_and_numbers) {
  Session<Float32Policy, OneNorm<RmsNorm>> session(OneNorm<RmsNorm>{RmsNorm{3}});
  const std::vector<float> values(12, 1.0f);
  const Tensor<const float> wrong(values.data(), {3, 4}), right(values.data(), {4, 3});
  const auto width = refusal<ShapeError>([&] { session.model.norm(session.tape, wrong); });
  check_holds(width, {"RmsNorm{3}", "[3, 4]"});
  const auto shapes = refusal<ShapeError>([&] { session.model.norm.add(session.tape, right, wrong); });
  check_holds(shapes, {"[4, 3]", "[3, 4]"});
  check_holds(refusal<ConfigurationError>([] { RmsNorm{-1}; }), {"RmsNorm{-1}"});
  check_holds(refusal<ConfigurationError>([] { RmsNorm{2, {.epsilon = -1.0f}}; }), {"epsilon is -1"});
}

BOOST_AUTO_TEST_SUITE_END()
