#include "support/tape.hpp"

#include <boost/test/unit_test.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/tape.hpp>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/sanitizers.hpp"

BOOST_AUTO_TEST_SUITE(tape_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

/// y = factor * x, which notes its name when its backward pass is called.
template <class T>
struct ScaleBackward {
  Variable<T> input;
  float factor;
  char name;
  std::string* calls;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> gradient) const {
    *calls += name;
    const auto target = tape.gradient_target(input);
    if (!target) return;
    for (std::int64_t i = 0; i < input.size(); ++i) {
      const float before = target.accumulate ? static_cast<float>(target.data[i]) : 0.0f;
      target.data[i] = static_cast<T>(before + factor * static_cast<float>(gradient[i]));
    }
  }
};

struct Scale {};

template <class Tape, class T>
Variable<T> scale(Tape& tape, const Variable<T>& x, float factor, char name, std::string& calls) {
  const Tensor<T> result = tape.template allocate<T>(x.shape());
  for (std::int64_t i = 0; i < x.size(); ++i)
    result[i] = static_cast<T>(factor * static_cast<float>(x.data()[i]));
  return tape.record(Scale{}, result, x.requires_gradient(), ScaleBackward<T>{x, factor, name, &calls});
}

struct TwoLayers {
  Linear first{2, 2}, second{2, 1};
  bool names_second = true;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    if (names_second) visit("second", second);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(gradients_flow_in_the_opposite_order_of_the_forward_pass) {
  Session<Float32Policy> session;
  std::string calls;
  Watched<float> x({2}, {1.0f, 2.0f});
  const auto a = scale(session.tape, watch(session.tape, x), 2.0f, 'a', calls);
  const auto b = scale(session.tape, a, 3.0f, 'b', calls);
  const auto c = scale(session.tape, b, 5.0f, 'c', calls);
  session.backward(weighted_sum(session.tape, c, {1.0f, 10.0f}));
  BOOST_TEST(calls == "cba");
  BOOST_TEST(x.gradient == (std::vector<float>{30.0f, 300.0f}));
  BOOST_TEST(x.visits == 1);
}

BOOST_AUTO_TEST_CASE(branches_that_do_not_reach_the_loss_are_left_alone) {
  Session<Float32Policy> session;
  std::string calls;
  Watched<float> x({1}, {1.0f}), unused({1}, {1.0f});
  const auto input = watch(session.tape, x);
  const auto used = scale(session.tape, input, 2.0f, 'u', calls);
  scale(session.tape, input, 7.0f, 'd', calls);
  scale(session.tape, watch(session.tape, unused), 7.0f, 'e', calls);
  const auto loss = weighted_sum(session.tape, used, {1.0f});
  // Recorded after the loss, from what the loss was computed of.
  const auto later = scale(session.tape, used, 11.0f, 'l', calls);
  session.backward(loss);
  BOOST_TEST(later.requires_gradient());
  BOOST_TEST(calls == "u");
  BOOST_TEST(x.gradient == std::vector<float>{2.0f});
  BOOST_TEST(unused.visits == 0);
}

BOOST_AUTO_TEST_CASE(a_value_read_twice_gets_one_backward_pass_with_the_sum) {
  Session<Float16ScaledPolicy> session;
  std::string calls;
  Watched<float16> x({1}, {1.0f});
  const auto a = scale(session.tape, watch(session.tape, x), 2.0f, 'a', calls);
  const auto left = scale(session.tape, a, 3.0f, 'l', calls),
             right = scale(session.tape, a, 5.0f, 'r', calls);
  session.backward(total(session.tape, weighted_sum(session.tape, left, {1.0f}),
                         weighted_sum(session.tape, right, {1.0f})));
  BOOST_TEST(calls == "rla");
  BOOST_TEST(x.gradient == std::vector<float>{16.0f});
}

BOOST_AUTO_TEST_CASE(the_seed_scales_every_gradient) {
  Session<Float32Policy> session;
  Watched<float> x({1}, {1.0f});
  session.backward(weighted_sum(session.tape, watch(session.tape, x), {3.0f}), 1024.0f);
  BOOST_TEST(x.gradient == std::vector<float>{3072.0f});
}

BOOST_AUTO_TEST_CASE(nothing_is_recorded_where_nobody_wants_a_gradient) {
  Session<Float32Policy> session;
  std::string calls;
  const std::vector<float> values{1.0f, 2.0f};
  const auto constant = session.tape.variable(Tensor<const float>(values.data(), {2}));
  BOOST_TEST(!constant.requires_gradient());
  BOOST_TEST(constant.data() == values.data());  // the host's memory is the device's
  const auto y = scale(session.tape, constant, 2.0f, 'a', calls);
  BOOST_TEST(!y.requires_gradient());
  session.backward(weighted_sum(session.tape, y, {1.0f, 1.0f}));
  BOOST_TEST(calls == "");

  session.tape.begin(Pass::inference);
  Watched<float> x({1}, {1.0f});
  BOOST_TEST(!watch(session.tape, x).requires_gradient());
}

BOOST_AUTO_TEST_CASE(a_new_pass_forgets_the_last_one) {
  Session<Float32Policy> session;
  std::string calls;
  Watched<float> x({1}, {1.0f});
  scale(session.tape, watch(session.tape, x), 2.0f, 'o', calls);
  session.tape.begin(Pass::training);
  const auto y = scale(session.tape, watch(session.tape, x), 2.0f, 'n', calls);
  session.backward(weighted_sum(session.tape, y, {1.0f}));
  BOOST_TEST(calls == "n");
  BOOST_TEST(x.visits == 1);
}

BOOST_AUTO_TEST_CASE(a_warm_pass_takes_its_memory_from_what_the_first_one_left) {
  constexpr std::size_t rows = under_sanitizers ? 20000 : 100000;
  Session<Float16ScaledPolicy, TwoLayers> session;
  std::size_t capacity = 0;
  for (int pass = 0; pass < 4; ++pass) {
    session.tape.begin(Pass::training);
    Watched<float16> x({rows, 2}, std::vector<float>(2 * rows, 1.0f));
    const auto y =
        session.model.second(session.tape, session.model.first(session.tape, watch(session.tape, x)));
    session.backward(weighted_sum(session.tape, y, std::vector<float>(rows, 1.0f)));
    if (pass == 2) capacity = session.tape.arena().capacity();
  }
  BOOST_TEST(session.tape.arena().capacity() == capacity);
  BOOST_TEST(session.tape.peak_bytes() <= capacity);
  BOOST_TEST(session.tape.peak_bytes() > 2 * rows * 2 * 2);
}

BOOST_AUTO_TEST_CASE(weights_come_in_the_type_that_an_operation_computes_in) {
  Session<Float16ScaledPolicy, TwoLayers> session;
  const Parameter& weight = session.model.first.weight;
  BOOST_TEST(session.tape.weight<float>(weight).data() == session.parameters.master(0).data());
  BOOST_TEST(session.tape.weight<float16>(weight).data() == session.parameters.working(0).data());
  const auto third = session.tape.weight<bfloat16>(weight);
  for (std::int64_t i = 0; i < 4; ++i) {
    BOOST_TEST(third[i].bits() == bfloat16(session.parameters.master(0)[i]).bits());
  }
}

BOOST_AUTO_TEST_CASE(a_parameter_that_the_model_does_not_name_is_an_error_that_says_so) {
  TwoLayers model;
  model.names_second = false;
  Session<Float32Policy, TwoLayers> session(model);
  const std::vector<float> values{1.0f, 2.0f};
  const Tensor<const float> x(values.data(), {1, 2});
  BOOST_CHECK_NO_THROW(session.model.first(session.tape, x));
  check_holds(refusal<ConfigurationError>([&] { session.model.second(session.tape, x); }),
              {"[1, 2]", "parameters(visit)"});
}

BOOST_AUTO_TEST_CASE(frozen_parameters_are_not_trained_and_take_no_gradient) {
  TwoLayers model;
  model.first.weight.frozen = true;
  Session<Float32Policy, TwoLayers> session(model);
  BOOST_TEST(!session.tape.trains(session.model.first.weight));
  BOOST_TEST(session.tape.trains(session.model.first.bias));
  BOOST_TEST(!session.tape.gradient_target(session.model.first.weight));
  const auto first = session.tape.gradient_target(session.model.first.bias);
  BOOST_TEST(!first.accumulate);
  BOOST_TEST(session.tape.gradient_target(session.model.first.bias).accumulate);
  BOOST_TEST(first.data == session.parameters.gradient(1).data());
  session.tape.begin(Pass::inference);
  BOOST_TEST(!session.tape.trains(session.model.first.bias));
}

BOOST_AUTO_TEST_SUITE_END()
