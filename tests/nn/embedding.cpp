#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/compute_in.hpp>
#include <halfstep/nn/embedding.hpp>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(embedding_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

template <class Layer = Embedding>
struct OneTable {
  Layer table{5, 3};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("table", table);
  }
};

struct EmbeddingsInBFloat16 : BFloat16Policy {
  using in_compute_type = operation::List<operation::Embedding>;
};
/// Rows are float under every policy of the library's own.
using FloatAndBFloat16Rows = std::tuple<Float32Policy, EmbeddingsInBFloat16>;

const std::vector<std::int32_t> few{4, 0, 4, 2};

/// Many tokens of few kinds, some of them never.
std::vector<std::uint8_t> many_tokens(std::int64_t count, std::uint8_t kinds) {
  std::vector<std::uint8_t> tokens;
  for (const float number : random_numbers(count, 0.0f, static_cast<float>(kinds), 9)) {
    tokens.push_back(static_cast<std::uint8_t>(number) / 3 * 3);
  }
  return tokens;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_looked_up_and_get_the_sum_of_their_gradients) {
  // Wider than a task's columns and no multiple of them; more tokens than a task looks up.
  constexpr std::int64_t count = 700, width = 150;
  const auto tokens = many_tokens(count, 20);
  Session<Float16ScaledPolicy, OneTable<>> session(OneTable<>{Embedding{20, width}});
  const auto y = session.model.table(session.tape, Tensor<const std::uint8_t>(tokens.data(), {7, 100}));
  static_assert(std::is_same_v<decltype(y), const Variable<float>>);
  BOOST_TEST((y.shape() == Shape{7, 100, width}));
  const auto dy = random_numbers(count * width, -1.0f, 1.0f, 8);
  session.backward(weighted_sum(session.tape, y, dy));
  const auto table = session.master("table.weight");
  std::vector<double> expected(table.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t element = tokens[i / width] * static_cast<std::size_t>(width) + i % width;
    BOOST_TEST_REQUIRE(y.value()[static_cast<std::int64_t>(i)] == table[element]);
    expected[element] += static_cast<double>(dy[i]);
  }
  check_close(session.gradient("table.weight"), expected, float_tolerance.over(count / 7));
  for (std::size_t j = 0; j < width; ++j)
    BOOST_TEST_REQUIRE(session.gradient("table.weight")[width + j] == 0.0f);
}

BOOST_AUTO_TEST_CASE(the_first_gradient_of_a_window_overwrites_and_later_ones_add) {
  Session<Float32Policy, OneTable<>> session;
  const Tensor<const std::int32_t> tokens(few.data(), {4});
  const std::vector<float> dy{1, 2, 3, 10, 20, 30, 4, 5, 6, 7, 8, 9};
  const std::vector<float> once{10, 20, 30, 0, 0, 0, 7, 8, 9, 0, 0, 0, 5, 7, 9};
  const auto pass = [&] {
    session.tape.begin(Pass::training);
    session.backward(weighted_sum(session.tape, session.model.table(session.tape, tokens), dy));
    return session.gradient("table.weight");
  };
  BOOST_TEST(pass() == once);
  std::vector<float> twice = once;
  for (float& value : twice) value *= 2;
  BOOST_TEST(pass() == twice);
  session.parameters.clear_gradients();
  BOOST_TEST(pass() == once);
}

BOOST_AUTO_TEST_CASE(positions_are_rows_and_only_they_get_a_gradient) {
  Session<Float32Policy, OneTable<>> session;
  const auto y = session.model.table.rows(session.tape, 1, 2);
  BOOST_TEST((y.shape() == Shape{2, 3}));
  const auto table = session.master("table.weight");
  BOOST_TEST(floats(y.value()) == std::vector<float>(table.begin() + 3, table.begin() + 9));
  const std::vector<float> dy{1, 2, 3, 4, 5, 6}, once{0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0};
  // What the buffer held means nothing.
  for (float& value : session.parameters.gradient(0)) value = 77.0f;
  session.backward(weighted_sum(session.tape, y, dy));
  BOOST_TEST(session.gradient("table.weight") == once);
  session.tape.begin(Pass::training);
  session.backward(weighted_sum(session.tape, session.model.table.rows(session.tape, 2, 2), dy));
  BOOST_TEST(session.gradient("table.weight") ==
             (std::vector<float>{0, 0, 0, 1, 2, 3, 5, 7, 9, 4, 5, 6, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_tied_head_adds_to_the_gradient_of_the_same_table, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  Session<Policy, OneTable<>> session;
  auto& tape = session.tape;
  Watched<T> hidden({2, 2, 3}, random_numbers(12, -1.0f, 1.0f, 10));
  const auto looked_up = session.model.table(tape, Tensor<const std::int32_t>(few.data(), {2, 2}));
  const auto logits = session.model.table.project(tape, watch(tape, hidden));
  static_assert(std::is_same_v<decltype(logits), const Variable<T>>);
  BOOST_TEST((logits.shape() == Shape{2, 2, 5}));
  const auto of_rows = random_numbers(12, -1.0f, 1.0f, 11);
  const auto of_logits = rounded<T>(random_numbers(20, -1.0f, 1.0f, 12));
  session.backward(
      total(tape, weighted_sum(tape, looked_up, of_rows), weighted_sum(tape, logits, of_logits)));

  const auto table = session.working("table.weight"), x = hidden.exact();
  const auto head = [&](const std::vector<double>& in, const std::vector<double>& weight) {
    std::vector<double> out(20);
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t j = 0; j < 3; ++j) out[i] += in[i / 5 * 3 + j] * weight[i % 5 * 3 + j];
    }
    return out;
  };
  const auto loss = [&](const std::vector<double>& in, const std::vector<double>& weight) {
    double sum = 0;
    const auto out = head(in, weight);
    for (std::size_t i = 0; i < 20; ++i) sum += static_cast<double>(of_logits[i]) * out[i];
    for (std::size_t i = 0; i < 12; ++i) {
      sum += static_cast<double>(of_rows[i]) * weight[static_cast<std::size_t>(few[i / 3]) * 3 + i % 3];
    }
    return sum;
  };
  check_close(floats(logits.value()), head(x, table), tolerance_of<T>.over(3));
  check_close(hidden.gradient, numeric_gradient(x, [&](const auto& v) { return loss(v, table); }),
              tolerance_of<T>.over(5));
  check_close(session.gradient("table.weight"),
              numeric_gradient(table, [&](const auto& v) { return loss(x, v); }), float_tolerance.over(6));
}

BOOST_AUTO_TEST_CASE(a_policy_or_a_layer_looks_up_in_another_type) {
  const Tensor<const std::int32_t> tokens(few.data(), {4});
  Session<EmbeddingsInBFloat16, OneTable<>> session;
  const auto y = session.model.table(session.tape, tokens);
  static_assert(std::is_same_v<decltype(y), const Variable<bfloat16>>);
  static_assert(std::is_same_v<decltype(session.model.table.rows(session.tape, 0, 1)), Variable<bfloat16>>);
  const auto table = session.working("table.weight");
  BOOST_TEST(static_cast<double>(static_cast<float>(y.value()[0])) == table[12]);
  session.backward(weighted_sum(session.tape, y, std::vector<float>(12, 0.5f)));
  BOOST_TEST(session.gradient("table.weight")[12] == 1.0f);
  using InFloat16 = ComputeIn<float16, Embedding>;
  static_assert(
      std::is_same_v<decltype(std::declval<const InFloat16&>()(session.tape, tokens)), Variable<float16>>);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, FloatAndBFloat16Rows) {
  const auto tokens = many_tokens(900, 30);
  const auto [one, two] = with_one_and_two_threads([&] {
    Session<Policy, OneTable<>> session(OneTable<>{Embedding{30, 133}});
    const Tensor<const std::uint8_t> ids(tokens.data(), {9, 100});
    const auto y = add(session.tape, session.model.table(session.tape, ids),
                       session.model.table.rows(session.tape, 0, 1).value().reshaped({133}));
    session.backward(weighted_sum(session.tape, y, random_numbers(y.size(), -1.0f, 1.0f)));
    return std::pair(floats(y.value()), session.gradient("table.weight"));
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(frozen_tables_inference_and_no_tokens) {
  OneTable<> model;
  model.table.weight.frozen = true;
  Session<Float32Policy, OneTable<>> frozen(model);
  const Tensor<const std::int32_t> tokens(few.data(), {4}), none(few.data(), {0, 2});
  BOOST_TEST(!frozen.model.table(frozen.tape, tokens).requires_gradient());
  BOOST_TEST(!frozen.model.table.rows(frozen.tape, 0, 2).requires_gradient());
  Session<Float32Policy, OneTable<>> session;
  const auto y = session.model.table(session.tape, none);
  BOOST_TEST((y.shape() == Shape{0, 2, 3}));
  session.backward(weighted_sum(session.tape, y, {}));
  BOOST_TEST(session.gradient("table.weight") == std::vector<float>(15, 0.0f));
  session.tape.begin(Pass::inference);
  BOOST_TEST(!session.model.table(session.tape, tokens).requires_gradient());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_with_names_and_numbers) {
  Session<Float32Policy, OneTable<>> session;
  auto& tape = session.tape;
  const auto& table = session.model.table;
  for (const std::int64_t token : {std::int64_t{5}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    const std::vector<std::int64_t> tokens{0, 4, token};
    const auto text = refusal<ShapeError>([&] {
      table(tape, Tensor<const std::int64_t>(tokens.data(), {3, 1}));
    });
    check_holds(text,
                {"token " + std::to_string(token), "Embedding{5, 3}", "position 2", "[3, 1]", "[0, 5)"});
  }
  const std::vector<std::uint64_t> huge{~std::uint64_t{0}};
  check_holds(refusal<ShapeError>([&] { table(tape, Tensor<const std::uint64_t>(huge.data(), {1})); }),
              {"token 18446744073709551615"});
  const Tensor<const std::int32_t> deep(few.data(), {1, 1, 1, 1, 1, 4});
  check_holds(refusal<ShapeError>([&] { table(tape, deep); }), {"[1, 1, 1, 1, 1, 4]"});

  const std::vector<float> values(8, 1.0f);
  const auto width = refusal<ShapeError>([&] {
    table.project(tape, Tensor<const float>(values.data(), {2, 4}));
  });
  check_holds(width, {"Embedding{5, 3}::project", "[2, 4]"});
  const auto missing = refusal<ShapeError>([&] { table.rows(tape, 3, 3); });
  check_holds(missing, {"rows 3 to 3 + 3", "its 5"});
  refusal<ShapeError>([&] { table.rows(tape, -1, 2); });
  refusal<ShapeError>([&] { table.rows(tape, 1, -1); });
  refusal<ShapeError>([&] { table.rows(tape, 1, (std::numeric_limits<std::int64_t>::max)()); });
  check_holds(refusal<ConfigurationError>([] { Embedding(0, 3); }), {"Embedding{0, 3}"});
  check_holds(refusal<ConfigurationError>([] { Embedding(3, -2); }), {"Embedding{3, -2}"});
  BOOST_TEST(!session.has_gradient("table.weight"));
}

BOOST_AUTO_TEST_SUITE_END()
