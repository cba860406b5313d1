#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/compute/matmul_tiles.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/attention.hpp>
#include <limits>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(attention_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Policies = boost::mpl::list<Float32Policy, BFloat16Policy, Float16ScaledPolicy>;
using Numbers = std::vector<double>;

struct Case {
  std::int64_t batch, queries, keys, heads, shared, width;
  bool causal = true;
  std::int64_t first = 0;
  std::vector<std::int64_t> lengths = {};
  float scale = 0.0f;

  Shape query_shape() const { return {batch, queries, heads * width}; }
  Shape key_shape() const { return {batch, keys, shared * width}; }
  AttentionOptions options() const {
    return {.heads = heads,
            .key_value_heads = shared,
            .causal = causal,
            .scale = scale,
            .first_query_position = first,
            .lengths = lengths};
  }
  std::string text() const {
    return std::to_string(batch) + " x " + std::to_string(queries) + " queries, " + std::to_string(keys) +
           " keys, heads " + std::to_string(heads) + "/" + std::to_string(shared) + " of " +
           std::to_string(width);
  }
};

/// Attention as the formula has it, with every score at hand, in double.
struct Reference {
  Numbers y, dq, dk, dv;

  /// `rounded_y` stands in rowsum(dO O), where there is any: what is kept is rounded to the type of the
  /// operands.
  Reference(const Case& c, const Numbers& q, const Numbers& k, const Numbers& v, const std::vector<float>& dy,
            const std::vector<float>& rounded_y = {})
      : y(q.size()), dq(q.size()), dk(k.size()), dv(v.size()) {
    const double scale =
        c.scale > 0 ? static_cast<double>(c.scale) : 1 / std::sqrt(static_cast<double>(c.width));
    Numbers p(static_cast<std::size_t>(c.keys));
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t i = 0; i < c.queries; ++i) {
          const std::size_t row = at((b * c.queries + i) * c.heads + h, c.width);
          const std::int64_t length = c.lengths.empty() ? c.keys : c.lengths[static_cast<std::size_t>(b)];
          const std::int64_t seen = c.causal ? (std::min)(length, c.first + i + 1) : length;
          double largest = -std::numeric_limits<double>::infinity(), sum = 0, delta = 0;
          const auto key = [&](std::int64_t j) {
            return at((b * c.keys + j) * c.shared + h / (c.heads / c.shared), c.width);
          };
          const auto dot = [&](const auto& left, std::size_t l, const Numbers& right, std::size_t r) {
            double total = 0;
            for (std::size_t d = 0; d < static_cast<std::size_t>(c.width); ++d)
              total += static_cast<double>(left[l + d]) * right[r + d];
            return total;
          };
          for (std::int64_t j = 0; j < seen; ++j) {
            p[static_cast<std::size_t>(j)] = scale * dot(q, row, k, key(j));
            largest = (std::max)(largest, p[static_cast<std::size_t>(j)]);
          }
          for (std::int64_t j = 0; j < seen; ++j) sum += std::exp(p[static_cast<std::size_t>(j)] - largest);
          for (std::int64_t j = 0; j < seen; ++j) {
            double& probability = p[static_cast<std::size_t>(j)];
            probability = std::exp(probability - largest) / sum;
            for (std::size_t d = 0; d < static_cast<std::size_t>(c.width); ++d)
              y[row + d] += probability * v[key(j) + d];
          }
          if (dy.empty()) continue;
          for (std::size_t d = 0; d < static_cast<std::size_t>(c.width); ++d) {
            delta += static_cast<double>(dy[row + d]) *
                     (rounded_y.empty() ? y[row + d] : static_cast<double>(rounded_y[row + d]));
          }
          for (std::int64_t j = 0; j < seen; ++j) {
            const double probability = p[static_cast<std::size_t>(j)];
            const double ds = scale * probability * (dot(dy, row, v, key(j)) - delta);
            for (std::size_t d = 0; d < static_cast<std::size_t>(c.width); ++d) {
              dq[row + d] += ds * k[key(j) + d];
              dk[key(j) + d] += ds * q[row + d];
              dv[key(j) + d] += probability * static_cast<double>(dy[row + d]);
            }
          }
        }
      }
    }
  }

 private:
  static std::size_t at(std::int64_t row, std::int64_t width) {
    return static_cast<std::size_t>(row * width);
  }
};

template <class Policy>
struct Run {
  using T = typename Policy::compute_type;

  explicit Run(const Case& c, float range = 2.0f)
      : q(c.query_shape(), random_numbers(c.query_shape().size(), -range, range, 1)),
        k(c.key_shape(), random_numbers(c.key_shape().size(), -range, range, 2)),
        v(c.key_shape(), random_numbers(c.key_shape().size(), -range, range, 3)),
        dy(rounded<T>(random_numbers(c.query_shape().size(), -1.0f, 1.0f, 4))) {}

  void operator()(const Case& c) {
    const auto result = attention(session.tape, watch(session.tape, q), watch(session.tape, k),
                                  watch(session.tape, v), c.options());
    static_assert(std::is_same_v<typename decltype(result)::value_type, T>);
    BOOST_TEST((result.shape() == c.query_shape()));
    y = floats(result.value());
    session.backward(weighted_sum(session.tape, result, dy));
  }
  std::vector<std::vector<float>> all() const { return {y, q.gradient, k.gradient, v.gradient}; }

  Session<Policy> session;
  Watched<T> q, k, v;
  std::vector<float> dy, y;
};

const std::vector<Case> cases{
    {1, 1, 1, 1, 1, 1},
    {2, 7, 7, 3, 3, 5},
    {2, 17, 33, 4, 2, 8, false},
    // One short of a tile of keys, a tile, one more; blocks and panels of queries likewise.
    {1, 95, 95, 1, 1, 3},
    {1, 96, 96, 1, 1, 16},
    {1, 97, 97, 1, 1, 17},
    {1, 65, 193, 2, 1, 6, true, 128},
    {1, 64, 64, 9, 3, 4},
    // Positions beyond the keys; a query before most keys.
    {2, 16, 20, 2, 2, 33, true, 11},
    {2, 5, 200, 1, 1, 2, true, 3},
    // Padding, with sequences of no key at all.
    {3, 20, 20, 2, 1, 7, false, 0, {0, 7, 20}},
    {2, 131, 131, 3, 1, 12, true, 0, {131, 41}, 0.7f},
};

template <class T>
void check_near(const std::vector<float>& actual, const Numbers& expected, Tolerance tolerance,
                const char* name) {
  BOOST_TEST_CONTEXT(name) { check_close(actual, expected, tolerance); }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_a_float64_reference, Policy, Policies) {
  using T = typename Policy::compute_type;
  for (const Case& c : cases) {
    BOOST_TEST_CONTEXT(c.text()) {
      Run<Policy> run(c);
      run(c);
      const Reference expected(c, run.q.exact(), run.k.exact(), run.v.exact(), run.dy, run.y);
      // A score's error is that of a sum of `width` products, and goes into the exponent.
      check_near<T>(run.y, expected.y, tolerance_of<T>.over(c.width), "y");
      check_near<T>(run.q.gradient, expected.dq, tolerance_of<T>.over(c.width), "dq");
      const std::int64_t terms = c.queries * c.heads / c.shared;
      check_near<T>(run.k.gradient, expected.dk, tolerance_of<T>.over(terms), "dk");
      check_near<T>(run.v.gradient, expected.dv, tolerance_of<T>.over(terms), "dv");
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_match_central_differences) {
  const Case c{2, 3, 4, 2, 1, 3, true, 1, {4, 2}};
  Run<Float32Policy> run(c);
  run(c);
  const Numbers q = run.q.exact(), k = run.k.exact(), v = run.v.exact();
  const auto loss = [&](const Numbers& a, const Numbers& b, const Numbers& d) {
    const Reference result(c, a, b, d, {});
    double sum = 0;
    for (std::size_t i = 0; i < result.y.size(); ++i) sum += static_cast<double>(run.dy[i]) * result.y[i];
    return sum;
  };
  check_close(run.q.gradient, numeric_gradient(q, [&](const auto& x) { return loss(x, k, v); }),
              float_tolerance);
  check_close(run.k.gradient, numeric_gradient(k, [&](const auto& x) { return loss(q, x, v); }),
              float_tolerance);
  check_close(run.v.gradient, numeric_gradient(v, [&](const auto& x) { return loss(q, k, x); }),
              float_tolerance);
}

BOOST_AUTO_TEST_SUITE_END()
