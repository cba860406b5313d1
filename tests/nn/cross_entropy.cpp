#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/cross_entropy.hpp>
#include <limits>
#include <string>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(cross_entropy_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

/// The sum over the rows of -sum_k q_k log p_k, in double.
double reference_loss(const std::vector<double>& logits, const std::vector<std::int64_t>& labels,
                      std::size_t classes, double smoothing, std::int64_t ignore_index) {
  double loss = 0;
  for (std::size_t r = 0; r < labels.size(); ++r) {
    if (labels[r] == ignore_index) continue;
    const double* row = logits.data() + r * classes;
    const double largest = *std::max_element(row, row + classes);
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += std::exp(row[k] - largest);
    for (std::size_t k = 0; k < classes; ++k) {
      const double label = static_cast<std::size_t>(labels[r]) == k ? 1.0 - smoothing : 0.0;
      loss += (label + smoothing / static_cast<double>(classes)) * (largest + std::log(sum) - row[k]);
    }
  }
  return loss;
}

std::vector<double> reference_gradient(const std::vector<double>& logits,
                                       const std::vector<std::int64_t>& labels, std::size_t classes,
                                       double smoothing, std::int64_t ignore_index) {
  std::vector<double> gradient(logits.size(), 0.0);
  for (std::size_t r = 0; r < labels.size(); ++r) {
    if (labels[r] == ignore_index) continue;
    const double* row = logits.data() + r * classes;
    const double largest = *std::max_element(row, row + classes);
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += std::exp(row[k] - largest);
    for (std::size_t k = 0; k < classes; ++k) {
      const double label = static_cast<std::size_t>(labels[r]) == k ? 1.0 - smoothing : 0.0;
      gradient[r * classes + k] =
          std::exp(row[k] - largest) / sum - label - smoothing / static_cast<double>(classes);
    }
  }
  return gradient;
}

std::vector<std::int64_t> some_labels(std::int64_t rows, std::int64_t classes, bool with_ignored) {
  std::vector<std::int64_t> labels;
  for (std::int64_t r = 0; r < rows; ++r)
    labels.push_back(with_ignored && r % 3 == 1 ? -100 : (r * 7 + 3) % classes);
  return labels;
}

/// A loss and the gradient of its logits beside those in double.
void check_loss(const Loss& loss, const std::vector<float>& gradient, const std::vector<double>& logits,
                const std::vector<std::int64_t>& labels, double smoothing, Tolerance tolerance) {
  const std::size_t classes = logits.size() / labels.size();
  BOOST_TEST(loss.count ==
             std::count_if(labels.begin(), labels.end(), [](std::int64_t label) { return label != -100; }));
  check_close(floats(loss.sum.value()),
              std::vector<double>{reference_loss(logits, labels, classes, smoothing, -100)}, float_tolerance);
  check_close(gradient, reference_gradient(logits, labels, classes, smoothing, -100), tolerance);
}

template <class L>
Tensor<const L> view(const std::vector<L>& labels) {
  return {labels.data(), {static_cast<std::int64_t>(labels.size())}};
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(loss_and_gradient_match_a_float64_reference, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  const std::vector<Shape> shapes{{1, 1}, {3, 2}, {2, 5, 7}, {11, 37}, {901, 10}, {3, 8193}};
  for (const Shape& shape : shapes) {
    for (const float smoothing : {0.0f, 0.1f, 1.0f}) {
      for (const bool with_ignored : {false, true}) {
        BOOST_TEST_CONTEXT(shape.text() << ", smoothing " << smoothing << ", ignored rows " << with_ignored) {
          const auto labels = some_labels(shape.rows(), shape.columns(), with_ignored);
          Session<Policy> session;
          Watched<T> x(shape, random_numbers(shape.size(), -3.0f, 3.0f));
          const Loss loss = cross_entropy(session.tape, watch(session.tape, x), view(labels),
                                          {.label_smoothing = smoothing});
          session.backward(loss.sum);
          check_loss(loss, x.gradient, x.exact(), labels, static_cast<double>(smoothing), tolerance_of<T>);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gradient_matches_central_differences) {
  for (const float smoothing : {0.0f, 0.2f}) {
    Session<Float32Policy> session;
    Watched<float> x({4, 5}, random_numbers(20, -2.0f, 2.0f));
    const std::vector<std::int64_t> labels{4, 0, -1, 2};
    const Loss loss = cross_entropy(session.tape, watch(session.tape, x), view(labels),
                                    {.ignore_index = -1, .label_smoothing = smoothing});
    session.backward(loss.sum);
    check_close(x.gradient,
                numeric_gradient(x.exact(),
                                 [&](const auto& logits) {
                                   return reference_loss(logits, labels, 5, static_cast<double>(smoothing),
                                                         -1);
                                 }),
                float_tolerance);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(large_logits_neither_overflow_nor_lose_digits, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  Session<Policy> session;
  // Near 32768 the types' numbers lie 2^-8, 32 and 256 apart: these are in all of them.
  Watched<T> x({3, 3}, {32768.0f, 32768.0f, 0.0f, -32768.0f, -32768.0f, -32768.0f, 256.0f, 256.0f, 258.0f});
  const std::vector<std::int64_t> labels{0, 1, 2};
  const Loss loss = cross_entropy(session.tape, watch(session.tape, x), view(labels));
  session.backward(loss.sum);
  check_loss(loss, x.gradient, x.exact(), labels, 0, tolerance_of<T>);
}

BOOST_AUTO_TEST_CASE(the_incoming_gradient_scales_in_float_before_the_one_rounding) {
  // p - q is under 2^-25 for the first class, which float16 would round to zero.
  Session<Float16ScaledPolicy> session;
  const float logit = -17.328125f;
  Watched<float16> x({1, 2}, {logit, 0.0f});
  const std::vector<std::int64_t> labels{1};
  const Loss loss = cross_entropy(session.tape, watch(session.tape, x), view(labels));
  session.backward(loss.sum, 65536.0f);
  const double p = 1 / (1 + std::exp(-x.exact()[0]));
  check_close(std::vector<float>{x.gradient[0]}, std::vector<double>{65536 * p}, float16_tolerance);
}

BOOST_AUTO_TEST_CASE(a_batch_of_ignored_rows_counts_nothing) {
  for (const float smoothing : {0.0f, 0.1f}) {
    Session<Float16ScaledPolicy> session;
    Watched<float16> x({2, 3}, {1.0f, std::numeric_limits<float>::infinity(), 3.0f, 4.0f, 5.0f, 6.0f});
    const std::vector<std::int64_t> labels{-100, -100};
    const Loss loss =
        cross_entropy(session.tape, watch(session.tape, x), view(labels), {.label_smoothing = smoothing});
    session.backward(loss.sum);
    BOOST_TEST(loss.count == 0);
    BOOST_TEST(*loss.sum.data() == 0.0f);
    BOOST_TEST(x.gradient == std::vector<float>(6, 0.0f));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(logits_read_by_two_losses_get_both_gradients, Policy, FloatAnd16Bits) {
  using T = typename Policy::compute_type;
  Session<Policy> session;
  Watched<T> x({3, 4}, random_numbers(12, -1.0f, 1.0f));
  const std::vector<std::int64_t> first{0, 1, -100}, second{3, -100, 2};
  const auto input = watch(session.tape, x);
  const Loss one = cross_entropy(session.tape, input, view(first));
  const Loss two = cross_entropy(session.tape, input, view(second));
  session.backward(total(session.tape, one.sum, two.sum));
  auto expected = reference_gradient(x.exact(), first, 4, 0, -100);
  const auto other = reference_gradient(x.exact(), second, 4, 0, -100);
  for (std::size_t i = 0; i < 12; ++i) expected[i] += other[i];
  check_close(x.gradient, expected, tolerance_of<T>.over(2));
}

BOOST_AUTO_TEST_CASE(labels_of_every_integer_type_mean_the_same) {
  const auto loss_with = [](auto label_type) {
    using L = decltype(label_type);
    const std::vector<L> labels{2, 0, 1};
    Session<Float32Policy> session;
    Watched<float> x({3, 3}, random_numbers(9, -1.0f, 1.0f));
    const Loss loss = cross_entropy(session.tape, watch(session.tape, x), view(labels), {.ignore_index = 0});
    session.backward(loss.sum);
    BOOST_TEST(loss.count == 2);
    x.gradient.push_back(*loss.sum.data());
    return x.gradient;
  };
  const auto expected = loss_with(std::int64_t{});
  BOOST_TEST(loss_with(std::int32_t{}) == expected);
  BOOST_TEST(loss_with(std::uint8_t{}) == expected);
  BOOST_TEST(loss_with(std::int16_t{}) == expected);
}

BOOST_AUTO_TEST_CASE(inference_gives_the_loss_and_records_nothing) {
  Session<Float16ScaledPolicy> session;
  const std::vector<float> logits{0.0f, 1.0f};
  const std::vector<int> labels{0};
  session.tape.begin(Pass::inference);
  const Loss loss = cross_entropy(session.tape, Tensor<const float>(logits.data(), {1, 2}), view(labels));
  BOOST_TEST(!loss.sum.requires_gradient());
  check_close(floats(loss.sum.value()), std::vector<double>{std::log(1 + std::exp(1.0))}, float_tolerance);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  const auto labels = some_labels(20011, 10, true);
  const auto [one, two] = with_one_and_two_threads([&] {
    Session<Policy> session;
    Watched<typename Policy::compute_type> x({20011, 10}, random_numbers(200110, -3.0f, 3.0f));
    const Loss loss =
        cross_entropy(session.tape, watch(session.tape, x), view(labels), {.label_smoothing = 0.1f});
    session.backward(loss.sum);
    return std::pair(*loss.sum.data(), x.gradient);
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(bad_labels_and_batches_are_refused_with_their_values) {
  Session<Float32Policy> session;
  auto& tape = session.tape;
  const std::vector<float> logits(12, 0.0f);
  const Tensor<const float> x(logits.data(), {4, 3});
  const std::vector<std::int64_t> too_large{0, 1, 3, 2}, negative{0, -1, 1, 1}, too_few{0, 1, 2}, none;
  const auto refused = [&](const Shape& shape, const std::vector<std::int64_t>& labels,
                           CrossEntropyOptions options = {}) {
    return refusal<ShapeError>(
        [&] { cross_entropy(tape, Tensor<const float>(logits.data(), shape), view(labels), options); });
  };
  check_holds(refused({4, 3}, too_large),
              {"label 3 at position 2", "[0, 3)", "[4, 3]", "ignore_index is -100"});
  check_holds(refused({4, 3}, negative), {"label -1 at position 1"});
  check_holds(refused({4, 3}, negative, {.ignore_index = -2}), {"ignore_index is -2"});
  check_holds(refused({4, 3}, too_few), {"[4, 3]", "4 rows", "3 labels"});
  check_holds(refused({0, 3}, none), {"empty batch", "[0, 3]"});
  check_holds(refused({4, 0}, too_large), {"empty batch", "[4, 0]"});
  check_holds(refused(Shape(), too_few), {"scalar"});
  for (const float smoothing : {-0.1f, 1.5f, std::numeric_limits<float>::quiet_NaN()}) {
    BOOST_CHECK_THROW(cross_entropy(tape, x, view(too_few), {.label_smoothing = smoothing}),
                      ConfigurationError);
  }
  BOOST_TEST(session.tape.arena().used() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
