// The operations of a transformer take all memory from the tape: a warm pass allocates nothing.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/embedding.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <halfstep/nn/rms_norm.hpp>
#include <halfstep/nn/rotary.hpp>
#include <halfstep/nn/sum.hpp>
#include <halfstep/nn/swiglu.hpp>
#include <vector>

#include "support/counted_allocations.hpp"
#include "support/tape.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct Parts {
  Embedding table{20, 64};
  LayerNorm first{64};
  RmsNorm second{64};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("table", table);
    visit("first", first);
    visit("second", second);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_warm_pass_allocates_nothing) {
  Session<BFloat16Policy, Parts> session;
  auto& tape = session.tape;
  const Parts& parts = session.model;
  const std::vector<std::int32_t> ids{1, 2, 3, 19, 0, 1, 1, 7};
  float seed = 1.0f;
  const auto pass = [&] {
    tape.begin(Pass::training);
    const auto x = add(tape, parts.table(tape, Tensor<const std::int32_t>(ids.data(), {2, 4})),
                       parts.table.rows(tape, 0, 4));
    const auto turned = rotary(tape, parts.first(tape, x), {.head_width = 16});
    const auto [sum, normed] = parts.second.add(tape, x, swiglu(tape, turned, silu(tape, turned)));
    const Loss loss =
        halfstep::sum(tape, parts.table.project(tape, parts.first.add(tape, sum, normed).normed));
    tape.backward(loss.sum, &seed);
  };
  for (int warm_up = 0; warm_up < 3; ++warm_up) pass();
  for (int turn = 0; turn < 3; ++turn) BOOST_TEST(allocations_of(pass) == 0);
  BOOST_TEST(session.has_gradient("table.weight"));
}
