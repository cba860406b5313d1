// mean_squared_error and sum.
#include <boost/test/unit_test.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/mean_squared_error.hpp>
#include <halfstep/nn/sum.hpp>
#include <string>
#include <tuple>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(mean_squared_error_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

double squared_error(const std::vector<double>& y, const std::vector<float>& t) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double error = y[i] - static_cast<double>(t[i]);
    sum += error * error;
  }
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(squared_error_and_gradient_match_float64, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  for (const Shape& shape : {Shape{1}, Shape{2, 3, 5}, Shape{37, 11}, Shape{101, 103}}) {
    Session<Policy> session;
    Watched<T> y(shape, random_numbers(shape.size(), -2.0f, 2.0f));
    const auto t = random_numbers(shape.size(), -2.0f, 2.0f, 5);
    const Loss loss =
        mean_squared_error(session.tape, watch(session.tape, y), Tensor<const float>(t.data(), shape));
    session.backward(loss.sum, 4.0f);
    BOOST_TEST(loss.count == shape.size());
    const std::vector<double> exact = y.exact();
    check_close(floats(loss.sum.value()), std::vector<double>{squared_error(exact, t)}, float_tolerance);
    std::vector<double> gradient;
    for (std::size_t i = 0; i < t.size(); ++i) gradient.push_back(8 * (exact[i] - static_cast<double>(t[i])));
    check_close(y.gradient, gradient, tolerance_of<T>);
  }
}

BOOST_AUTO_TEST_CASE(gradients_match_central_differences) {
  Session<Float32Policy> session;
  Watched<float> y({3, 5}, random_numbers(15, -2.0f, 2.0f));
  const auto t = random_numbers(15, -2.0f, 2.0f, 5);
  const auto input = watch(session.tape, y);
  const Loss error = mean_squared_error(session.tape, input, Tensor<const float>(t.data(), {3, 5}));
  const Loss plain = sum(session.tape, input);
  session.backward(total(session.tape, error.sum, plain.sum));
  check_close(y.gradient,
              numeric_gradient(y.exact(),
                               [&](const auto& v) {
                                 double all = squared_error(v, t);
                                 for (const double value : v) all += value;
                                 return all;
                               }),
              float_tolerance.over(2));
}

BOOST_AUTO_TEST_CASE(a_prediction_read_twice_gets_both_gradients) {
  Session<Float16ScaledPolicy> session;
  Watched<float16> y({2}, {1.0f, -2.0f});
  const std::vector<float> near{0.5f, -2.0f}, far{3.0f, 2.0f};
  const auto input = watch(session.tape, y);
  const Loss one = mean_squared_error(session.tape, input, Tensor<const float>(near.data(), {2}));
  const Loss two = mean_squared_error(session.tape, input, Tensor<const float>(far.data(), {2}));
  session.backward(total(session.tape, one.sum, two.sum));
  BOOST_TEST(*one.sum.data() == 0.25f);
  BOOST_TEST(*two.sum.data() == 20.0f);
  BOOST_TEST(y.gradient == (std::vector<float>{-3.0f, -8.0f}));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_sum_counts_as_one_sample_and_stays_exact, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  Session<Policy> session;
  // A float16 sum of ones stalls at 2048, a bfloat16 one at 256; a float sum of these would lose the small
  // ones.
  std::vector<float> values(70001, 1.0f);
  Watched<T> x({70001}, values);
  const Loss loss = sum(session.tape, watch(session.tape, x));
  session.backward(loss.sum, 0.5f);
  BOOST_TEST(loss.count == 1);
  BOOST_TEST(*loss.sum.data() == 70001.0f);
  BOOST_TEST(x.gradient == std::vector<float>(70001, 0.5f));

  Watched<T> cancelling({4}, {0x1p14f, 0x1p-10f, 0x1p-10f, -0x1p14f});
  BOOST_TEST(*sum(session.tape, watch(session.tape, cancelling)).sum.data() == 0x1p-9f);
  Watched<T> empty({0, 3}, {});
  BOOST_TEST(*sum(session.tape, watch(session.tape, empty)).sum.data() == 0.0f);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  const auto t = random_numbers(100003, -2.0f, 2.0f, 5);
  const auto [one, two] = with_one_and_two_threads([&] {
    Session<Policy> session;
    Watched<typename Policy::compute_type> y({100003}, random_numbers(100003, -2.0f, 2.0f));
    const auto input = watch(session.tape, y);
    const Loss error = mean_squared_error(session.tape, input, Tensor<const float>(t.data(), {100003}));
    const Loss plain = sum(session.tape, input);
    session.backward(total(session.tape, error.sum, plain.sum));
    return std::tuple(*error.sum.data(), *plain.sum.data(), y.gradient);
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(inference_records_nothing) {
  Session<Float16ScaledPolicy> session;
  session.tape.begin(Pass::inference);
  Watched<float16> y({2}, {1.0f, 3.0f});
  const std::vector<float> t{0.0f, 1.0f};
  const auto input = watch(session.tape, y);
  const Loss error = mean_squared_error(session.tape, input, Tensor<const float>(t.data(), {2}));
  BOOST_TEST(*error.sum.data() == 5.0f);
  BOOST_TEST(!error.sum.requires_gradient());
  BOOST_TEST(!sum(session.tape, input).sum.requires_gradient());
}

BOOST_AUTO_TEST_CASE(other_shapes_and_empty_batches_are_refused) {
  Session<Float32Policy> session;
  const std::vector<float> values(6, 0.0f);
  const auto tensor = [&](Shape shape) { return Tensor<const float>(values.data(), shape); };
  const auto refused = [&](const Shape& prediction, const Shape& target) {
    return refusal<ShapeError>(
        [&] { mean_squared_error(session.tape, tensor(prediction), tensor(target)); });
  };
  check_holds(refused({2, 3}, {3, 2}), {"[2, 3]", "[3, 2]"});
  check_holds(refused({6}, {6, 1}), {"[6]", "[6, 1]"});
  check_holds(refused({0, 3}, {0, 3}), {"empty batch"});
}

BOOST_AUTO_TEST_SUITE_END()
