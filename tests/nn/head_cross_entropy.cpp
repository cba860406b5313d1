#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/cross_entropy.hpp>
#include <halfstep/nn/head_cross_entropy.hpp>
#include <halfstep/nn/linear.hpp>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(head_cross_entropy_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct Head {
  Linear layer;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

Head head(std::int64_t width, std::int64_t classes) { return {Linear(width, classes, {.bias = false})}; }

template <class L>
Tensor<const L> view(const std::vector<L>& labels) {
  return {labels.data(), {static_cast<std::int64_t>(labels.size())}};
}

std::vector<std::int64_t> some_labels(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> labels;
  for (std::int64_t r = 0; r < rows; ++r) labels.push_back(r % 4 == 1 ? -100 : (r * 7 + 3) % classes);
  return labels;
}

struct Results {
  float loss;
  std::int64_t count;
  std::vector<float> hidden_gradient, weight_gradient;

  bool operator==(const Results&) const = default;
};

/// rows_at_once < 0: the two operations one after the other.
template <class Policy>
Results results(Shape shape, std::int64_t classes, std::int64_t rows_at_once, float smoothing) {
  Session<Policy, Head> session(head(shape.columns(), classes));
  Watched<typename Policy::compute_type> x(shape, random_numbers(shape.size(), -3.0f, 3.0f, 5));
  const auto labels = some_labels(shape.rows(), classes);
  const auto hidden = watch(session.tape, x);
  const Linear& layer = session.model.layer;
  const Loss loss = rows_at_once < 0
                        ? cross_entropy(session.tape, layer(session.tape, hidden), view(labels),
                                        {.label_smoothing = smoothing})
                        : head_cross_entropy(session.tape, hidden, layer.weight, view(labels),
                                             {.label_smoothing = smoothing, .rows_at_once = rows_at_once});
  session.backward(loss.sum, 0.5f);
  return {*loss.sum.data(), loss.count, x.gradient, session.gradient("layer.weight")};
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(loss_and_gradients_are_those_of_a_linear_head_and_cross_entropy, Policy,
                              AllPolicies) {
  for (const auto& [shape, classes] :
       {std::pair<Shape, std::int64_t>{{2, 6, 9}, 23}, {{1, 5}, 1}, {{12, 33}, 70}}) {
    for (const float smoothing : {0.0f, 0.1f}) {
      const Results plain = results<Policy>(shape, classes, -1, smoothing);
      // Chunks that the rows fill, overfill by one, leave short of one; one row; more rows than there are.
      for (const std::int64_t rows_at_once : {0, 4, 11, 12, 13, 1, 100}) {
        BOOST_TEST_CONTEXT(shape.text()
                           << ", " << classes << " classes, " << rows_at_once << " rows at once") {
          const Results fused = results<Policy>(shape, classes, rows_at_once, smoothing);
          BOOST_TEST(fused.loss == plain.loss);
          BOOST_TEST(fused.count == plain.count);
          BOOST_TEST(fused.hidden_gradient == plain.hidden_gradient);
          if (rows_at_once == 0 || rows_at_once >= shape.rows()) {
            BOOST_TEST(fused.weight_gradient == plain.weight_gradient);
          } else {
            check_close(fused.weight_gradient, plain.weight_gradient, float_tolerance.over(shape.rows()));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_match_central_differences) {
  constexpr std::size_t rows = 5, width = 3, classes = 4;
  Session<Float32Policy, Head> session(head(width, classes));
  Watched<float> x({rows, width}, random_numbers(rows * width, -2.0f, 2.0f));
  const std::vector<std::int64_t> labels{3, -7, 0, 2, 2};
  const Loss loss =
      head_cross_entropy(session.tape, watch(session.tape, x), session.model.layer.weight, view(labels),
                         {.ignore_index = -7, .label_smoothing = 0.2f, .rows_at_once = 2});
  session.backward(loss.sum);
  const auto exact_loss = [&](const std::vector<double>& hidden, const std::vector<double>& weight) {
    double total = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      if (labels[r] < 0) continue;
      double logits[classes] = {}, sum = 0;
      for (std::size_t k = 0; k < classes; ++k) {
        for (std::size_t i = 0; i < width; ++i) logits[k] += hidden[r * width + i] * weight[k * width + i];
        sum += std::exp(logits[k]);
      }
      for (std::size_t k = 0; k < classes; ++k) {
        const double hit = static_cast<std::size_t>(labels[r]) == k ? 1 - static_cast<double>(0.2f) : 0.0;
        total += (hit + static_cast<double>(0.2f) / classes) * (std::log(sum) - logits[k]);
      }
    }
    return total;
  };
  const auto hidden = x.exact(), weight = session.working("layer.weight");
  check_close(floats(loss.sum.value()), std::vector<double>{exact_loss(hidden, weight)}, float_tolerance);
  check_close(x.gradient, numeric_gradient(hidden, [&](const auto& v) { return exact_loss(v, weight); }),
              float_tolerance.over(classes));
  check_close(session.gradient("layer.weight"),
              numeric_gradient(weight, [&](const auto& v) { return exact_loss(hidden, v); }),
              float_tolerance.over(rows));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(hidden_values_and_a_weight_that_two_losses_read_get_both_gradients, Policy,
                              FloatAnd16Bits) {
  using T = typename Policy::compute_type;
  const auto run = [](int uses) {
    Session<Policy, Head> session(head(7, 11));
    Watched<T> x({9, 7}, random_numbers(63, -1.0f, 1.0f));
    const auto labels = some_labels(9, 11);
    const auto hidden = watch(session.tape, x);
    const auto use = [&] {
      return head_cross_entropy(session.tape, hidden, session.model.layer.weight, view(labels),
                                {.rows_at_once = 4})
          .sum;
    };
    const auto one = use();
    session.backward(uses == 1 ? one : total(session.tape, one, use()));
    auto all = session.gradient("layer.weight");
    all.insert(all.end(), x.gradient.begin(), x.gradient.end());
    return all;
  };
  auto twice = run(1);
  for (float& value : twice) value *= 2;
  check_close(run(2), twice, tolerance_of<T>.over(9));
}

BOOST_AUTO_TEST_CASE(what_wants_no_gradient_gets_none) {
  const std::vector<std::int64_t> labels{1, 2, 0};
  {
    Head frozen = head(2, 3);
    frozen.layer.weight.frozen = true;
    Session<Float32Policy, Head> session(frozen);
    Watched<float> x({3, 2}, random_numbers(6, -1.0f, 1.0f));
    session.backward(
        head_cross_entropy(session.tape, watch(session.tape, x), session.model.layer.weight, view(labels))
            .sum);
    BOOST_TEST(x.visits == 1);
    BOOST_TEST(!session.has_gradient("layer.weight"));
  }
  Session<Float32Policy, Head> session(head(2, 3));
  const auto numbers = random_numbers(6, -1.0f, 1.0f);
  const Tensor<const float> input(numbers.data(), {3, 2});
  session.backward(head_cross_entropy(session.tape, input, session.model.layer.weight, view(labels)).sum);
  BOOST_TEST(session.has_gradient("layer.weight"));
  session.tape.begin(Pass::inference);
  const Loss loss = head_cross_entropy(session.tape, input, session.model.layer.weight, view(labels));
  BOOST_TEST(!loss.sum.requires_gradient());
}

BOOST_AUTO_TEST_CASE(a_batch_of_ignored_rows_counts_nothing) {
  Session<Float16ScaledPolicy, Head> session(head(2, 3));
  Watched<float16> x({5, 2}, random_numbers(10, -1.0f, 1.0f));
  const std::vector<std::int64_t> labels(5, -100);
  const Loss loss = head_cross_entropy(session.tape, watch(session.tape, x), session.model.layer.weight,
                                       view(labels), {.label_smoothing = 0.1f, .rows_at_once = 2});
  session.backward(loss.sum);
  BOOST_TEST(loss.count == 0);
  BOOST_TEST(*loss.sum.data() == 0.0f);
  BOOST_TEST(x.gradient == std::vector<float>(10, 0.0f));
  BOOST_TEST(session.gradient("layer.weight") == std::vector<float>(6, 0.0f));
}

BOOST_AUTO_TEST_CASE(memory_holds_one_chunk_of_logits) {
  const auto bytes = [](std::int64_t rows_at_once) {
    Session<BFloat16Policy, Head> session(head(4, 1000));
    Watched<bfloat16> x({400, 4}, random_numbers(1600, -1.0f, 1.0f));
    const auto labels = some_labels(400, 1000);
    const auto hidden = watch(session.tape, x);
    session.backward(head_cross_entropy(session.tape, hidden, session.model.layer.weight, view(labels),
                                        {.rows_at_once = rows_at_once})
                         .sum);
    return static_cast<std::int64_t>(session.tape.arena().used());
  };
  // 390 rows of 1000 logits of 2 bytes; each piece of memory is rounded up to the device's alignment.
  BOOST_TEST(std::abs(bytes(400) - bytes(10) - 390 * 1000 * 2) <=
             2 * static_cast<std::int64_t>(Host::alignment));
  BOOST_TEST(bytes(0) == bytes(400));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  const auto [one, two] = with_one_and_two_threads([] { return results<Policy>({150, 64}, 300, 50, 0.1f); });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(bad_calls_are_refused_with_their_values) {
  Session<Float32Policy, Head> session(head(3, 5));
  auto& tape = session.tape;
  const Parameter& weight = session.model.layer.weight;
  const std::vector<float> numbers(12, 0.0f);
  const Tensor<const float> x(numbers.data(), {4, 3});
  const std::vector<std::int64_t> labels{0, 1, 4, 2}, too_large{0, 1, 5, 2}, too_few{0, 1};
  const auto check = [](const std::string& message, std::initializer_list<std::string_view> parts) {
    check_holds(message, {"head_cross_entropy: "});
    check_holds(message, parts);
  };
  check(refusal<ShapeError>([&] { head_cross_entropy(tape, x, weight, view(too_large)); }),
        {"label 5 at position 2", "[0, 5)", "[4, 5]"});
  check(refusal<ShapeError>([&] { head_cross_entropy(tape, x, weight, view(too_few)); }),
        {"4 rows", "2 labels"});
  check(refusal<ShapeError>([&] {
          head_cross_entropy(tape, Tensor<const float>(numbers.data(), {3, 4}), weight, view(labels));
        }),
        {"[3, 4]", "[5, 3]"});
  check(refusal<ShapeError>([&] {
          head_cross_entropy(tape, Tensor<const float>(numbers.data(), Shape()), weight, view(labels));
        }),
        {"[]", "[5, 3]"});
  check(refusal<ShapeError>([&] {
          head_cross_entropy(tape, Tensor<const float>(numbers.data(), {0, 3}), weight, view(labels));
        }),
        {"empty", "[0, 5]"});
  check(refusal<ShapeError>(
            [&] { head_cross_entropy(tape, x, Parameter(Shape{3}, Initializer::zeros()), view(labels)); }),
        {"[4, 3]", "[3]"});
  check(refusal<ConfigurationError>(
            [&] { head_cross_entropy(tape, x, weight, view(labels), {.rows_at_once = -1}); }),
        {"rows_at_once is -1"});
  check(refusal<ConfigurationError>(
            [&] { head_cross_entropy(tape, x, weight, view(labels), {.label_smoothing = 1.5f}); }),
        {"label_smoothing is 1.5"});
  check_holds(refusal<ConfigurationError>([&] {
                head_cross_entropy(tape, x, Parameter(Shape{5, 3}, Initializer::zeros()), view(labels));
              }),
              {"does not name"});
  BOOST_TEST(tape.arena().used() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
