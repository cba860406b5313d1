#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/nn/attention.hpp>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/tape.hpp"

namespace halfstep::test {

/// One call of attention.
struct AttentionCase {
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
struct AttentionReference {
  std::vector<double> y, dq, dk, dv;

  /// `rounded_y` stands in rowsum(dO O), where there is any: what is kept is rounded to the type of the
  /// operands.
  AttentionReference(const AttentionCase& c, const std::vector<double>& q, const std::vector<double>& k,
                     const std::vector<double>& v, const std::vector<float>& dy,
                     const std::vector<float>& rounded_y = {})
      : y(q.size()), dq(q.size()), dk(k.size()), dv(v.size()) {
    const double scale =
        c.scale > 0 ? static_cast<double>(c.scale) : 1 / std::sqrt(static_cast<double>(c.width));
    std::vector<double> p(static_cast<std::size_t>(c.keys));
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
          const auto dot = [&](const auto& left, std::size_t l, const std::vector<double>& right,
                               std::size_t r) {
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

/// The call, forward and backward, over numbers that are the same in every run.
template <class Policy>
struct AttentionRun {
  using T = typename Policy::compute_type;

  explicit AttentionRun(const AttentionCase& c, float range = 2.0f)
      : q(c.query_shape(), random_numbers(c.query_shape().size(), -range, range, 1)),
        k(c.key_shape(), random_numbers(c.key_shape().size(), -range, range, 2)),
        v(c.key_shape(), random_numbers(c.key_shape().size(), -range, range, 3)),
        dy(rounded<T>(random_numbers(c.query_shape().size(), -1.0f, 1.0f, 4))) {}

  void operator()(const AttentionCase& c) {
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

}  // namespace halfstep::test
