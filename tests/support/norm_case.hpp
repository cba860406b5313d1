#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/initializer.hpp>
#include <halfstep/policy.hpp>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/tape.hpp"
#include "support/tolerance.hpp"

/// What LayerNorm and RmsNorm are both held to.
namespace halfstep::test {

/// Norms in 16 bits, which the library's own policies leave in float.
struct NormsInFloat16 : Float16ScaledPolicy {
  using in_compute_type = operation::List<operation::Normalization>;
};
using NormPolicies = std::tuple<Float32Policy, BFloat16Policy, NormsInFloat16>;
using NormThreadPolicies = std::conditional_t<under_sanitizers, std::tuple<NormsInFloat16>,
                                              std::tuple<Float32Policy, NormsInFloat16>>;

/// LayerNorm does, RmsNorm does not.
template <class Layer>
constexpr bool centers = requires(Layer layer) {
  layer.bias;
};

template <class Layer>
bool has_bias(const Layer& layer) {
  if constexpr (centers<Layer>) return layer.has_bias();
  return false;
}

template <class Layer>
struct OneNorm {
  Layer norm{1};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("norm", norm);
  }
};

/// With parameters that are not ones and zeros.
template <class Layer>
OneNorm<Layer> random_norm(Layer layer) {
  layer.weight.initializer = Initializer::uniform(1.0f);
  if constexpr (centers<Layer>) layer.bias.initializer = Initializer::uniform(1.0f);
  return {layer};
}

/// y of each row, in double.
struct ExactNorm {
  bool centers;
  double epsilon;

  std::vector<double> operator()(const std::vector<double>& x, const std::vector<double>& weight,
                                 const std::vector<double>& bias) const {
    const std::size_t width = weight.size();
    std::vector<double> y(x.size());
    for (std::size_t begin = 0; begin < x.size(); begin += width) {
      double mean = 0, square = 0;
      for (std::size_t j = 0; centers && j < width; ++j) mean += x[begin + j] / static_cast<double>(width);
      for (std::size_t j = 0; j < width; ++j) square += std::pow(x[begin + j] - mean, 2);
      const double scale = 1 / std::sqrt(square / static_cast<double>(width) + epsilon);
      for (std::size_t j = 0; j < width; ++j) {
        y[begin + j] = (x[begin + j] - mean) * scale * weight[j] + (bias.empty() ? 0 : bias[j]);
      }
    }
    return y;
  }
};

inline std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// The numbers of one use of a norm in double, and the gradients of the sum of y dy by central differences.
struct NormNumbers {
  ExactNorm exact;
  std::vector<double> x, weight, bias;
  std::vector<float> dy;

  std::vector<double> y() const { return exact(x, weight, bias); }
  /// Rows know nothing of each other.
  std::vector<double> slope_of_x() const {
    std::vector<double> slopes;
    for (std::size_t begin = 0; begin < x.size(); begin += weight.size()) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto row = numeric_gradient({first, first + static_cast<std::ptrdiff_t>(weight.size())},
                                        [&](const auto& v) { return loss(exact(v, weight, bias), begin); });
      slopes.insert(slopes.end(), row.begin(), row.end());
    }
    return slopes;
  }
  std::vector<double> slope_of_weight() const {
    return numeric_gradient(weight, [&](const auto& v) { return loss(exact(x, v, bias)); });
  }
  std::vector<double> slope_of_bias() const {
    return numeric_gradient(bias, [&](const auto& v) { return loss(exact(x, weight, v)); });
  }
  double loss(const std::vector<double>& result, std::size_t begin = 0) const {
    double sum = 0;
    for (std::size_t i = 0; i < result.size(); ++i) sum += static_cast<double>(dy[begin + i]) * result[i];
    return sum;
  }
};

/// One use of a norm, forward and backward.
template <class Policy, class Layer>
struct NormCase {
  using T = typename Policy::compute_type;

  NormCase(const Layer& layer, Shape shape, std::uint32_t seed = 21)
      : session(random_norm(layer)),
        x(shape, random_numbers(shape.size(), -2.0f, 3.0f, seed)),
        dy(rounded<T>(random_numbers(shape.size(), -1.0f, 1.0f, seed + 1))) {}

  NormNumbers in_double() {
    const auto& norm = session.model.norm;
    return {{centers<Layer>, static_cast<double>(norm.epsilon())},
            x.exact(),
            doubles(session.master("norm.weight")),
            has_bias(norm) ? doubles(session.master("norm.bias")) : std::vector<double>{},
            dy};
  }

  Session<Policy, OneNorm<Layer>> session;
  Watched<T> x;
  std::vector<float> dy;
};

/// Results, and gradients by central differences of the exact norm.
template <class Policy, class Layer>
void check_norm(const Layer& layer, const Shape& shape) {
  BOOST_TEST_CONTEXT("input " << shape.text() << " under " << Policy::name) {
    NormCase<Policy, Layer> test(layer, shape);
    auto& session = test.session;
    const auto y = session.model.norm(session.tape, watch(session.tape, test.x));
    using Y = typename decltype(y)::value_type;
    BOOST_TEST((y.shape() == shape));
    session.backward(weighted_sum(session.tape, y, test.dy));
    const NormNumbers exact = test.in_double();
    check_close(floats(y.value()), exact.y(), tolerance_of<Y>);
    const Tolerance sums = float_tolerance.over(shape.rows());
    check_close(test.x.gradient, exact.slope_of_x(), tolerance_of<typename Policy::compute_type>.over(2));
    check_close(session.gradient("norm.weight"), exact.slope_of_weight(), sums);
    if (!exact.bias.empty()) check_close(session.gradient("norm.bias"), exact.slope_of_bias(), sums);
  }
}

/// How sum and norm of a residual are used afterwards.
enum class Used { both, norm_only, sum_only };

/// Everything that a residual add with its norm computes: {sum, norm, gradients of x, branch and parameters},
/// by the fused operation or by its twin. With `alone` off x is also used by an operation that comes later.
template <class A, class B, class Policy, class Layer>
std::vector<std::vector<float>> residual(const Layer& layer, bool fused, Used used, bool alone, bool twice) {
  const Shape shape{2, 11, layer.width()};
  Session<Policy, OneNorm<Layer>> session(random_norm(layer));
  auto& tape = session.tape;
  Watched<A> x(shape, random_numbers(shape.size(), -2.0f, 2.0f, 31));
  Watched<B> branch(shape, random_numbers(shape.size(), -1.0f, 1.0f, 32));
  const auto a = watch(tape, x);
  const auto b = [&] {
    if constexpr (std::is_same_v<A, B>) {
      if (twice) return a;
    }
    return watch(tape, branch);
  }();
  const auto& norm = session.model.norm;
  const auto [sum, normed] = [&] {
    if (fused) return norm.add(tape, a, b);
    const auto plain = add(tape, a, b);
    const auto plain_norm = norm(tape, plain);
    return NormalizedSum<typename decltype(plain)::value_type, typename decltype(plain_norm)::value_type>{
        plain, plain_norm};
  }();
  const auto of_sum = random_numbers(shape.size(), -1.0f, 1.0f, 33),
             of_norm = random_numbers(shape.size(), -1.0f, 1.0f, 34);
  auto loss = used == Used::sum_only ? weighted_sum(tape, sum, of_sum) : weighted_sum(tape, normed, of_norm);
  if (used == Used::both) loss = total(tape, loss, weighted_sum(tape, sum, of_sum));
  if (!alone) loss = total(tape, loss, weighted_sum(tape, a, of_sum));
  session.backward(loss);
  std::vector<std::vector<float>> all{floats(sum.value()), floats(normed.value()), x.gradient,
                                      branch.gradient};
  if (used != Used::sum_only) all.push_back(session.gradient("norm.weight"));
  if (used != Used::sum_only && has_bias(norm)) all.push_back(session.gradient("norm.bias"));
  return all;
}

template <class A, class B, class Policy, class Layer>
void check_residual(const Layer& layer) {
  for (const Used used : {Used::both, Used::norm_only, Used::sum_only}) {
    for (const bool alone : {true, false}) {
      for (const bool twice : {false, true}) {
        BOOST_TEST_CONTEXT("used " << static_cast<int>(used) << ", alone " << alone << ", twice " << twice) {
          const auto fused = residual<A, B, Policy>(layer, true, used, alone, twice);
          const auto plain = residual<A, B, Policy>(layer, false, used, alone, twice);
          BOOST_TEST_REQUIRE(fused.size() == plain.size());
          BOOST_TEST(!fused[2].empty());
          for (std::size_t i = 0; i < plain.size(); ++i) BOOST_TEST((fused[i] == plain[i]), "part " << i);
        }
      }
    }
  }
}

/// The same bits with one thread and with two, plain and fused.
template <class Policy, class Layer>
void check_norm_threads(const Layer& layer) {
  const auto [one, two] = with_one_and_two_threads([&] {
    NormCase<Policy, Layer> test(layer, {517, layer.width()});
    auto& session = test.session;
    const auto x = watch(session.tape, test.x);
    const auto [sum, y] = session.model.norm.add(session.tape, x, session.model.norm(session.tape, x));
    session.backward(weighted_sum(session.tape, y, test.dy));
    return std::vector{floats(y.value()), test.x.gradient, session.gradient("norm.weight")};
  });
  BOOST_TEST((one == two));
}

/// A row of numbers whose squares do not fit float16, or not float.
template <class T, class Layer>
std::vector<float> norm_of_alternating(const Layer& layer, float magnitude) {
  Session<NormsInFloat16, OneNorm<Layer>> session(OneNorm<Layer>{layer});
  std::vector<float> values;
  for (std::int64_t j = 0; j < layer.width(); ++j) values.push_back(j % 2 == 0 ? magnitude : -magnitude);
  Watched<T> x({1, layer.width()}, values);
  return floats(session.model.norm(session.tape, watch(session.tape, x)).value());
}

template <class Layer>
void check_large_rows(const Layer& layer) {
  for (const float magnitude : {16.0f, 300.0f, 65504.0f}) {
    const auto y = norm_of_alternating<float16>(layer, magnitude);
    for (std::size_t j = 0; j < y.size(); ++j) BOOST_TEST(y[j] == (j % 2 == 0 ? 1.0f : -1.0f));
  }
  // Their squares do not fit float either: not a number rather than silence.
  for (const float value : norm_of_alternating<bfloat16>(layer, 1e20f)) BOOST_TEST(is_nan(value));
}

/// Two micro-batches of one window, then a new window; a frozen weight; inference.
template <class Layer>
void check_norm_windows(const Layer& layer) {
  const auto gradient_after = [&](int passes, bool forget) {
    NormCase<Float32Policy, Layer> test(layer, {5, layer.width()});
    for (int pass = 0; pass < passes; ++pass) {
      if (forget) test.session.parameters.clear_gradients();
      test.session.tape.begin(Pass::training);
      const auto y = test.session.model.norm(test.session.tape, watch(test.session.tape, test.x));
      test.session.backward(weighted_sum(test.session.tape, y, test.dy));
    }
    return test.session.gradient("norm.weight");
  };
  std::vector<float> doubled = gradient_after(1, false);
  for (float& value : doubled) value *= 2;
  BOOST_TEST(gradient_after(2, false) == doubled);
  BOOST_TEST(gradient_after(2, true) == gradient_after(1, false));

  NormCase<Float32Policy, Layer> test(layer, {5, layer.width()});
  auto& session = test.session;
  session.parameters.freeze(0);
  const auto y = session.model.norm(session.tape, watch(session.tape, test.x));
  session.backward(weighted_sum(session.tape, y, test.dy));
  BOOST_TEST(!session.has_gradient("norm.weight"));
  if (has_bias(layer)) BOOST_TEST(session.has_gradient("norm.bias"));
  BOOST_TEST(test.x.visits == 1);
}

}  // namespace halfstep::test
