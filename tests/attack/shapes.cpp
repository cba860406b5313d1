// Shapes that fast paths forget: one row, one column, primes, a vector's width and one beside it, very tall,
// very wide. The gradients of a two-layer classifier against those computed in double, element by element of
// every parameter.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <tuple>
#include <vector>

#include "support/classifier.hpp"
#include "support/given_gradients.hpp"
#include "support/refusal.hpp"
#include "support/sanitizers.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(shapes_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Doubles = std::vector<double>;
using Policies = std::tuple<Float32Policy, BFloat16Policy, ChosenScalerPolicy>;

struct Sizes {
  std::int64_t rows, features, width, classes;
};

std::size_t at(std::int64_t row, std::int64_t columns, std::int64_t column) {
  return static_cast<std::size_t>(row * columns + column);
}

/// hidden.weight, hidden.bias, output.weight and output.bias.
using Weights = std::array<std::vector<float>, 4>;

struct Exact {
  double loss = 0;
  Doubles gradients;  ///< hidden.weight, hidden.bias, output.weight, output.bias
};

/// The mean loss of a batch and its gradients by the definitions, one sample at a time.
Exact exact(const Weights& weights, const Points& points, const Sizes& size) {
  const auto& [w, b, v, c] = weights;
  Doubles dw(w.size()), db(b.size()), dv(v.size()), dc(c.size());
  Exact result;
  const double share = 1.0 / static_cast<double>(size.rows);
  for (std::int64_t row = 0; row < size.rows; ++row) {
    Doubles h(b.size()), slope(b.size()), logits(c.size());
    for (std::int64_t j = 0; j < size.width; ++j) {
      double x = b[at(0, 0, j)];
      for (std::int64_t k = 0; k < size.features; ++k) {
        x += double{w[at(j, size.features, k)]} * double{points.inputs[at(row, size.features, k)]};
      }
      const double normal = 0.5 * std::erfc(-x * std::sqrt(0.5));
      h[at(0, 0, j)] = x * normal;
      slope[at(0, 0, j)] = normal + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
    }
    double sum = 0;
    for (std::int64_t i = 0; i < size.classes; ++i) {
      double x = c[at(0, 0, i)];
      for (std::int64_t j = 0; j < size.width; ++j) x += double{v[at(i, size.width, j)]} * h[at(0, 0, j)];
      logits[at(0, 0, i)] = x;
      sum += std::exp(x);
    }
    const auto label = static_cast<std::size_t>(points.labels[static_cast<std::size_t>(row)]);
    result.loss += share * (std::log(sum) - logits[label]);
    Doubles dh(b.size());
    for (std::int64_t i = 0; i < size.classes; ++i) {
      const double d = share * (std::exp(logits[at(0, 0, i)]) / sum - (at(0, 0, i) == label ? 1 : 0));
      dc[at(0, 0, i)] += d;
      for (std::int64_t j = 0; j < size.width; ++j) {
        dv[at(i, size.width, j)] += d * h[at(0, 0, j)];
        dh[at(0, 0, j)] += d * double{v[at(i, size.width, j)]};
      }
    }
    for (std::int64_t j = 0; j < size.width; ++j) {
      const double d = dh[at(0, 0, j)] * slope[at(0, 0, j)];
      db[at(0, 0, j)] += d;
      for (std::int64_t k = 0; k < size.features; ++k) {
        dw[at(j, size.features, k)] += d * double{points.inputs[at(row, size.features, k)]};
      }
    }
  }
  for (const Doubles* part : {&dw, &db, &dv, &dc}) {
    result.gradients.insert(result.gradients.end(), part->begin(), part->end());
  }
  return result;
}

double norm(const Doubles& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// Inputs, weights, both layers' results, their gradients and the hidden layer's: each is rounded once, and
/// the errors of one shift all gradients of a sample alike.
constexpr double roundings = 7;
template <class Policy>
constexpr double unit_of = tolerance_of<typename Policy::compute_type>.relative;

struct Measured {
  Weights weights;
  Doubles gradients;
  double norm;
  StepReport report;
};

template <class Policy>
Measured measured(const Points& points, const Sizes& size) {
  Trainer<Classifier, AdamW, Policy> trainer{
      Classifier(size.features, size.width, size.classes), {}, {.seed = 5}};
  Measured result{{trainer.read_parameter("hidden.weight"), trainer.read_parameter("hidden.bias"),
                   trainer.read_parameter("output.weight"), trainer.read_parameter("output.bias")},
                  {},
                  0,
                  {}};
  trainer.accumulate(points);
  auto unscaled = trainer.close_window().unscale();
  unscaled.for_each([&](std::string_view, Tensor<float> gradient) {
    result.gradients.insert(result.gradients.end(), gradient.begin(), gradient.end());
  });
  result.norm = unscaled.norm();
  result.report = trainer.apply(std::move(unscaled)).report();
  return result;
}

/// `unit` is what a rounding of the compute type may change.
void check(Measured (*measure)(const Points&, const Sizes&), const Sizes& size, double unit) {
  const Points points(size.rows, size.features, size.classes, 3);
  // At the first scale, 65536, a single sample that is altogether wrong overflows, as it should.
  const ScalerChoice scaler({.initial_scale = 1024});
  const auto [weights, gradients, measured_norm, report] = measure(points, size);
  BOOST_REQUIRE(report.applied());

  const Exact expected = exact(weights, points, size);
  BOOST_REQUIRE(gradients.size() == expected.gradients.size());
  Doubles error = gradients;
  for (std::size_t i = 0; i < error.size(); ++i) error[i] -= expected.gradients[i];
  const double scale = norm(expected.gradients);
  const std::string where = std::to_string(size.rows) + " rows, " + std::to_string(size.features) + " to " +
                            std::to_string(size.width) + " to " + std::to_string(size.classes);
  BOOST_TEST(norm(error) <= unit * roundings * scale, where << ": " << norm(error) / scale);
  BOOST_TEST(std::abs(report.loss - expected.loss) <= unit * (1 + expected.loss), where);
  BOOST_TEST(std::abs(measured_norm - norm(gradients)) <= 1e-12 * scale, where);
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(gradients_of_every_shape_are_those_of_the_definition, Policy, Policies) {
  for (const std::int64_t rows : {1, 2, 7, 31, 33}) {
    for (const std::int64_t features : {1, 3, 17, 64}) {
      for (const std::int64_t width : {1, 5, 16, 37}) {
        check(measured<Policy>, {rows, features, width, rows % 3 + 1}, unit_of<Policy>);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(very_tall_and_very_wide_ones_too, Policy, Policies) {
  // More than one chunk of a pass, and under sanitizers not many more.
  const std::int64_t many = under_sanitizers ? 8221 : 20011;
  for (const Sizes& size : {Sizes{many, 1, 1, 2}, Sizes{1, many, 1, 2}, Sizes{1, 1, many, 2},
                            Sizes{1, 1, 1, many}, Sizes{8209, 3, 2, 5}, Sizes{3, 2, 8209, 5}}) {
    check(measured<Policy>, size, unit_of<Policy>);
  }
}

BOOST_AUTO_TEST_CASE(layers_and_batches_of_nothing_are_refused_by_name) {
  BOOST_CHECK_THROW(Classifier(0, 3, 2), ConfigurationError);
  BOOST_CHECK_THROW(Classifier(3, 0, 2), ConfigurationError);
  BOOST_CHECK_THROW(Classifier(3, 3, 0), ConfigurationError);
  Trainer<Classifier, AdamW, Float32Policy> trainer{Classifier(3, 4, 2)};
  const auto before = all_parameters(trainer);
  const Points nothing(0, 3, 2);
  const std::string message = refusal<ShapeError>([&] { trainer.step(nothing); });
  check_holds(message, {"[0, 2]"});
  BOOST_TEST(trainer.predict(nothing.images()).size() == 0);
  BOOST_TEST((trainer.state() == StepState{}));
  BOOST_TEST(all_parameters(trainer) == before);
  BOOST_TEST(trainer.step(Points(2, 3, 2)).report().applied());
}

BOOST_AUTO_TEST_SUITE_END()
