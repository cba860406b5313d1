#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

#include <halfstep/device/device.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/compute_in.hpp>
#include <halfstep/nn/embedding.hpp>
#include <halfstep/nn/head_cross_entropy.hpp>

#include "cuda/device_session.hpp"
#include "cuda/double/cuda_runtime.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace embedding_cuda_test {

struct EmbeddingsInBFloat16 : BFloat16Policy {
  using in_compute_type = operation::List<operation::Embedding>;
};
using Policies = std::tuple<Float32Policy, EmbeddingsInBFloat16>;

struct OneTable {
  Embedding table;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("table", table);
  }
};

/// Tokens of very different frequency: half of them the last one, and some never.
template <class Token>
std::vector<Token> some_tokens(std::int64_t count, std::int64_t kinds, std::uint32_t seed = 9) {
  std::vector<Token> tokens;
  for (const float number : random_numbers(count, 0.0f, 2.0f * static_cast<float>(kinds), seed)) {
    const auto kind = static_cast<std::int64_t>(number);
    tokens.push_back(static_cast<Token>(kind < kinds ? kind / 3 * 3 : kinds - 1));
  }
  return tokens;
}

}  // namespace embedding_cuda_test

BOOST_AUTO_TEST_SUITE(embedding_cuda_tests)

using namespace embedding_cuda_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_and_the_sums_of_their_gradients_are_the_hosts, Policy, Policies) {
  struct Case {
    std::int64_t count, kinds, width;
  };
  // One row of one number, widths that no four divides, those of several warps; sums in one piece, and in several,
  // whose last one is longer than the others. The last are sorted in three runs.
  const std::vector<Case> cases{{1, 1, 1}, {40, 13, 3}, {300, 20, 12}, {513, 7, 131}, {777, 90, 260}, {4999, 40, 3}};
  for (const auto& c : cases) {
    BOOST_TEST_CONTEXT(c.count << " tokens of " << c.kinds << ", width " << c.width) {
      const auto tokens = some_tokens<std::uint8_t>(c.count, c.kinds);
      const auto others = some_tokens<std::int32_t>(c.count, c.kinds, 3);
      compare_devices<Policy>(OneTable{Embedding{c.kinds, c.width}}, [&](auto& session) {
        auto& tape = session.tape;
        const auto& table = session.model.table;
        const auto one = table(tape, Tensor<const std::uint8_t>(tokens.data(), {c.count}));
        const auto two = table(tape, Tensor<const std::int32_t>(others.data(), {c.count}));
        session.keep("rows", one);
        // The gradient of the second overwrites, that of the first is added.
        session.backward(add(tape, one, two), c.count);
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_waits_and_no_tokens_give_a_gradient_of_zeros) {
  DeviceSession<Float32Policy, Cuda, OneTable> session(OneTable{Embedding{5, 3}});
  const std::vector<std::int64_t> tokens;
  halfstep_test::reset_cuda_calls();
  const auto y = session.model.table(session.tape, Tensor<const std::int64_t>(tokens.data(), {0}));
  const Tensor<float> scalar = session.tape.allocate<float>({2});
  session.tape.backward(session.tape.record(operation::Loss{}, Tensor<float>(scalar.data(), Shape()), true,
                                            GiveGradient<float>{y, scalar.data()}),
                        scalar.data() + 1);
  BOOST_TEST(halfstep_test::cuda_calls().stream_waits == 0);
  BOOST_TEST(downloaded_floats(session.device, Tensor<const float>(session.parameters.gradient(0))) ==
             std::vector<float>(15, 0.0f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(positions_and_a_tied_head_are_the_hosts, Policy, Policies) {
  const auto tokens = some_tokens<std::int32_t>(6, 11);
  compare_devices<Policy>(OneTable{Embedding{11, 8}}, [&](auto& session) {
    auto& tape = session.tape;
    const auto& table = session.model.table;
    const auto rows = add(tape, table(tape, Tensor<const std::int32_t>(tokens.data(), {6})), table.rows(tape, 3, 6));
    const auto logits = table.project(tape, rows);
    session.keep("logits", logits, 8);
    session.backward(logits, 11);
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_head_with_its_loss_is_the_hosts_chunk_by_chunk, Policy, Policies) {
  using T = typename Policy::compute_type;
  const std::vector<std::int32_t> labels{4, 0, -100, 10, 4, 7, 1};
  for (const std::int64_t rows_at_once : {3, 7}) {
    compare_devices<Policy>(OneTable{Embedding{11, 8}}, [&](auto& session) {
      auto& tape = session.tape;
      const auto x = session.template input<T>("hidden", {7, 8}, 11);
      const Loss loss =
          head_cross_entropy(tape, x, session.model.table.weight, Tensor<const std::int32_t>(labels.data(), {7}),
                             {.label_smoothing = 0.1f, .rows_at_once = rows_at_once});
      BOOST_TEST(loss.count == 6);
      session.keep("loss", loss.sum, 11);
      const Tensor<float> seed = tape.template allocate<float>(Shape());
      const float one = 1.0f;
      session.device.upload(seed.data(), &one, sizeof(float));
      tape.backward(loss.sum, seed.data());
      session.parts.push_back({"gradient of the weight",
                               downloaded_floats(session.device, Tensor<const float>(session.parameters.gradient(0))),
                               tolerance_of<T>.over(7)});
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
