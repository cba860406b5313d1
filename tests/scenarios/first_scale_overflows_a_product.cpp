// A = [[1, 2], [3, 4]], B = [[1, -1], [0.5, 0.25]], C = A B in float16, loss = sum(C) in float: the gradient
// of C is the scale itself, and 65536 is no float16. What the gradients hold, scale by scale.
#include <boost/test/unit_test.hpp>
#include <halfstep/compute/matmul.hpp>
#include <halfstep/nn/sum.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <vector>

#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(first_scale_overflows_a_product_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct Nothing {};

struct TwoMatrices {
  Parameter a{Shape{2, 2}, Initializer::zeros()}, b{Shape{2, 2}, Initializer::zeros()};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("a", a);
    visit("b", b);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Nothing&) const;
};

struct ParameterProduct {};

/// dA = dC B^T, dB = A^T dC: float, as all gradients of parameters are.
template <class T>
struct ParameterProductBackward {
  const Parameter* a;
  const Parameter* b;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> output_gradient) const {
    const auto dc = compute::matrix(output_gradient.data(), 2, 2);
    if (const auto target = tape.gradient_target(*a)) {
      compute::matmul(tape.device(), dc,
                      compute::matrix(tape.template weight<T>(*b).data(), 2, 2).transposed(),
                      compute::matrix(target.data, 2, 2), {.accumulate = target.accumulate});
    }
    if (const auto target = tape.gradient_target(*b)) {
      compute::matmul(tape.device(), compute::matrix(tape.template weight<T>(*a).data(), 2, 2).transposed(),
                      dc, compute::matrix(target.data, 2, 2), {.accumulate = target.accumulate});
    }
  }
};

template <class Tape>
auto product(Tape& tape, const Parameter& a, const Parameter& b) {
  using T = operation_type<typename Tape::Policy, operation::Matmul>;
  const Tensor<T> result = tape.template allocate<T>({2, 2});
  compute::matmul(tape.device(), compute::matrix(tape.template weight<T>(a).data(), 2, 2),
                  compute::matrix(tape.template weight<T>(b).data(), 2, 2),
                  compute::matrix(result.data(), 2, 2));
  return tape.record(ParameterProduct{}, result, true, ParameterProductBackward<T>{&a, &b});
}

template <class Tape>
Loss TwoMatrices::loss(Tape& tape, const Nothing&) const {
  return sum(tape, product(tape, a, b));
}

const std::vector<float> a_values{1.0f, 2.0f, 3.0f, 4.0f}, b_values{1.0f, -1.0f, 0.5f, 0.25f};

struct GradientsOfBoth {
  float loss;
  std::vector<float> a, b;
};

GradientsOfBoth at_scale(float scale) {
  Session<Float16ScaledPolicy, TwoMatrices> session;
  std::copy(a_values.begin(), a_values.end(), session.parameters.master(0).data());
  std::copy(b_values.begin(), b_values.end(), session.parameters.master(1).data());
  session.parameters.refresh_working_copy(0);
  session.parameters.refresh_working_copy(1);
  const Loss loss = sum(session.tape, product(session.tape, session.model.a, session.model.b));
  session.backward(loss.sum, scale);
  return {*loss.sum.data(), session.gradient("a"), session.gradient("b")};
}

}  // namespace

BOOST_AUTO_TEST_CASE(at_65536_the_first_parameter_holds_nan_and_infinity) {
  const GradientsOfBoth gradients = at_scale(65536.0f);
  BOOST_TEST(gradients.loss == 4.5f);
  for (const std::size_t row : {std::size_t{0}, std::size_t{1}}) {
    BOOST_TEST(is_nan(gradients.a[2 * row]));
    BOOST_TEST(!is_finite(gradients.a[2 * row + 1]));
    BOOST_TEST(!is_nan(gradients.a[2 * row + 1]));
  }
  for (const float value : gradients.b) BOOST_TEST(!is_finite(value));
}

BOOST_AUTO_TEST_CASE(at_32768_one_skip_later_every_gradient_is_exact) {
  const GradientsOfBoth gradients = at_scale(32768.0f);
  const auto unscaled = [](std::vector<float> values) {
    for (float& value : values) value *= 1.0f / 32768.0f;
    return values;
  };
  BOOST_TEST(unscaled(gradients.a) == (std::vector<float>{0.0f, 0.75f, 0.0f, 0.75f}));
  BOOST_TEST(unscaled(gradients.b) == (std::vector<float>{4.0f, 4.0f, 6.0f, 6.0f}));
  // Kept in float: as float16 these would have overflowed here and at 16384 too.
  BOOST_TEST(gradients.b[0] == 131072.0f);
}

BOOST_AUTO_TEST_CASE(a_trainer_skips_once_names_the_first_parameter_and_then_learns) {
  Trainer<TwoMatrices, SGD, Float16ScaledPolicy> trainer{TwoMatrices{}, {.learning_rate = 1}};
  trainer.write_parameter("a", a_values);
  trainer.write_parameter("b", b_values);

  const StepReport first = trainer.step(Nothing{}).report();
  BOOST_TEST((first.outcome == Outcome::skipped));
  BOOST_TEST((first.skip_cause == SkipCause::gradient));
  BOOST_TEST(first.loss == 4.5);
  BOOST_TEST(first.next_scale == 32768.0f);
  BOOST_TEST(first.first_non_finite.tensor == "a");
  BOOST_TEST(first.first_non_finite.index == 0);
  BOOST_TEST(trainer.read_parameter("a") == a_values);

  const StepReport second = trainer.step(Nothing{}).report();
  BOOST_TEST(second.applied());
  BOOST_TEST(second.skipped == 1);
  BOOST_TEST(trainer.state().scaler.growth_tracker == 1);
  BOOST_TEST(trainer.read_parameter("a") == (std::vector<float>{1.0f, 1.25f, 3.0f, 3.25f}));
  BOOST_TEST(trainer.read_parameter("b") == (std::vector<float>{-3.0f, -5.0f, -5.5f, -5.75f}));
}

BOOST_AUTO_TEST_SUITE_END()
