// silu and swiglu.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/swiglu.hpp>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(swiglu_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct SwigluInFloat : BFloat16Policy {
  using in_float = operation::List<operation::Swiglu>;
};

double exact_silu(double x) { return x / (1 + std::exp(-x)); }
double silu_slope(double x) { return (exact_silu(x + 1e-5) - exact_silu(x - 1e-5)) / 2e-5; }

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_float64, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  for (const Shape& shape : {Shape{1}, Shape{2, 3, 5}, Shape{100, 101}}) {
    Session<Policy> session;
    auto& tape = session.tape;
    Watched<T> gate(shape, random_numbers(shape.size(), -8.0f, 8.0f)),
        up(shape, random_numbers(shape.size(), -2.0f, 2.0f, 2)),
        x(shape, random_numbers(shape.size(), -8.0f, 8.0f, 3));
    const auto dy = rounded<T>(random_numbers(shape.size(), -1.0f, 1.0f, 4));
    const auto y = swiglu(tape, watch(tape, gate), watch(tape, up));
    const auto s = silu(tape, watch(tape, x));
    static_assert(std::is_same_v<decltype(y), const Variable<T>>);
    static_assert(std::is_same_v<decltype(s), const Variable<T>>);
    BOOST_TEST((y.shape() == shape));
    session.backward(total(tape, weighted_sum(tape, y, dy), weighted_sum(tape, s, dy)));
    const auto gates = gate.exact(), ups = up.exact(), xs = x.exact();
    std::vector<double> product, gate_gradient, up_gradient, of_x, x_gradient;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const double g = gates[i], u = ups[i], d = static_cast<double>(dy[i]);
      product.push_back(exact_silu(g) * u);
      gate_gradient.push_back(d * u * silu_slope(g));
      up_gradient.push_back(d * exact_silu(g));
      of_x.push_back(exact_silu(xs[i]));
      x_gradient.push_back(d * silu_slope(xs[i]));
    }
    check_close(floats(y.value()), product, tolerance_of<T>);
    check_close(gate.gradient, gate_gradient, tolerance_of<T>);
    check_close(up.gradient, up_gradient, tolerance_of<T>);
    check_close(floats(s.value()), of_x, tolerance_of<T>);
    check_close(x.gradient, x_gradient, tolerance_of<T>);
  }
}

BOOST_AUTO_TEST_CASE(inputs_read_twice_and_inputs_that_want_none) {
  Session<Float16ScaledPolicy> session;
  auto& tape = session.tape;
  const std::vector<float> values{-1.5f, 0.25f, 2.0f}, ones(3, 1.0f);
  const Tensor<const float> constant(values.data(), {3});
  Watched<float16> both({3}, values), gate({3}, values), up({3}, values);
  const auto x = watch(tape, both);
  const auto squared = weighted_sum(tape, swiglu(tape, x, x), ones);
  const auto of_gate = weighted_sum(tape, swiglu(tape, watch(tape, gate), constant), ones);
  const auto of_up = weighted_sum(tape, swiglu(tape, constant, watch(tape, up)), ones);
  session.backward(total(tape, squared, total(tape, of_gate, of_up)));
  std::vector<double> by_gate, by_up, by_both;
  for (const double v : both.exact()) {
    by_gate.push_back(v * silu_slope(v));
    by_up.push_back(exact_silu(v));
    by_both.push_back(by_gate.back() + by_up.back());
  }
  check_close(gate.gradient, by_gate, float16_tolerance);
  check_close(up.gradient, by_up, float16_tolerance);
  check_close(both.gradient, by_both, float16_tolerance.over(2));
  BOOST_TEST(!swiglu(tape, constant, constant).requires_gradient());
  tape.begin(Pass::inference);
  BOOST_TEST(!swiglu(tape, watch(tape, gate), watch(tape, up)).requires_gradient());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(large_inputs_saturate_and_their_gradients_stay_finite, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  for (const float large : {120.0f, 300.0f, numeric_traits<T>::largest}) {
    Session<Policy> session;
    Watched<T> x({2}, {large, -large});
    const auto y = silu(session.tape, watch(session.tape, x));
    session.backward(weighted_sum(session.tape, y, {1.0f, 1.0f}));
    BOOST_TEST(floats(y.value()) == (std::vector<float>{static_cast<float>(static_cast<T>(large)), 0.0f}));
    BOOST_TEST(x.gradient == (std::vector<float>{1.0f, 0.0f}));
  }
  Session<Policy> session;
  Watched<T> nan({1}, {std::numeric_limits<float>::quiet_NaN()});
  BOOST_TEST(is_nan(silu(session.tape, watch(session.tape, nan)).value()[0]));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  const auto [one, two] = with_one_and_two_threads([] {
    Session<Policy> session;
    Watched<typename Policy::compute_type> gate({90001}, random_numbers(90001, -6.0f, 6.0f)),
        up({90001}, random_numbers(90001, -1.0f, 1.0f, 2));
    const auto y =
        swiglu(session.tape, silu(session.tape, watch(session.tape, gate)), watch(session.tape, up));
    session.backward(weighted_sum(session.tape, y, random_numbers(90001, -1.0f, 1.0f, 3)));
    return std::vector{floats(y.value()), gate.gradient, up.gradient};
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(a_policy_or_a_call_computes_in_float) {
  Session<SwigluInFloat> session;
  Watched<bfloat16> x({2}, {1.0f, 2.0f});
  const auto input = watch(session.tape, x);
  static_assert(std::is_same_v<decltype(swiglu(session.tape, input, input)), Variable<float>>);
  static_assert(std::is_same_v<decltype(silu(session.tape, input)), Variable<bfloat16>>);
  static_assert(std::is_same_v<decltype(silu<float>(session.tape, input)), Variable<float>>);
  static_assert(std::is_same_v<decltype(swiglu<bfloat16>(session.tape, input, input)), Variable<bfloat16>>);
}

BOOST_AUTO_TEST_CASE(gates_of_another_shape_are_refused) {
  Session<Float32Policy> session;
  const std::vector<float> values(6, 1.0f);
  const Tensor<const float> a(values.data(), {2, 3}), b(values.data(), {3, 2});
  const auto text = refusal<ShapeError>([&] { swiglu(session.tape, a, b); });
  check_holds(text, {"[2, 3]", "[3, 2]"});
}

BOOST_AUTO_TEST_SUITE_END()
