#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <halfstep/device/device.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/dropout.hpp>
#include <halfstep/nn/gelu.hpp>
#include <halfstep/nn/relu.hpp>
#include <halfstep/nn/swiglu.hpp>

#include "cuda/double/cuda_runtime.hpp"
#include "cuda/emulated.hpp"
#include "cuda/tape_on.hpp"
#include "support/tolerance.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace elementwise_test {

using Policies = std::tuple<Float32Policy, BFloat16Policy, Float16ScaledPolicy>;

/// Everything that came out of a pass.
struct Result {
  std::vector<float> value;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<float>> float_gradients;
};

/// An operation's result, and its inputs' gradients for a random gradient of the result.
template <class Policy, class Device, class Function>
Result result_on(const Function& function) {
  TapeOn<Policy, Device> session;
  halfstep_test::reset_cuda_calls();
  const auto y = function(session);
  session.backward(session.weighted_sum(y, random_numbers(y.size(), -1.0f, 1.0f, 21)));
  BOOST_TEST(halfstep_test::cuda_calls().stream_waits == 0);
  BOOST_TEST(halfstep_test::cuda_calls().copies_to_host == 0);
  using T = typename Policy::compute_type;
  Result result{session.values(y), session.template gradients<T>(), {}};
  if (!std::is_same_v<T, float>) result.float_gradients = session.template gradients<float>();
  return result;
}

/// Where no sums are involved the emulated device has the host's bits: it computes with the host's functions.
template <class Policy, class Function>
Result check_devices_agree(const Function& function,
                           Tolerance tolerance = bits_or_neighbours<typename Policy::compute_type>) {
  const Result host = result_on<Policy, Host>(function);
  const Result cuda = result_on<Policy, Cuda>(function);
  check_close(cuda.value, host.value, tolerance);
  BOOST_TEST_REQUIRE(cuda.gradients.size() == host.gradients.size());
  for (std::size_t i = 0; i < host.gradients.size(); ++i) check_close(cuda.gradients[i], host.gradients[i], tolerance);
  BOOST_TEST_REQUIRE(cuda.float_gradients.size() == host.float_gradients.size());
  for (std::size_t i = 0; i < host.float_gradients.size(); ++i) {
    check_close(cuda.float_gradients[i], host.float_gradients[i], tolerance);
  }
  return cuda;
}

}  // namespace elementwise_test

BOOST_AUTO_TEST_SUITE(elementwise_tests)

using namespace elementwise_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(activations_and_casts_are_the_hosts, Policy, Policies) {
  using T = typename Policy::compute_type;
  struct Case {
    std::int64_t n, shift;
  };
  // Full blocks and what is left behind them, a four at a time, and one element at a time where fours do not begin.
  for (const Case& c : {Case{1, 0}, Case{1031, 0}, Case{2052, 0}, Case{2052, 1}}) {
    const std::int64_t n = c.n, shift = c.shift;
    const auto numbers = random_numbers(n, -4.0f, 4.0f), others = random_numbers(n, -2.0f, 2.0f, 8);
    check_devices_agree<Policy>([&](auto& session) {
      auto& tape = session.tape;
      const auto x = session.template input<T>({n}, numbers, shift);
      const auto up = session.template input<T>({n}, others);
      // x is read three times, so that its gradient is written once and added to twice.
      const auto bent = gelu<T>(tape, relu<T>(tape, x));
      const auto gated = swiglu<T>(tape, gelu<T>(tape, x, GeluApproximation::tanh), silu<T>(tape, up));
      return add(tape, cast<float>(tape, bent), swiglu<float>(tape, gated, x));
    });
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_same_elements_drop_as_on_the_host, Policy, Policies) {
  using T = typename Policy::compute_type;
  // In fours, with what is left behind them, and beyond a chunk.
  for (const std::int64_t n : {1, 3, 128, 131, 1027, static_cast<int>(compute::chunk_size) + 6}) {
    const auto numbers = random_numbers(n, 1.0f, 2.0f);
    const std::int64_t shift = n == 131 ? 1 : 0;
    const Result result = check_devices_agree<Policy>([&](auto& session) {
      auto& tape = session.tape;
      const auto x = session.template input<T>({n}, numbers, shift);
      return add(tape, dropout(tape, dropout(tape, x, 0.25f), 0.5f), dropout(tape, x, 0.3f));
    });
    if (n < 1000) continue;
    std::int64_t dropped = 0;
    for (const float value : result.value) dropped += value == 0.0f;
    const double share = static_cast<double>(dropped) / static_cast<double>(n);
    BOOST_TEST((share > 0.1 && share < 0.3));  // (1 - 0.75 * 0.5) * 0.3 = 0.1875
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(sums_with_and_without_repetition_are_the_hosts, Policy, Policies) {
  using T = typename Policy::compute_type;
  struct Case {
    Shape a, b;
    std::int64_t shift = 0;
  };
  // Periods of one element, under a warp, of primes under and over a task, and of several tasks; and nothing at all.
  const std::vector<Case> cases{{{7, 1}, {1}},      {{11, 10}, {10}},    {{2, 3, 127}, {3, 127}}, {{5, 131}, {131}},
                                {{3, 520}, {520}},  {{9, 131}, {9, 131}}, {{0, 4}, {4}},          {{4, 0}, {4, 0}},
                                {{3, 64}, {64}, 1}, {{9, 128}, {9, 128}, 1}};
  for (const Case& c : cases) {
    BOOST_TEST_CONTEXT(c.a.text() << " + " << c.b.text()) {
      const auto first = random_numbers(c.a.size(), -2.0f, 2.0f), second = random_numbers(c.b.size(), -2.0f, 2.0f, 8);
      // Two of T, and one of T with a float, whose gradient has another type than the sum's.
      check_devices_agree<Policy>(
          [&](auto& session) {
            auto& tape = session.tape;
            const auto a = session.template input<T>(c.a, first, c.shift);
            const auto b = session.template input<T>(c.b, second);
            const auto wide = session.template input<float>(c.b, second);
            return add(tape, add(tape, relu<T>(tape, a), add(tape, a, b)), wide);
          },
          tolerance_of<T>.over(c.a.size() / (c.b.size() + (c.b.size() == 0)) + 1));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
