#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/nn/attention.hpp>
#include <halfstep/nn/head_cross_entropy.hpp>
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/recompute.hpp>
#include <vector>

#include "support/counted_allocations.hpp"
#include "support/tape.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace {

/// One head over few sequences, so that queries are divided among tasks, under a head in several chunks.
struct TinyModel {
  Linear projection{12, 20, {.bias = false}}, head{12, 9, {.bias = false}};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("projection", projection);
    visit("head", head);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(pass_allocation_tests)

BOOST_AUTO_TEST_CASE(a_warm_pass_through_attention_and_a_head_allocates_nothing) {
  Session<BFloat16Policy, TinyModel> session;
  auto& tape = session.tape;
  constexpr std::int64_t positions = 150;
  const auto x = random_numbers(2 * positions * 12, -1.0f, 1.0f);
  const std::vector<std::int32_t> labels(2 * positions, 3);
  const std::vector<std::int64_t> lengths{positions, 70};
  const auto pass = [&] {
    tape.begin(Pass::training);
    const auto qkv = session.model.projection(tape, Tensor<const float>(x.data(), {2, positions, 12}));
    const auto y = attention(tape, qkv, {.heads = 3, .key_value_heads = 1, .lengths = lengths});
    const Loss loss =
        head_cross_entropy(tape, y, session.model.head.weight,
                           Tensor<const std::int32_t>(labels.data(), {2 * positions}), {.rows_at_once = 64});
    session.backward(loss.sum);
  };
  for (int warm = 0; warm < 3; ++warm) pass();
  BOOST_TEST(allocations_of(pass) == 0);
  BOOST_TEST(session.has_gradient("projection.weight"));
}

BOOST_AUTO_TEST_CASE(a_warm_pass_with_blocks_computed_again_allocates_nothing) {
  Session<BFloat16Policy, TinyModel> session;
  auto& tape = session.tape;
  const auto x = random_numbers(30 * 12, -1.0f, 1.0f);
  const std::vector<std::int32_t> labels(30, 3);
  const TinyModel& model = session.model;
  const auto block = [&model](auto& t, const auto& v) {
    return attention(t, model.projection(t, v), {.heads = 3, .key_value_heads = 1});
  };
  const auto pass = [&] {
    tape.begin(Pass::training);
    const auto once = recompute(tape, Tensor<const float>(x.data(), {2, 15, 12}), block);
    const auto twice = recompute(tape, once, [block](auto& t, const auto& v) { return recompute(t, v, block); });
    session.backward(head_cross_entropy(tape, twice, model.head.weight,
                                        Tensor<const std::int32_t>(labels.data(), {30}))
                         .sum);
  };
  for (int warm = 0; warm < 3; ++warm) pass();
  BOOST_TEST(allocations_of(pass) == 0);
  BOOST_TEST(session.has_gradient("projection.weight"));
}

BOOST_AUTO_TEST_SUITE_END()
