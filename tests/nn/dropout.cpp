#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <halfstep/nn/dropout.hpp>

#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(dropout_tests)

using namespace halfstep;
using namespace halfstep::test;

// Longer than a chunk and no multiple of four.
constexpr std::int64_t count = 2 * compute::chunk_size + 7;

BOOST_AUTO_TEST_CASE_TEMPLATE(elements_are_dropped_as_the_stream_says_forward_and_backward, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  constexpr float drop = 0.25f;
  Session<Policy> session;
  const RandomStream random = session.tape.next_random_stream();  // the one after it is dropout's
  Watched<T> x(Shape{count}, random_numbers(count, -2, 2));
  const auto weights = random_numbers(count, 0.5f, 2, 8);
  const auto y = dropout(session.tape, watch(session.tape, x), drop);
  session.backward(weighted_sum(session.tape, y, weights));
  std::int64_t dropped = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const PhiloxBlock block = random_block(random.seed, random.stream + 1, static_cast<std::uint64_t>(i / 4));
    const bool drops = uniform(block.words[i % 4]) < drop;
    const float factor = drops ? 0.0f : 1.0f / (1.0f - drop);
    const auto value = static_cast<float>(T(static_cast<float>(x.values[k]) * factor));
    const auto gradient = static_cast<float>(T(static_cast<float>(T(weights[k])) * factor));
    if (static_cast<float>(y.data()[i]) != value) BOOST_FAIL("y[" << i << "]");
    if (x.gradient[k] != gradient) BOOST_FAIL("dx[" << i << "]");
    dropped += drops;
  }
  // Six standard deviations.
  BOOST_TEST(std::abs(static_cast<double>(dropped) - 0.25 * count) < 6 * std::sqrt(0.25 * 0.75 * count));
}

BOOST_AUTO_TEST_CASE(no_two_operations_or_passes_drop_alike) {
  Session<Float32Policy> session;
  Watched<float> x(Shape{64}, std::vector<float>(64, 1.0f));
  const auto first = floats(dropout(session.tape, watch(session.tape, x), 0.5f).value());
  const auto second = floats(dropout(session.tape, watch(session.tape, x), 0.5f).value());
  session.tape.begin(Pass::training, {0, 1});
  const auto next_pass = floats(dropout(session.tape, watch(session.tape, x), 0.5f).value());
  session.tape.begin(Pass::training, {0, 0});
  const auto again = floats(dropout(session.tape, watch(session.tape, x), 0.5f).value());
  session.tape.begin(Pass::training, {1, 0});
  const auto other_seed = floats(dropout(session.tape, watch(session.tape, x), 0.5f).value());
  BOOST_TEST((first != second && first != next_pass && first != other_seed));
  BOOST_TEST(first == again);
}

BOOST_AUTO_TEST_CASE(a_gradient_is_added_to_what_came_before) {
  Session<Float32Policy> session;
  Watched<float> x(Shape{8}, std::vector<float>(8, 1.0f));
  const auto input = watch(session.tape, x);
  const auto y = dropout(session.tape, input, 0.5f);
  const std::vector<float> ones(8, 1.0f);
  session.backward(total(session.tape, weighted_sum(session.tape, y, ones), weighted_sum(session.tape, input, ones)));
  for (std::size_t i = 0; i < 8; ++i) BOOST_TEST(x.gradient[i] == 1.0f + y.data()[i]);
}

BOOST_AUTO_TEST_CASE(what_is_dropped_is_zero_even_if_it_was_infinite_and_what_is_kept_stays_infinite) {
  Session<Float16ScaledPolicy> session;
  Watched<float16> x(Shape{256}, std::vector<float>(256, std::numeric_limits<float>::infinity()));
  const auto y = floats(dropout(session.tape, watch(session.tape, x), 0.5f).value());
  std::size_t zeros = 0;
  for (const float value : y) {
    zeros += value == 0.0f;
    BOOST_TEST((value == 0.0f || value == std::numeric_limits<float>::infinity()));
  }
  BOOST_TEST((zeros > 64 && zeros < 192));
}

BOOST_AUTO_TEST_CASE(nothing_is_dropped_in_inference_or_with_probability_zero) {
  Session<Float32Policy> session;
  Watched<float> x(Shape{16}, random_numbers(16, -1, 1));
  const auto kept = watch(session.tape, x);
  BOOST_TEST(dropout(session.tape, kept, 0.0f).data() == kept.data());
  session.tape.begin(Pass::inference);
  const auto input = watch(session.tape, x);
  BOOST_TEST(dropout(session.tape, input, 0.5f).data() == input.data());
}

BOOST_AUTO_TEST_CASE(a_probability_that_cannot_be_is_refused) {
  Session<Float32Policy> session;
  Watched<float> x(Shape{4}, std::vector<float>(4, 1.0f));
  const auto input = watch(session.tape, x);
  for (const float drop : {1.0f, -0.1f, 1.5f, std::numeric_limits<float>::quiet_NaN()}) {
    BOOST_CHECK_THROW(dropout(session.tape, input, drop), ConfigurationError);
  }
}

BOOST_AUTO_TEST_SUITE_END()
