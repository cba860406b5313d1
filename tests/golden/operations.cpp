// Every operation forward and backward beside PyTorch's, in the three compute types.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/halfstep.hpp>

#include "golden/beside_pytorch.hpp"
#include "golden/golden.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(operations_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct OneLinear {
  Linear layer;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

template <class Session>
void set(Session& session, const char* parameter, const std::vector<float>& values) {
  const int index = session.parameters.find(parameter);
  const Tensor<float> master = session.parameters.master(index);
  BOOST_TEST_REQUIRE(static_cast<std::size_t>(master.size()) == values.size());
  std::copy(values.begin(), values.end(), master.data());
  session.parameters.refresh_working_copy(index);
}

template <class Policy>
void check_linear(const std::string& operation, bool bias) {
  using T = typename Policy::compute_type;
  const Golden<Policy> golden{GoldenFile("operations")};
  auto x = golden.input(operation);
  const auto dy = golden.values(operation, "dy");
  const std::int64_t in = x.shape.columns(), out = static_cast<std::int64_t>(dy.size()) / x.shape.rows();
  Session<Policy, OneLinear> session(OneLinear{Linear(in, out, {.bias = bias})});
  set(session, "layer.weight", golden.values(operation, "weight"));
  if (bias) set(session, "layer.bias", golden.values(operation, "bias"));
  const auto y = session.model.layer(session.tape, watch(session.tape, x));
  static_assert(std::is_same_v<typename decltype(y)::value_type, T>);
  session.backward(weighted_sum(session.tape, y, dy));
  golden.compare(operation, "y", floats(y.value()), neighbours<T>, sum_order);
  golden.compare(operation, "dx", x.gradient, neighbours<T>, sum_order);
  // Ours stay in float, PyTorch's are rounded to T.
  golden.compare(operation, "dweight", session.gradient("layer.weight"), neighbours<T>, sum_order);
  if (bias) golden.compare(operation, "dbias", session.gradient("layer.bias"), neighbours<T>, sum_order);
}

/// `absolute` is for results that are small beside the numbers they were made from.
template <class Policy, class Function>
void check_elementwise(const std::string& operation, const Function& function, double roundings,
                       double absolute) {
  const Golden<Policy> golden{GoldenFile("operations")};
  auto x = golden.input(operation);
  Session<Policy> session;
  const auto y = function(session.tape, watch(session.tape, x));
  session.backward(weighted_sum(session.tape, y, golden.values(operation, "dy")));
  golden.compare(operation, "y", floats(y.value()), roundings, absolute);
  golden.compare(operation, "dx", x.gradient, roundings, absolute);
}

/// A loss over valid samples: PyTorch's is their mean, and so is its gradient.
template <class Policy, class Function>
void check_loss(const std::string& operation, const Function& function) {
  using T = typename Policy::compute_type;
  const Golden<Policy> golden{GoldenFile("operations")};
  auto x = golden.input(operation);
  Session<Policy> session;
  const Loss loss = function(session.tape, watch(session.tape, x));
  const float count = static_cast<float>(loss.count);
  session.backward(loss.sum, 1.0f / count);
  const double mean = static_cast<double>(*loss.sum.data()) / static_cast<double>(count);
  const double expected = static_cast<double>(golden.number(operation, "loss"));
  BOOST_TEST(std::abs(mean - expected) <= float_tolerance.at(expected),
             operation << ": " << mean << " is not " << expected);
  golden.compare(operation, "dx", x.gradient, neighbours<T>, 1e-7);
}

}  // namespace

BOOST_AUTO_TEST_CASE(linear_is_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    check_linear<Policy>("linear", true);
    check_linear<Policy>("linear_without_bias", false);
  });
}

BOOST_AUTO_TEST_CASE(relu_is_pytorchs_to_the_bit) {
  under_each_policy([]<class Policy>(Policy) {
    check_elementwise<Policy>(
        "relu", [](auto& tape, const auto& x) { return relu(tape, x); }, 0.001, 0);
  });
}

BOOST_AUTO_TEST_CASE(gelu_and_its_approximation_are_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    // Far to the left the value is a difference of numbers near 1/2.
    check_elementwise<Policy>(
        "gelu", [](auto& tape, const auto& x) { return gelu(tape, x); }, neighbours<T>, 1e-6);
    check_elementwise<Policy>(
        "gelu_tanh", [](auto& tape, const auto& x) { return gelu(tape, x, GeluApproximation::tanh); },
        neighbours<T>, 1e-6);
  });
}

BOOST_AUTO_TEST_CASE(cross_entropy_with_smoothing_and_ignored_rows_is_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    for (int number = 0; number < 5; ++number) {
      const std::string operation = "cross_entropy_" + std::to_string(number);
      const Golden<Policy> golden{GoldenFile("operations")};
      const auto labels = golden.file.template read<std::int64_t>(golden.name(operation, "labels"));
      const CrossEntropyOptions options{
          .ignore_index = golden.file.template number<std::int64_t>(golden.name(operation, "ignore_index")),
          .label_smoothing = golden.number(operation, "smoothing")};
      check_loss<Policy>(operation, [&](auto& tape, const auto& x) {
        return cross_entropy(tape, x, Tensor<const std::int64_t>(labels.values.data(), labels.shape), options);
      });
    }
  });
}

BOOST_AUTO_TEST_CASE(mean_squared_error_is_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    const auto target = Golden<Policy>{GoldenFile("operations")}.values("mean_squared_error", "target");
    check_loss<Policy>("mean_squared_error", [&](auto& tape, const auto& x) {
      return mean_squared_error(tape, x, Tensor<const float>(target.data(), x.shape()));
    });
  });
}

BOOST_AUTO_TEST_CASE(sum_is_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    check_loss<Policy>("sum", [](auto& tape, const auto& x) { return sum(tape, x); });
  });
}

// Which elements are kept is chance; what becomes of those that are is not. PyTorch rounds the factor to T,
// and then the product; here the factor is float.
BOOST_AUTO_TEST_CASE(what_dropout_keeps_is_scaled_as_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    for (int number = 0; number < 4; ++number) {
      const std::string operation = "dropout_" + std::to_string(number);
      const Golden<Policy> golden{GoldenFile("operations")};
      auto x = golden.input(operation);
      const float drop = golden.number(operation, "drop");
      // In PyTorch the probability is a double; as a float it is half a rounding off, which 1 / (1 - drop)
      // magnifies.
      const double magnified = 0.5 / (1 - static_cast<double>(drop));
      const double roundings = std::is_same_v<T, float> ? 2 + magnified : 3;
      const auto dy = golden.values(operation, "dy"), kept = golden.values(operation, "y");
      const auto kept_gradient = golden.values(operation, "dx");
      Session<Policy> session;
      const auto y = dropout(session.tape, watch(session.tape, x), drop);
      session.backward(weighted_sum(session.tape, y, dy));
      const auto ours = floats(y.value());
      std::size_t dropped = 0;
      const auto near = [&](float a, float b) {
        return std::abs(static_cast<double>(a - b)) <=
               roundings * (rounding<T> * std::abs(static_cast<double>(b)) + smallest_rounding<T>);
      };
      for (std::size_t i = 0; i < ours.size(); ++i) {
        if (ours[i] == 0) {
          ++dropped;
          BOOST_TEST(x.gradient[i] == 0.0f);
          continue;
        }
        BOOST_TEST(near(ours[i], kept[i]), operation << "[" << i << "] is " << ours[i] << ", not " << kept[i]);
        BOOST_TEST(near(x.gradient[i], kept_gradient[i]));
      }
      // Six standard deviations around the mean of 64 draws.
      const double mean = 64.0 * static_cast<double>(drop),
                   width = 6 * std::sqrt(mean * (1 - static_cast<double>(drop)));
      BOOST_TEST(std::abs(static_cast<double>(dropped) - mean) <= width);
      BOOST_TEST((dropped > 0 && dropped < ours.size()));
    }
  });
}

BOOST_AUTO_TEST_CASE(conversion_from_float_is_pytorchs_to_the_bit) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    const Golden<Policy> golden{GoldenFile("operations")};
    const auto x = golden.values("conversion", "x"), expected = golden.values("conversion", "y");
    for (std::size_t i = 0; i < x.size(); ++i) {
      BOOST_TEST(same_bits(static_cast<float>(static_cast<T>(x[i])), expected[i]),
                 x[i] << " becomes " << static_cast<float>(static_cast<T>(x[i])) << ", not " << expected[i]);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
