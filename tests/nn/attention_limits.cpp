#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/attention.hpp>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "support/attention_case.hpp"
#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(attention_limits_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Numbers = std::vector<double>;
using Case = AttentionCase;
template <class Policy>
using Run = AttentionRun<Policy>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(large_scores_do_not_overflow, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  // Scores of 10000, exact in every type: alone at the top, shared by two, and all at the bottom.
  Session<Policy> session;
  Watched<T> q({1, 3, 1}, {100.0f, 100.0f, -100.0f}), k({1, 3, 1}, {100.0f, 100.0f, 100.0f}),
      v({1, 3, 1}, {1.0f, 3.0f, 8.0f});
  const auto y = attention(session.tape, watch(session.tape, q), watch(session.tape, k),
                           watch(session.tape, v), {.heads = 1, .scale = 1.0f});
  session.backward(weighted_sum(session.tape, y, {1.0f, 1.0f, 3.0f}));
  check_close(floats(y.value()), Numbers{1, 2, 4}, tolerance_of<T>);
  check_close(v.gradient, Numbers{1 + 0.5 + 1, 0.5 + 1, 1}, tolerance_of<T>);
  // Keys are equal: no query's gradient but what the sum of dS leaves, 100 roundings of a number near 1.
  check_close(q.gradient, Numbers{0, 0, 0},
              Tolerance{100 * 4 * 3.0 * (std::is_same_v<T, float> ? 0x1p-24 : 0x1p-8), 0});
  Watched<T> far({1, 2, 1}, {100.0f, -100.0f});
  Session<Policy> other;
  Watched<T> queries({1, 1, 1}, {100.0f}), values({1, 2, 1}, {5.0f, 7.0f});
  const auto z = attention(other.tape, watch(other.tape, queries), watch(other.tape, far),
                           watch(other.tape, values), {.heads = 1, .causal = false, .scale = 1.0f});
  other.backward(weighted_sum(other.tape, z, {1.0f}));
  BOOST_TEST(floats(z.value()) == std::vector<float>{5.0f});
  BOOST_TEST(queries.gradient == std::vector<float>{0.0f});
  BOOST_TEST(far.gradient == (std::vector<float>{0.0f, 0.0f}));
  BOOST_TEST(values.gradient == (std::vector<float>{1.0f, 0.0f}));
}

BOOST_AUTO_TEST_CASE(what_lies_behind_a_sequence_is_not_read) {
  const Case c{2, 12, 12, 2, 1, 3, false, 0, {5, 12}};
  Run<BFloat16Policy> clean(c), dirty(c);
  for (std::int64_t i = 5 * 3; i < 12 * 3; ++i) {
    dirty.k.values[static_cast<std::size_t>(i)] = bfloat16(std::numeric_limits<float>::quiet_NaN());
    dirty.v.values[static_cast<std::size_t>(i)] = bfloat16(std::numeric_limits<float>::infinity());
  }
  clean(c);
  dirty(c);
  BOOST_TEST((clean.all() == dirty.all()));
  for (std::size_t i = 5 * 3; i < 12 * 3; ++i) {
    BOOST_TEST(dirty.k.gradient[i] == 0.0f);
    BOOST_TEST(dirty.v.gradient[i] == 0.0f);
  }
}

// A mask made by adding the largest negative number of a 16-bit type overflows to -inf, and a row of those is
// NaN.
BOOST_AUTO_TEST_CASE_TEMPLATE(masked_scores_of_minus_20_give_zeros_and_the_rest_its_probability, Policy,
                              Only16Bits) {
  using T = typename Policy::compute_type;
  const auto run = [](const std::vector<float>& scores, const std::vector<std::int64_t>& lengths,
                      const std::vector<float>& expected) {
    Session<Policy> session;
    Watched<T> q({1, 1, 2}, {scores[0], scores[1]}), k({1, 2, 2}, {1, 0, 0, 1}), v({1, 2, 2}, {1, 0, 0, 1});
    const auto y =
        attention(session.tape, watch(session.tape, q), watch(session.tape, k), watch(session.tape, v),
                  {.heads = 1, .causal = false, .scale = 1.0f, .lengths = lengths});
    session.backward(weighted_sum(session.tape, y, {3.0f, -2.0f}));
    // Values are unit vectors: the result is the probabilities.
    BOOST_TEST(floats(y.value()) == expected);
    BOOST_TEST(q.gradient == std::vector<float>(2, 0.0f));
    BOOST_TEST(k.gradient == std::vector<float>(4, 0.0f));
    BOOST_TEST(v.gradient ==
               (std::vector<float>{3 * expected[0], -2 * expected[0], 3 * expected[1], -2 * expected[1]}));
  };
  run({-20, -20}, {0}, {0, 0});
  run({4, -20}, {1}, {1, 0});
  run({-20, 4}, {1}, {1, 0});
}

BOOST_AUTO_TEST_CASE(bad_calls_are_refused_with_their_values) {
  Session<Float32Policy> session;
  auto& tape = session.tape;
  const std::vector<float> numbers(2 * 5 * 24, 0.0f);
  const auto tensor = [&](Shape shape) { return Tensor<const float>(numbers.data(), shape); };
  const auto configuration = [&](AttentionOptions options, std::initializer_list<std::string_view> parts) {
    for (const bool packed : {true, false}) {
      check_holds(refusal<ConfigurationError>([&] {
                    const auto x = tensor({2, 5, 12});
                    packed ? attention(tape, x, options) : attention(tape, x, x, x, options);
                  }),
                  parts);
    }
  };
  configuration({.heads = 0}, {"heads is 0"});
  configuration({.heads = -2}, {"heads is -2"});
  configuration({.heads = 4, .key_value_heads = 3}, {"heads is 4", "key_value_heads is 3", "multiple"});
  configuration({.heads = 4, .key_value_heads = -4}, {"key_value_heads is -4"});
  configuration({.heads = 4, .first_query_position = -1}, {"first_query_position is -1"});
  configuration({.heads = 4, .scale = -0.5f}, {"scale is -0.5"});
  configuration({.heads = 4, .scale = std::numeric_limits<float>::infinity()}, {"scale is infinity"});
  configuration({.heads = 4, .scale = std::numeric_limits<float>::quiet_NaN()}, {"scale is NaN"});

  const auto shape = [&](const std::vector<Shape>& shapes, AttentionOptions options,
                         std::initializer_list<std::string_view> parts) {
    check_holds(
        refusal<ShapeError>([&] {
          shapes.size() == 1
              ? attention(tape, tensor(shapes[0]), options)
              : attention(tape, tensor(shapes[0]), tensor(shapes[1]), tensor(shapes[2]), options);
        }),
        parts);
  };
  shape({{2, 5, 10}, {2, 5, 10}, {2, 5, 10}}, {.heads = 4}, {"[2, 5, 10]", "4 heads over 4"});
  shape({{2, 5, 12}, {2, 5, 12}, {2, 5, 12}}, {.heads = 4, .key_value_heads = 2}, {"4 heads over 2"});
  shape({{2, 5, 12}, {2, 5, 12}, {2, 5, 8}}, {.heads = 4}, {"values of shape [2, 5, 8]"});
  shape({{2, 5, 12}, {1, 5, 12}, {1, 5, 12}}, {.heads = 4},
        {"keys of shape [1, 5, 12]", "number of sequences"});
  shape({{2, 5, 12}, {2, 5, 12}, {2, 4, 12}}, {.heads = 4}, {"values of shape [2, 4, 12]", "positions"});
  shape({{5, 12}, {5, 12}, {5, 12}}, {.heads = 4}, {"[5, 12]", "three extents"});
  shape({{2, 0, 12}, {2, 5, 12}, {2, 5, 12}}, {.heads = 4}, {"empty", "[2, 0, 12]"});
  shape({{2, 5, 12}, {2, 0, 12}, {2, 0, 12}}, {.heads = 4}, {"empty", "[2, 0, 12]"});
  shape({{2, 5, 0}}, {.heads = 4}, {"empty", "[2, 5, 0]"});
  shape({{2, 5, 12}}, {.heads = 8}, {"[2, 5, 12]", "multiple of 24"});
  shape({{5, 24}}, {.heads = 8}, {"[5, 24]"});
  const std::vector<std::int64_t> one{5}, negative{5, -1}, beyond{6, 5};
  shape({{2, 5, 12}}, {.heads = 4, .lengths = one}, {"1 lengths for 2 sequences"});
  shape({{2, 5, 12}}, {.heads = 4, .lengths = negative}, {"length -1 of sequence 1", "[0, 5]"});
  shape({{2, 5, 12}}, {.heads = 4, .lengths = beyond}, {"length 6 of sequence 0", "[0, 5]"});
  BOOST_TEST(tape.arena().used() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
