// cast, relu and gelu.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/gelu.hpp>
#include <halfstep/nn/relu.hpp>
#include <limits>
#include <type_traits>

#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(elementwise_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct InFloatPolicy : Float16ScaledPolicy {
  using in_float = operation::List<operation::Gelu>;
};

double exact_relu(double x) { return x > 0 ? x : 0; }
double exact_gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double tanh_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

constexpr auto apply_relu = [](auto& tape, const auto& x) { return relu(tape, x); };
constexpr auto apply_gelu = [](auto& tape, const auto& x) { return gelu(tape, x); };
constexpr auto apply_tanh_gelu = [](auto& tape, const auto& x) {
  return gelu(tape, x, GeluApproximation::tanh);
};
constexpr auto apply_cast = [](auto& tape, const auto& x) { return cast<float16>(tape, x); };

struct Exact {
  std::vector<double> y, dx;

  Exact(double (*function)(double), const std::vector<double>& x, const std::vector<float>& dy) {
    constexpr double step = 1e-5;
    for (std::size_t i = 0; i < x.size(); ++i) {
      y.push_back(function(x[i]));
      dx.push_back(static_cast<double>(dy[i]) * (function(x[i] + step) - function(x[i] - step)) / (2 * step));
    }
  }
};

/// An operation, whose name need not take part in the types of tests.
template <class Policy, class Result = typename Policy::compute_type>
using Operation = Variable<Result>(Tape<Policy, Host>&, const Variable<typename Policy::compute_type>&);

/// Results and gradients of y = f(x) for each element, dy given.
template <class Policy>
void check_function(Operation<Policy>* apply, double (*function)(double)) {
  using T = typename Policy::compute_type;
  for (const Shape& shape : {Shape{1}, Shape{2, 3, 5}, Shape{37}, Shape{100, 101}}) {
    Session<Policy> session;
    Watched<T> x(shape, random_numbers(shape.size(), -4.0f, 4.0f));
    const auto dy = rounded<T>(random_numbers(shape.size(), -1.0f, 1.0f, 2));
    const auto y = apply(session.tape, watch(session.tape, x));
    BOOST_TEST((y.shape() == shape));
    session.backward(weighted_sum(session.tape, y, dy));
    const Exact exact(function, x.exact(), dy);
    check_close(floats(y.value()), exact.y, tolerance_of<T>);
    check_close(x.gradient, exact.dx, tolerance_of<T>);
  }
}

template <class Policy, class Result = typename Policy::compute_type>
void check_shared_input(std::type_identity_t<Operation<Policy, Result>>* apply) {
  using T = typename Policy::compute_type;
  const auto dy = std::vector<float>{1.0f, -0.5f, 0.25f, 2.0f},
             other = std::vector<float>{0.5f, 1.0f, 1.0f, -4.0f};
  const auto gradient = [&](const std::vector<std::vector<float>>& weights) {
    Session<Policy> session;
    Watched<T> x({4}, {-1.5f, -0.25f, 0.5f, 2.0f});
    const auto input = watch(session.tape, x);
    auto loss = weighted_sum(session.tape, apply(session.tape, input), weights[0]);
    if (weights.size() > 1) {
      loss = total(session.tape, loss, weighted_sum(session.tape, apply(session.tape, input), weights[1]));
    }
    session.backward(loss);
    return x.gradient;
  };
  const auto one = gradient({dy}), two = gradient({other}), both = gradient({dy, other});
  std::vector<double> sum;
  for (std::size_t i = 0; i < 4; ++i)
    sum.push_back(static_cast<double>(one[i]) + static_cast<double>(two[i]));
  check_close(both, sum, tolerance_of<T>);
}

template <class Policy, class Result = typename Policy::compute_type>
void check_threads(std::type_identity_t<Operation<Policy, Result>>* apply) {
  const auto [one, two] = with_one_and_two_threads([&] {
    Session<Policy> session;
    Watched<typename Policy::compute_type> x({100003}, random_numbers(100003, -6.0f, 6.0f));
    const auto dy = random_numbers(100003, -1.0f, 1.0f, 3);
    const auto y = apply(session.tape, watch(session.tape, x));
    session.backward(weighted_sum(session.tape, y, dy));
    return std::pair(floats(y.value()), x.gradient);
  });
  BOOST_TEST((one == two));
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_float64, Policy, AllPolicies) {
  check_function<Policy>(apply_relu, exact_relu);
  check_function<Policy>(apply_gelu, exact_gelu);
  check_function<Policy>(apply_tanh_gelu, tanh_gelu);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_input_read_twice_gets_both_gradients, Policy, FloatAnd16Bits) {
  check_shared_input<Policy>(apply_relu);
  check_shared_input<Policy>(apply_gelu);
  check_shared_input<Policy>(apply_tanh_gelu);
  check_shared_input<Policy, float16>(apply_cast);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  check_threads<Policy>(apply_relu);
  check_threads<Policy>(apply_gelu);
  check_threads<Policy>(apply_tanh_gelu);
  check_threads<Policy, float16>(apply_cast);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(large_inputs_saturate_and_their_gradients_stay_finite, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  for (const float large : {12.0f, 300.0f, numeric_traits<T>::largest}) {
    for (const auto approximation : {GeluApproximation::none, GeluApproximation::tanh}) {
      Session<Policy> session;
      Watched<T> x({2}, {large, -large});
      const auto y = gelu(session.tape, watch(session.tape, x), approximation);
      session.backward(weighted_sum(session.tape, y, {1.0f, 1.0f}));
      BOOST_TEST(floats(y.value()) == (std::vector<float>{static_cast<float>(static_cast<T>(large)), 0.0f}));
      check_close(x.gradient, std::vector<float>{1.0f, 0.0f}, float_tolerance);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(not_a_number_passes_through_every_activation, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Session<Policy> session;
  Watched<T> x({1}, {nan});
  const auto input = watch(session.tape, x);
  BOOST_TEST(is_nan(relu(session.tape, input).value()[0]));
  BOOST_TEST(is_nan(gelu(session.tape, input).value()[0]));
  BOOST_TEST(is_nan(gelu(session.tape, input, GeluApproximation::tanh).value()[0]));
  Watched<T> fine({2}, {-1.0f, 1.0f});
  session.backward(weighted_sum(session.tape, relu(session.tape, watch(session.tape, fine)), {1.0f, nan}));
  BOOST_TEST(fine.gradient[0] == 0.0f);
  BOOST_TEST(is_nan(fine.gradient[1]));
}

BOOST_AUTO_TEST_CASE(relu_at_zero_is_positive_zero_with_gradient_zero) {
  Session<Float16ScaledPolicy> session;
  Watched<float16> x({2}, {0.0f, -0.0f});
  const auto y = relu(session.tape, watch(session.tape, x));
  session.backward(weighted_sum(session.tape, y, {1.0f, 1.0f}));
  BOOST_TEST(y.value()[0].bits() == 0);
  BOOST_TEST(y.value()[1].bits() == 0);
  BOOST_TEST(x.gradient == (std::vector<float>{0.0f, 0.0f}));
}

BOOST_AUTO_TEST_CASE(casts_round_forward_and_send_gradients_back_in_the_input_s_type) {
  Session<Float16ScaledPolicy> session;
  Watched<float> x({3}, {1.0f / 3.0f, 65519.0f, 65520.0f});
  const auto y = cast<float16>(session.tape, watch(session.tape, x));
  static_assert(std::is_same_v<decltype(y), const Variable<float16>>);
  BOOST_TEST(y.value()[0].bits() == float16(1.0f / 3.0f).bits());
  BOOST_TEST(static_cast<float>(y.value()[1]) == 65504.0f);
  BOOST_TEST(!is_finite(y.value()[2]));
  session.backward(weighted_sum(session.tape, y, {1.0f, 0.5f, 0.25f}));
  BOOST_TEST(x.gradient == (std::vector<float>{1.0f, 0.5f, 0.25f}));
}

BOOST_AUTO_TEST_CASE(a_cast_to_the_type_that_is_there_is_the_variable_itself) {
  Session<Float16ScaledPolicy> session;
  Watched<float16> x({2}, {1.0f, 2.0f});
  const auto input = watch(session.tape, x);
  const auto same = cast<float16>(session.tape, input);
  BOOST_TEST(same.data() == input.data());
  BOOST_TEST(same.slot() == input.slot());
}

BOOST_AUTO_TEST_CASE(a_policy_or_a_call_can_put_an_activation_in_float) {
  Session<InFloatPolicy> session;
  Watched<float16> x({3}, {-1.0f, 0.5f, 2.0f});
  const auto input = watch(session.tape, x);
  const auto by_policy = gelu(session.tape, input);
  static_assert(std::is_same_v<decltype(by_policy), const Variable<float>>);
  static_assert(std::is_same_v<decltype(relu(session.tape, input)), Variable<float16>>);
  static_assert(std::is_same_v<decltype(relu<float>(session.tape, input)), Variable<float>>);
  std::vector<double> expected;
  for (const double value : x.exact()) expected.push_back(exact_gelu(value));
  check_close(floats(by_policy.value()), expected, float_tolerance);
  check_close(floats(gelu<float>(session.tape, input, GeluApproximation::none).value()), expected,
              float_tolerance);
  session.backward(weighted_sum(session.tape, by_policy, {1.0f, 1.0f, 1.0f}));
  BOOST_TEST(x.gradient.size() == 3u);
}

BOOST_AUTO_TEST_CASE(inference_records_nothing) {
  Session<BFloat16Policy> session;
  session.tape.begin(Pass::inference);
  Watched<bfloat16> x({2}, {1.0f, -1.0f});
  const auto input = watch(session.tape, x);
  BOOST_TEST(!relu(session.tape, input).requires_gradient());
  BOOST_TEST(!gelu(session.tape, input).requires_gradient());
  BOOST_TEST(!cast<float16>(session.tape, input).requires_gradient());
}

BOOST_AUTO_TEST_CASE(empty_tensors_stay_empty) {
  Session<Float32Policy> session;
  Watched<float> x({0, 4}, {});
  const auto y = gelu(session.tape, relu(session.tape, watch(session.tape, x)));
  BOOST_TEST((y.shape() == Shape{0, 4}));
}

BOOST_AUTO_TEST_SUITE_END()
