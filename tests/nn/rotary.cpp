#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/rotary.hpp>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(rotary_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

/// Element i of a head turns with element i + D/2, by position * base^(-2i/D); `sign` -1 turns back.
std::vector<double> exact_rotary(const std::vector<double>& x, const Shape& shape,
                                 const RotaryOptions& options, double sign = 1) {
  const std::int64_t width = shape.columns(), head = options.head_width, half = head / 2;
  std::vector<double> y(x.size());
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    const auto position = static_cast<double>(options.first_position + row % shape[-2]);
    for (std::int64_t begin = 0; begin < width; begin += head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head);
        const double angle = sign * position * std::pow(static_cast<double>(options.base), exponent);
        const auto a = static_cast<std::size_t>(row * width + begin + i),
                   b = a + static_cast<std::size_t>(half);
        y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        y[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
      }
    }
  }
  return y;
}

template <class Policy>
void check_rotary(const Shape& shape, const RotaryOptions& options) {
  using T = typename Policy::compute_type;
  BOOST_TEST_CONTEXT("input " << shape.text() << ", heads of " << options.head_width) {
    Session<Policy> session;
    Watched<T> x(shape, random_numbers(shape.size(), -2.0f, 2.0f));
    const auto dy = rounded<T>(random_numbers(shape.size(), -1.0f, 1.0f, 2));
    const auto y = rotary(session.tape, watch(session.tape, x), options);
    static_assert(std::is_same_v<decltype(y), const Variable<T>>);
    BOOST_TEST((y.shape() == shape));
    session.backward(weighted_sum(session.tape, y, dy));
    check_close(floats(y.value()), exact_rotary(x.exact(), shape, options), tolerance_of<T>);
    check_close(x.gradient, exact_rotary({dy.begin(), dy.end()}, shape, options, -1), tolerance_of<T>);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(heads_turn_as_in_double_and_gradients_turn_back, Policy, AllPolicies) {
  check_rotary<Policy>({1, 2}, {.head_width = 2});
  check_rotary<Policy>({2, 3, 2, 12}, {.head_width = 6, .base = 100.0f, .first_position = 5});
  // More positions than one task has, more rows than another.
  check_rotary<Policy>({2, 201, 64}, {.head_width = 16});
}

BOOST_AUTO_TEST_CASE(gradients_match_central_differences) {
  Session<Float32Policy> session;
  const Shape shape{1, 4, 8};
  const RotaryOptions options{.head_width = 4};
  Watched<float> x(shape, random_numbers(32, -1.0f, 1.0f));
  const auto dy = random_numbers(32, -1.0f, 1.0f, 4);
  session.backward(weighted_sum(session.tape, rotary(session.tape, watch(session.tape, x), options), dy));
  check_close(x.gradient,
              numeric_gradient(x.exact(),
                               [&](const auto& v) {
                                 double sum = 0;
                                 const auto y = exact_rotary(v, shape, options);
                                 for (std::size_t i = 0; i < 32; ++i)
                                   sum += static_cast<double>(dy[i]) * y[i];
                                 return sum;
                               }),
              float_tolerance);
}

BOOST_AUTO_TEST_CASE(angles_are_right_at_positions_that_float_does_not_hold) {
  for (const std::int64_t position :
       {std::int64_t{100'000}, std::int64_t{16'777'217}, std::int64_t{1'000'000'007}}) {
    check_rotary<Float32Policy>({130, 8}, {.head_width = 8, .first_position = position});
  }
}

BOOST_AUTO_TEST_CASE(one_token_at_its_position_turns_as_in_the_whole_sequence) {
  Session<Float32Policy> session;
  const auto values = random_numbers(70 * 8, -1.0f, 1.0f);
  const Tensor<const float> all(values.data(), {70, 8}), last(values.data() + 69 * 8, {1, 8});
  const auto whole = floats(rotary(session.tape, all, {.head_width = 8}).value());
  const auto one = floats(rotary(session.tape, last, {.head_width = 8, .first_position = 69}).value());
  check_close(one, std::vector<float>(whole.end() - 8, whole.end()), float_tolerance);
}

BOOST_AUTO_TEST_CASE(an_input_read_twice_gets_both_gradients) {
  Session<Float16ScaledPolicy> session;
  Watched<float16> x({2, 2}, {1.0f, 2.0f, 3.0f, 4.0f});
  const auto input = watch(session.tape, x);
  const auto y = rotary(session.tape, input, {.head_width = 2});
  const std::vector<float> dy{1.0f, 0.5f, -1.0f, 0.25f}, other{4.0f, 4.0f, 4.0f, 4.0f};
  session.backward(
      total(session.tape, weighted_sum(session.tape, input, other), weighted_sum(session.tape, y, dy)));
  auto expected = exact_rotary({dy.begin(), dy.end()}, {2, 2}, {.head_width = 2}, -1);
  for (double& value : expected) value += 4;
  check_close(x.gradient, expected, float16_tolerance);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  const auto [one, two] = with_one_and_two_threads([] {
    Session<Policy> session;
    Watched<typename Policy::compute_type> x({3, 150, 96}, random_numbers(3 * 150 * 96, -1.0f, 1.0f));
    const auto y = rotary(session.tape, watch(session.tape, x), {.head_width = 32});
    session.backward(weighted_sum(session.tape, y, random_numbers(y.size(), -1.0f, 1.0f, 3)));
    return std::pair(floats(y.value()), x.gradient);
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(a_call_can_turn_in_float_and_nothing_is_recorded_in_inference) {
  Session<BFloat16Policy> session;
  const std::vector<float> values{1.0f, 0.0f};
  const Tensor<const float> x(values.data(), {1, 2}), none(values.data(), {3, 0, 2}),
      no_heads(values.data(), {3, 2, 0});
  static_assert(std::is_same_v<decltype(rotary<float>(session.tape, x, {.head_width = 2})), Variable<float>>);
  BOOST_TEST(rotary(session.tape, none, {.head_width = 2}).size() == 0);
  BOOST_TEST(rotary(session.tape, no_heads, {.head_width = 2}).size() == 0);
  session.tape.begin(Pass::inference);
  Watched<bfloat16> watched({1, 2}, values);
  BOOST_TEST(!rotary(session.tape, watch(session.tape, watched), {.head_width = 2}).requires_gradient());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_with_names_and_numbers) {
  Session<Float32Policy> session;
  const std::vector<float> values(24, 1.0f);
  const Tensor<const float> x(values.data(), {2, 2, 6});
  const auto refused = [&](const RotaryOptions& options) {
    return refusal<ConfigurationError>([&] { rotary(session.tape, x, options); });
  };
  check_holds(refused({.head_width = 3}), {"head_width is 3"});
  check_holds(refused({}), {"head_width is 0"});
  check_holds(refused({.head_width = -2}), {"head_width is -2"});
  check_holds(refused({.head_width = 2, .base = 0.0f}), {"base is 0"});
  check_holds(refused({.head_width = 2, .base = std::numeric_limits<float>::quiet_NaN()}), {"base is NaN"});
  check_holds(refused({.head_width = 2, .first_position = -1}), {"first_position is -1"});
  const auto heads = refusal<ShapeError>([&] { rotary(session.tape, x, {.head_width = 4}); });
  check_holds(heads, {"[2, 2, 6]", "head_width 4"});
  const Tensor<const float> flat(values.data(), {6});
  check_holds(refusal<ShapeError>([&] { rotary(session.tape, flat, {.head_width = 2}); }), {"[6]"});
}

BOOST_AUTO_TEST_SUITE_END()
