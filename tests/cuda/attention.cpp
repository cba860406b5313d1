#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/device/device.hpp>
#include <halfstep/nn/attention.hpp>
#include <limits>
#include <type_traits>
#include <vector>

#include "cuda/device_session.hpp"
#include "cuda/double/cuda_runtime.hpp"
#include "support/attention_case.hpp"

BOOST_AUTO_TEST_SUITE(cuda_attention_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace cuda_attention_test {

/// On the GPU probabilities and the gradients of scores are rounded to the operands' type before they are
/// multiplied, which the host does not do: half a unit in the last place of terms whose sum is of the order
/// of 1, as everything here is, for each of up to four roundings.
template <class T>
Tolerance tolerance_with_rounded_scores(std::int64_t terms) {
  const Tolerance sums = tolerance_of<T>.over(terms);
  if (std::is_same_v<T, float>) return sums;
  return {sums.absolute + 4 * 0.5 * static_cast<double>(numeric_traits<T>::epsilon), sums.relative};
}

template <class Session>
void use_tolerances(Session& session, std::int64_t terms) {
  using T = typename Session::Compute;
  for (Part& part : session.parts) part.tolerance = tolerance_with_rounded_scores<T>(terms);
}

const std::vector<AttentionCase> cases{
    {1, 1, 1, 1, 1, 1},
    {2, 7, 7, 2, 2, 8},
    {2, 5, 11, 4, 2, 3, true, 6},
    {3, 4, 9, 6, 2, 5, false, 0, {9, 0, 4}},
    {2, 3, 40, 1, 1, 16, true, 2, {1, 40}, 0.7f},
    {2, 33, 35, 3, 1, 4, true, 0, {35, 20}},
};

template <class Policy>
void compare_attention(const AttentionCase& c, std::int64_t scores) {
  using T = typename Policy::compute_type;
  BOOST_TEST_CONTEXT(c.text() << ", " << scores << " scores at a time") {
    compare_devices<Policy>(NoLayers{}, [&](auto& session) {
      session.device.template service<detail::AttentionMemory>().scores = scores;
      const auto q = session.template input<T>("q", c.query_shape()),
                 k = session.template input<T>("k", c.key_shape()),
                 v = session.template input<T>("v", c.key_shape());
      const auto y = attention(session.tape, q, k, v, c.options());
      session.keep("y", y);
      session.backward(y, 1);
      use_tolerances(session, c.queries + c.keys + c.width);
    });
  }
}

constexpr std::int64_t plenty = 1 << 24;

}  // namespace cuda_attention_test
using namespace cuda_attention_test;

BOOST_AUTO_TEST_CASE(attention_and_its_gradients_are_those_of_the_host) {
  for (const AttentionCase& c : cases) {
    compare_attention<Float32Policy>(c, plenty);
    compare_attention<Float16ScaledPolicy>(c, plenty);
  }
  compare_attention<BFloat16Policy>(cases[2], plenty);
}

BOOST_AUTO_TEST_CASE(the_cut_into_tiles_changes_nothing) {
  // One query of one item; some queries; some items.
  for (const std::int64_t scores : {1, 300, 1500, 5000})
    compare_attention<Float32Policy>(cases.back(), scores);
  compare_attention<BFloat16Policy>(cases.back(), 1500);
  compare_attention<Float32Policy>(cases[3], 100);
  // More queries than a causal tile has.
  compare_attention<Float32Policy>({1, 261, 261, 1, 1, 2}, plenty);
}

BOOST_AUTO_TEST_CASE(what_lies_at_keys_that_no_query_sees_touches_nothing) {
  const AttentionCase c{2, 3, 10, 2, 1, 4, true, 1, {2, 10}};
  compare_devices<Float32Policy>(NoLayers{}, [&](auto& session) {
    auto numbers = random_numbers(c.key_shape().size(), -1.0f, 1.0f);
    for (std::int64_t sequence = 0; sequence < 2; ++sequence) {
      // Behind the length of the first, and behind the last query of the second.
      for (std::int64_t i = (sequence == 0 ? 2 : 4) * 4; i < 40; ++i) {
        numbers[static_cast<std::size_t>(sequence * 40 + i)] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    const auto q = session.template input<float>("q", c.query_shape());
    const auto k = session.input("k", c.key_shape(), numbers), v = session.input("v", c.key_shape(), numbers);
    const auto y = attention(session.tape, q, k, v, c.options());
    session.keep("y", y, 20);
    session.backward(y, 1);
    use_tolerances(session, 20);
  });
}

BOOST_AUTO_TEST_CASE(one_tensor_may_hold_all_or_be_all_three) {
  compare_devices<Float32Policy>(NoLayers{}, [&](auto& session) {
    const auto packed = session.template input<float>("packed", {2, 6, (4 + 2 * 2) * 3});
    const auto y = attention(session.tape, packed, {.heads = 4, .key_value_heads = 2});
    const auto again = attention(session.tape, y, y, y, {.heads = 3, .causal = false});
    session.keep("y", y);
    session.keep("again", again);
    session.backward(again, 1);
    use_tolerances(session, 40);
  });
}

BOOST_AUTO_TEST_CASE(a_row_without_keys_is_zeros_and_so_are_its_gradients) {
  DeviceSession<Float16ScaledPolicy, Cuda, NoLayers> session(NoLayers{});
  const std::vector<std::int64_t> lengths{0};
  const auto q = session.input<float16>("q", {1, 2, 4}), k = session.input<float16>("k", {1, 3, 4});
  const auto y = attention(session.tape, q, k, k, {.causal = false, .lengths = lengths});
  session.keep("y", y);
  session.backward(y, 1);
  for (const Part& part : session.parts) {
    BOOST_TEST(!part.values.empty());
    for (const float value : part.values) BOOST_TEST(value == 0.0f);
  }
}

BOOST_AUTO_TEST_CASE(memory_grows_with_the_number_of_positions_and_nobody_waits) {
  const auto peak = [](std::int64_t positions) {
    DeviceSession<Float32Policy, Cuda, NoLayers> session(NoLayers{});
    session.device.service<detail::AttentionMemory>().scores = 2048;
    const auto packed = session.input<float>("packed", {1, positions, 3 * 4});
    const auto waits = halfstep_test::cuda_calls().stream_waits;
    const auto y = attention(session.tape, packed, {.heads = 1});
    BOOST_TEST(halfstep_test::cuda_calls().stream_waits == waits);
    session.backward(y, 1);
    // The test's own, for the gradient that it keeps.
    BOOST_TEST(halfstep_test::cuda_calls().stream_waits == waits + 1);
    return session.tape.arena().peak();
  };
  const auto small = peak(64), large = peak(256);
  BOOST_TEST(large < 4 * small);
}

BOOST_AUTO_TEST_SUITE_END()
