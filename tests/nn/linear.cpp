#include <boost/test/unit_test.hpp>
#include <memory>
#include <halfstep/error.hpp>
#include <halfstep/nn/compute_in.hpp>
#include <halfstep/nn/linear.hpp>
#include <string>
#include <type_traits>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(linear_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

template <class Layer = Linear>
struct OneLayer {
  Layer layer{3, 2};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

/// y = x W^T + b and its gradients for a given dy, in double.
struct Reference {
  std::vector<double> y, dx, dw, db;

  Reference(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& b,
            const std::vector<double>& dy, std::size_t rows, std::size_t in, std::size_t out)
      : y(rows * out), dx(rows * in), dw(out * in), db(out) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t o = 0; o < out; ++o) {
        double sum = b.empty() ? 0.0 : b[o];
        for (std::size_t i = 0; i < in; ++i) {
          sum += x[r * in + i] * w[o * in + i];
          dx[r * in + i] += dy[r * out + o] * w[o * in + i];
          dw[o * in + i] += dy[r * out + o] * x[r * in + i];
        }
        y[r * out + o] = sum;
        db[o] += dy[r * out + o];
      }
    }
  }
};

template <class Policy>
struct Case {
  using T = typename Policy::compute_type;

  Case(Shape shape, std::int64_t out, LinearOptions options)
      : session(OneLayer<>{Linear{shape.columns(), out, options}}),
        x(shape, random_numbers(shape.size(), -1.0f, 1.0f, 11)),
        dy(rounded<T>(random_numbers(shape.rows() * out, -1.0f, 1.0f, 12))) {}

  Variable<T> forward() { return session.model.layer(session.tape, watch(session.tape, x)); }
  Reference reference() {
    const auto& layer = session.model.layer;
    return {x.exact(),
            session.working("layer.weight"),
            layer.has_bias() ? session.working("layer.bias") : std::vector<double>{},
            {dy.begin(), dy.end()},
            static_cast<std::size_t>(x.shape.rows()),
            static_cast<std::size_t>(x.shape.columns()),
            static_cast<std::size_t>(layer.out_features())};
  }

  Session<Policy, OneLayer<>> session;
  Watched<T> x;
  std::vector<float> dy;
};

struct Size {
  Shape shape;
  std::int64_t out;
};
// 1, primes, sizes that are no multiple of a vector, rank 1 and 3, more than one chunk of rows.
const Size sizes[] = {{{1, 1}, 1}, {{3, 7}, 5},   {{13, 37}, 29}, {{2, 5, 19}, 3},
                      {{17}, 11},  {{1, 64}, 10}, {{131, 33}, 65}};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_a_float64_reference, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  for (const auto& [shape, out] : sizes) {
    for (const bool bias : {true, false}) {
      BOOST_TEST_CONTEXT("input " << shape.text() << ", " << out << " outputs, bias " << bias) {
        Case<Policy> test(shape, out, {.bias = bias});
        auto& session = test.session;
        const auto y = test.forward();
        BOOST_TEST((y.shape() == shape.with_columns(out)));
        session.backward(weighted_sum(session.tape, y, test.dy));
        const Reference expected = test.reference();
        check_close(floats(y.value()), expected.y, tolerance_of<T>.over(shape.columns()));
        check_close(test.x.gradient, expected.dx, tolerance_of<T>.over(out));
        // Products of 16-bit numbers are exact in float, and these gradients stay float.
        check_close(session.gradient("layer.weight"), expected.dw, float_tolerance.over(shape.rows()));
        if (bias)
          check_close(session.gradient("layer.bias"), expected.db, float_tolerance.over(shape.rows()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_match_central_differences) {
  Case<Float32Policy> test({2, 3, 5}, 4, {});
  auto& session = test.session;
  session.backward(weighted_sum(session.tape, test.forward(), test.dy));
  const auto w = session.working("layer.weight"), b = session.working("layer.bias");
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& weight,
                        const std::vector<double>& bias) {
    double sum = 0;
    for (std::size_t r = 0; r < 6; ++r) {
      for (std::size_t o = 0; o < 4; ++o) {
        double y = bias[o];
        for (std::size_t i = 0; i < 5; ++i) y += x[r * 5 + i] * weight[o * 5 + i];
        sum += static_cast<double>(test.dy[r * 4 + o]) * y;
      }
    }
    return sum;
  };
  const auto x = test.x.exact();
  check_close(test.x.gradient, numeric_gradient(x, [&](const auto& v) { return loss(v, w, b); }),
              float_tolerance.over(4));
  check_close(session.gradient("layer.weight"),
              numeric_gradient(w, [&](const auto& v) { return loss(x, v, b); }), float_tolerance.over(6));
  check_close(session.gradient("layer.bias"),
              numeric_gradient(b, [&](const auto& v) { return loss(x, w, v); }), float_tolerance.over(6));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(gradients_add_up_where_input_and_layer_are_used_twice, Policy, FloatAnd16Bits) {
  using T = typename Policy::compute_type;
  Session<Policy, OneLayer<>> session;
  // Powers of two and small integers: exact in every type.
  const std::vector<float> w{0.5f, 1.0f, -2.0f, 4.0f, 0.25f, 1.0f}, b{1.0f, -1.0f};
  std::copy(w.begin(), w.end(), session.parameters.master(0).data());
  std::copy(b.begin(), b.end(), session.parameters.master(1).data());
  session.parameters.refresh_working_copy(0);
  session.parameters.refresh_working_copy(1);
  Watched<T> x({1, 3}, {1.0f, 2.0f, -4.0f});
  const std::vector<float> first{1.0f, 2.0f}, second{3.0f, -1.0f};

  const auto input = watch(session.tape, x);
  const auto once = weighted_sum(session.tape, session.model.layer(session.tape, input), first);
  const auto again = weighted_sum(session.tape, session.model.layer(session.tape, input), second);
  session.backward(total(session.tape, once, again));
  BOOST_TEST(session.gradient("layer.bias") == (std::vector<float>{4.0f, 1.0f}));
  BOOST_TEST(session.gradient("layer.weight") == (std::vector<float>{4.0f, 8.0f, -16.0f, 1.0f, 2.0f, -4.0f}));
  BOOST_TEST(x.gradient == (std::vector<float>{6.0f, 4.25f, -7.0f}));

  // The next micro-batch of the window: the parameters' gradients add up, those of inputs are new.
  session.tape.begin(Pass::training);
  session.backward(
      weighted_sum(session.tape, session.model.layer(session.tape, watch(session.tape, x)), first));
  BOOST_TEST(session.gradient("layer.bias") == (std::vector<float>{5.0f, 3.0f}));
  BOOST_TEST(session.gradient("layer.weight") ==
             (std::vector<float>{5.0f, 10.0f, -20.0f, 3.0f, 6.0f, -12.0f}));
  BOOST_TEST(x.gradient == (std::vector<float>{8.5f, 1.5f, 0.0f}));

  // The next window: what the buffer held means nothing.
  session.parameters.clear_gradients();
  session.tape.begin(Pass::training);
  session.backward(
      weighted_sum(session.tape, session.model.layer(session.tape, watch(session.tape, x)), first));
  BOOST_TEST(session.gradient("layer.bias") == first);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(sums_are_kept_in_float_and_rounded_once, Policy, Only16Bits) {
  using T = typename Policy::compute_type;
  // 4096 ones: a float16 sum would stall at 2048, a bfloat16 one at 256.
  Session<Policy, OneLayer<>> session(OneLayer<>{Linear{4096, 1}});
  session.parameters.master(1)[0] = 3.0f;
  session.parameters.refresh_working_copy(1);
  std::fill_n(session.parameters.master(0).data(), 4096, 1.0f);
  session.parameters.refresh_working_copy(0);
  Watched<T> x({1, 4096}, std::vector<float>(4096, 1.0f));
  const auto y = session.model.layer(session.tape, watch(session.tape, x));
  BOOST_TEST(static_cast<float>(y.value()[0]) == static_cast<float>(static_cast<T>(4099.0f)));
  Watched<T> many({4096, 1}, std::vector<float>(4096, 1.0f));
  Session<Policy, OneLayer<>> tall(OneLayer<>{Linear{1, 1}});
  tall.backward(weighted_sum(tall.tape, tall.model.layer(tall.tape, watch(tall.tape, many)),
                             std::vector<float>(4096, 1.0f)));
  BOOST_TEST(tall.gradient("layer.weight")[0] == 4096.0f);
  BOOST_TEST(tall.gradient("layer.bias")[0] == 4096.0f);
}

BOOST_AUTO_TEST_CASE(frozen_parameters_get_no_gradient) {
  OneLayer<> model;
  model.layer.weight.frozen = true;
  Session<BFloat16Policy, OneLayer<>> session(model);
  Watched<bfloat16> x({1, 3}, {1.0f, 2.0f, 3.0f});
  session.backward(
      weighted_sum(session.tape, session.model.layer(session.tape, watch(session.tape, x)), {1.0f, 1.0f}));
  BOOST_TEST(!session.has_gradient("layer.weight"));
  BOOST_TEST(session.has_gradient("layer.bias"));
  BOOST_TEST(x.visits == 1);

  model.layer.bias.frozen = true;
  Session<BFloat16Policy, OneLayer<>> all_frozen(model);
  const std::vector<float> values{1.0f, 2.0f, 3.0f};
  const auto y = all_frozen.model.layer(all_frozen.tape, Tensor<const float>(values.data(), {1, 3}));
  BOOST_TEST(!y.requires_gradient());
}

BOOST_AUTO_TEST_CASE(a_copy_of_a_layer_that_is_gone_before_the_backward_pass_is_that_layer) {
  Session<Float32Policy, OneLayer<>> session, copied;
  Watched<float> x({1, 3}, {1.0f, 2.0f, 3.0f}), same = x;
  session.backward(
      weighted_sum(session.tape, session.model.layer(session.tape, watch(session.tape, x)), {1.0f, 2.0f}));
  auto copy = std::make_unique<Linear>(copied.model.layer);
  const auto y = (*copy)(copied.tape, watch(copied.tape, same));
  copy.reset();
  copied.backward(weighted_sum(copied.tape, y, {1.0f, 2.0f}));
  for (const char* name : {"layer.weight", "layer.bias"}) {
    BOOST_TEST(copied.has_gradient(name));
    BOOST_TEST(copied.gradient(name) == session.gradient(name), boost::test_tools::per_element());
  }
  BOOST_TEST(same.gradient == x.gradient, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(inference_records_nothing_and_computes_the_same) {
  Case<BFloat16Policy> test({5, 7}, 3, {});
  auto& tape = test.session.tape;
  const std::vector<float> trained = floats(test.forward().value());
  tape.begin(Pass::inference);
  const auto y = test.forward();
  BOOST_TEST(floats(y.value()) == trained);
  BOOST_TEST(!y.requires_gradient());
  test.session.backward(weighted_sum(tape, y, test.dy));
  BOOST_TEST(test.x.visits == 0);
  BOOST_TEST(!test.session.has_gradient("layer.weight"));
}

BOOST_AUTO_TEST_CASE(the_program_s_floats_are_taken_in_the_type_of_products) {
  Session<Float16ScaledPolicy, OneLayer<>> session;
  const std::vector<float> values{0.1f, 0.2f, 0.3f};
  Watched<float16> x({1, 3}, values);
  const auto from_floats = session.model.layer(session.tape, Tensor<const float>(values.data(), {1, 3}));
  static_assert(std::is_same_v<decltype(from_floats), const Variable<float16>>);
  BOOST_TEST(floats(from_floats.value()) ==
             floats(session.model.layer(session.tape, watch(session.tape, x)).value()));
}

BOOST_AUTO_TEST_CASE(a_batch_without_rows_gives_a_result_without_rows) {
  Case<Float32Policy> test({0, 3}, 2, {});
  const auto y = test.forward();
  BOOST_TEST((y.shape() == Shape{0, 2}));
  test.session.backward(weighted_sum(test.session.tape, y, {}));
  BOOST_TEST(test.session.gradient("layer.weight") == std::vector<float>(6, 0.0f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  const auto [one, two] = with_one_and_two_threads([] {
    Case<Policy> test({817, 67}, 131, {});
    const auto y = test.forward();
    test.session.backward(weighted_sum(test.session.tape, y, test.dy));
    std::vector<float> all = floats(y.value());
    for (const auto& part :
         {test.x.gradient, test.session.gradient("layer.weight"), test.session.gradient("layer.bias")}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(inputs_of_another_width_are_refused_by_name_of_both_shapes) {
  Session<Float32Policy, OneLayer<>> session;
  const std::vector<float> values(8, 0.0f);
  const auto refused = [&](const Shape& shape) {
    return refusal<ShapeError>(
        [&] { session.model.layer(session.tape, Tensor<const float>(values.data(), shape)); });
  };
  check_holds(refused({2, 4}), {"[2, 3]", "[2, 4]", "Linear{4, 2}"});
  check_holds(refused(Shape()), {"[]"});
  check_holds(refusal<ConfigurationError>([] { Linear(0, 2); }), {"Linear{0, 2}"});
  check_holds(refusal<ConfigurationError>([] { Linear(3, -1); }), {"Linear{3, -1}"});
}

BOOST_AUTO_TEST_CASE(one_layer_can_compute_in_float_under_a_policy_of_16_bits) {
  Session<Float16ScaledPolicy, OneLayer<ComputeIn<float, Linear>>> session;
  Watched<float16> x({2, 3}, random_numbers(6, -1.0f, 1.0f));
  const auto y = session.model.layer(session.tape, watch(session.tape, x));
  static_assert(std::is_same_v<decltype(y), const Variable<float>>);
  const std::vector<float> dy{1.0f, -2.0f, 0.5f, 0.25f};
  session.backward(weighted_sum(session.tape, y, dy));
  const auto masters = session.master("layer.weight"), biases = session.master("layer.bias");
  const Reference expected(x.exact(), {masters.begin(), masters.end()}, {biases.begin(), biases.end()},
                           {dy.begin(), dy.end()}, 2, 3, 2);
  check_close(floats(y.value()), expected.y, float_tolerance.over(3));
  check_close(session.gradient("layer.weight"), expected.dw, float_tolerance.over(2));
  check_close(session.gradient("layer.bias"), expected.db, float_tolerance.over(2));
  check_close(x.gradient, expected.dx, float16_tolerance.over(2));
}

BOOST_AUTO_TEST_SUITE_END()
