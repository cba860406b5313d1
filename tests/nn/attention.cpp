#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/matmul_tiles.hpp>
#include <halfstep/nn/attention.hpp>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/attention_case.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(attention_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Numbers = std::vector<double>;
using Reference = AttentionReference;
using Case = AttentionCase;
template <class Policy>
using Run = AttentionRun<Policy>;

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

/// `terms` are what a float sum is made of; 16 bits are one rounding of it.
template <class T>
void check_near(const std::vector<float>& actual, const Numbers& expected, std::int64_t terms,
                const char* name) {
  const Tolerance tolerance = std::is_same_v<T, float> ? float_tolerance.over(terms) : tolerance_of<T>;
  BOOST_TEST_CONTEXT(name) { check_close(actual, expected, tolerance); }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_a_float64_reference, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  for (const Case& c : cases) {
    BOOST_TEST_CONTEXT(c.text()) {
      Run<Policy> run(c);
      run(c);
      const Reference expected(c, run.q.exact(), run.k.exact(), run.v.exact(), run.dy, run.y);
      // A score's error is that of a sum of `width` products, and goes into the exponent.
      check_near<T>(run.y, expected.y, c.width, "y");
      check_near<T>(run.q.gradient, expected.dq, c.width, "dq");
      const std::int64_t terms = c.queries * c.heads / c.shared;
      check_near<T>(run.k.gradient, expected.dk, terms, "dk");
      check_near<T>(run.v.gradient, expected.dv, terms, "dv");
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

BOOST_AUTO_TEST_CASE(one_packed_tensor_gives_the_bits_of_three) {
  const Case c{2, 37, 37, 4, 2, 6, true, 0, {37, 20}};
  Run<BFloat16Policy> separate(c);
  separate(c);
  const auto row_of = [](const std::vector<float>& values, std::int64_t row, std::int64_t width) {
    const auto begin = values.begin() + row * width;
    return std::vector<float>(begin, begin + width);
  };
  const auto pack = [&](const std::vector<float>& q, const std::vector<float>& k,
                        const std::vector<float>& v) {
    std::vector<float> packed;
    for (std::int64_t row = 0; row < c.batch * c.queries; ++row) {
      for (const auto& part : {row_of(q, row, c.heads * c.width), row_of(k, row, c.shared * c.width),
                               row_of(v, row, c.shared * c.width)}) {
        packed.insert(packed.end(), part.begin(), part.end());
      }
    }
    return packed;
  };
  const auto numbers = [](const Watched<bfloat16>& watched) {
    std::vector<float> result;
    for (const bfloat16 value : watched.values) result.push_back(static_cast<float>(value));
    return result;
  };
  Session<BFloat16Policy> session;
  Watched<bfloat16> qkv({c.batch, c.queries, (c.heads + 2 * c.shared) * c.width},
                 pack(numbers(separate.q), numbers(separate.k), numbers(separate.v)));
  const auto y = attention(session.tape, watch(session.tape, qkv), c.options());
  session.backward(weighted_sum(session.tape, y, separate.dy));
  BOOST_TEST(floats(y.value()) == separate.y);
  BOOST_TEST(qkv.gradient == pack(separate.q.gradient, separate.k.gradient, separate.v.gradient));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(queries_over_a_cache_of_keys_give_the_rows_of_the_whole, Policy,
                              FloatAnd16Bits) {
  using T = typename Policy::compute_type;
  const Case whole{1, 150, 150, 2, 1, 5};
  Run<Policy> all(whole);
  all(whole);
  for (const std::int64_t first : {0, 1, 63, 95, 96, 100, 149}) {
    const std::int64_t count = first == 149 ? 1 : (std::min)(std::int64_t{9}, 150 - first), columns = 10;
    const std::vector<T> queries(all.q.values.begin() + first * columns,
                                 all.q.values.begin() + (first + count) * columns);
    const std::vector<float> expected(all.y.begin() + first * columns,
                                      all.y.begin() + (first + count) * columns);
    // The cache has room for more keys than there are.
    std::vector<T> keys(all.k.values), values(all.v.values);
    keys.resize(160 * 5, T(std::numeric_limits<float>::quiet_NaN()));
    values.resize(160 * 5, T(std::numeric_limits<float>::quiet_NaN()));
    const std::vector<std::int64_t> lengths{first + count};
    Session<Policy> session;
    session.tape.begin(Pass::inference);
    const auto y =
        attention(session.tape, Tensor<const T>(queries.data(), {1, count, columns}),
                  Tensor<const T>(keys.data(), {1, 160, 5}), Tensor<const T>(values.data(), {1, 160, 5}),
                  {.heads = 2, .key_value_heads = 1, .first_query_position = first, .lengths = lengths});
    BOOST_TEST(floats(y.value()) == expected, "from " << first);
    BOOST_TEST(!y.requires_gradient());
  }
}

BOOST_AUTO_TEST_CASE(one_tensor_may_be_queries_keys_and_values) {
  // Heads that are tasks, and one whose queries are divided among tasks.
  for (const Case& c : {Case{2, 19, 19, 3, 3, 4}, Case{1, 150, 150, 1, 1, 4}}) {
    Session<Float32Policy> session;
    Watched<float> x(c.query_shape(), random_numbers(c.query_shape().size(), -1.0f, 1.0f, 1));
    const auto dy = random_numbers(x.shape.size(), -1.0f, 1.0f, 4);
    const auto in = watch(session.tape, x);
    session.backward(weighted_sum(session.tape, attention(session.tape, in, in, in, c.options()), dy));
    const Reference parts(c, x.exact(), x.exact(), x.exact(), dy);
    Numbers expected(parts.dq);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += parts.dk[i] + parts.dv[i];
    check_close(x.gradient, expected, float_tolerance.over(c.queries));
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_is_added_where_another_operation_has_left_one) {
  const Case c{1, 70, 70, 2, 1, 3};
  Run<Float32Policy> once(c);
  once(c);
  Run<Float32Policy> twice(c);
  auto& tape = twice.session.tape;
  const auto q = watch(tape, twice.q), k = watch(tape, twice.k), v = watch(tape, twice.v);
  const auto use = [&] { return weighted_sum(tape, attention(tape, q, k, v, c.options()), twice.dy); };
  const auto one = use();
  twice.session.backward(total(tape, one, use()));
  const auto doubled = [](std::vector<float> values) {
    for (float& value : values) value *= 2;
    return values;
  };
  BOOST_TEST(twice.q.gradient == doubled(once.q.gradient));
  BOOST_TEST(twice.k.gradient == doubled(once.k.gradient));
  BOOST_TEST(twice.v.gradient == doubled(once.v.gradient));
}

BOOST_AUTO_TEST_CASE(keys_that_want_no_gradient_get_none) {
  const Case c{2, 9, 9, 2, 2, 3};
  Run<Float32Policy> all(c);
  all(c);
  for (const bool of_queries : {true, false}) {
    Run<Float32Policy> part(c);
    auto& tape = part.session.tape;
    const Tensor<const float> q(part.q.values.data(), c.query_shape()),
        k(part.k.values.data(), c.key_shape());
    const auto v = watch(tape, part.v);
    const auto y = of_queries ? attention(tape, watch(tape, part.q), k, v, c.options())
                              : attention(tape, q, watch(tape, part.k), v, c.options());
    part.session.backward(weighted_sum(tape, y, part.dy));
    BOOST_TEST(part.q.gradient == (of_queries ? all.q.gradient : std::vector<float>()));
    BOOST_TEST(part.k.gradient == (of_queries ? std::vector<float>() : all.k.gradient));
    BOOST_TEST(part.v.gradient == all.v.gradient);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  // One head, whose queries are divided among tasks, and many, which are tasks themselves.
  for (const Case& c : {Case{1, 600, 300, 1, 1, 8, true, 0}, Case{2, 70, 70, 8, 4, 5, true, 0, {60, 70}}}) {
    const auto [one, two] = with_one_and_two_threads([&] {
      Run<Policy> run(c);
      run(c);
      return run.all();
    });
    BOOST_TEST((one == two), c.text());
  }
}

BOOST_AUTO_TEST_CASE(memory_grows_with_the_number_of_positions_and_not_with_its_square) {
  struct Bytes {
    std::int64_t tape, scratch;
  };
  const auto bytes = [](std::int64_t positions) {
    const Case c{1, positions, positions, 4, 4, 4};
    Run<Float32Policy> run(c);
    run(c);
    return Bytes{
        static_cast<std::int64_t>(run.session.tape.arena().used()),
        static_cast<std::int64_t>(run.session.host.service<compute::detail::MatmulScratch>().bytes())};
  };
  const Bytes small = bytes(120), middle = bytes(240), large = bytes(360);
  BOOST_TEST(middle.tape - small.tape == large.tape - middle.tape);
  BOOST_TEST(middle.scratch - small.scratch == large.scratch - middle.scratch);
  // Of four heads of width 4: inputs, the result and weights in the loss, with gradients 9 * 16 bytes a position,
  // 8 for what is known of a row; and sums of two tasks over queries, 16 columns for keys and for values.
  BOOST_TEST(large.tape <= 360 * 4 * (9 * 16 + 8 + 2 * 2 * 16 * 4) + 4 * 1024);
}

BOOST_AUTO_TEST_SUITE_END()
