// An operation of one's own, with nothing but the tape's public face: half the squared error of each token
// against a target, as a loss over the tokens that count.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/store_gradient.hpp>

#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(own_operation_tests)

namespace {

using namespace halfstep;

// What each element does: small function objects, so that the same code runs on every device.
template <class T>
struct HalfSquaredError {
  const T* y;
  const float* t;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t i) const {
    const float error = static_cast<float>(y[i]) - t[i];
    return 0.5f * error * error;
  }
};

template <class T>
struct HalfSquaredErrorGradient {
  const T* y;
  const float* t;
  const float* loss_gradient;
  GradientTarget<T> y_gradient;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    store_gradient(y_gradient, i, (static_cast<float>(y[i]) - t[i]) * *loss_gradient);
  }
};

// What the backward pass needs, by value: views and variables, nothing that wants to be destroyed.
template <class T>
struct TokenLossBackward {
  Variable<T> y;
  Tensor<const float> t;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> loss_gradient) const {
    if (const auto target = tape.gradient_target(y)) {
      compute::for_each(tape.device(), y.size(),
                        HalfSquaredErrorGradient<T>{y.data(), t.data(), loss_gradient.data(), target});
    }
  }
};

struct TokenLoss {};

template <class Tape, class Input>
Loss token_loss(Tape& tape, const Input& prediction, const Tensor<const float>& targets) {
  const auto y = tape.variable(prediction);
  using T = typename decltype(y)::value_type;
  const Tensor<const float> t = tape.upload(targets);
  const Tensor<float> result = tape.template allocate<float>(Shape());
  compute::reduce(tape.device(), tape.arena(), y.size(), HalfSquaredError<T>{y.data(), t.data()}, 0.0f,
                  compute::Plus{}, result.data());
  return {tape.record(TokenLoss{}, result, y.requires_gradient(), TokenLossBackward<T>{y, t}), y.size()};
}

/// y = w x with w = 0 at first.
struct OneWeight {
  Linear layer{1, 1, {.bias = false}};
  OneWeight() { layer.weight.initializer = Initializer::zeros(); }
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Tensor<const float>& x, const Tensor<const float>& t) {
    return token_loss(tape, layer(tape, x), t);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_operation_of_one_s_own_gives_loss_count_and_gradient) {
  // One micro-batch of three tokens, one of one: sums and counts add up to those of one batch of four.
  const float ones[3] = {1.0f, 1.0f, 1.0f}, five[1] = {5.0f};
  const Tensor<const float> x(ones, {3, 1}), x_last(ones, {1, 1}), t(ones, {3, 1}), t_last(five, {1, 1});
  halfstep::test::Session<Float16ScaledPolicy, OneWeight> session;
  const Loss first = session.model.loss(session.tape, x, t);
  const float first_sum = *first.sum.data();
  session.backward(first.sum);
  session.tape.begin(Pass::training);
  const Loss second = session.model.loss(session.tape, x_last, t_last);
  session.backward(second.sum);
  BOOST_TEST(first.count + second.count == 4);
  BOOST_TEST(first_sum + *second.sum.data() == 14.0f);
  BOOST_TEST(session.gradient("layer.weight")[0] == -8.0f);
}

BOOST_AUTO_TEST_CASE(its_gradient_matches_central_differences) {
  using namespace halfstep::test;
  Session<Float32Policy> session;
  Watched<float> y({7}, random_numbers(7, -1.0f, 1.0f));
  const auto t = random_numbers(7, -1.0f, 1.0f, 4);
  session.backward(token_loss(session.tape, watch(session.tape, y), Tensor<const float>(t.data(), {7})).sum);
  check_close(y.gradient,
              numeric_gradient(y.exact(),
                               [&](const auto& v) {
                                 double sum = 0;
                                 for (std::size_t i = 0; i < v.size(); ++i) {
                                   const double error = v[i] - static_cast<double>(t[i]);
                                   sum += 0.5 * error * error;
                                 }
                                 return sum;
                               }),
              float_tolerance);
}

BOOST_AUTO_TEST_SUITE_END()
