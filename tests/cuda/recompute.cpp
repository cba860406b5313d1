#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

#include <halfstep/device/device.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/dropout.hpp>
#include <halfstep/nn/gelu.hpp>
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/recompute.hpp>

#include "cuda/double/cuda_runtime.hpp"
#include "cuda/tape_on.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace recompute_cuda_test {

using Policies = std::tuple<Float32Policy, Float16ScaledPolicy>;

constexpr std::int64_t rows = 70, width = 24;

struct OneLayer {
  Linear layer{width, width};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

/// Functions whose result lies, in the memory that they used, at the front, a short way on, and behind all else.
struct Alone {
  template <class Tape, class X>
  auto operator()(Tape& tape, const X& x) const {
    return gelu<typename X::value_type>(tape, x);
  }
};
struct BehindLittle {
  const float* numbers;
  template <class Tape, class X>
  auto operator()(Tape& tape, const X& x) const {
    using T = typename X::value_type;
    return add(tape, x, cast<T>(tape, Tensor<const float>(numbers, {width})));
  }
};
struct BehindMuch {
  const Linear* layer;
  template <class Tape, class X>
  auto operator()(Tape& tape, const X& x) const {
    const auto bent = dropout(tape, gelu<typename X::value_type>(tape, x), 0.25f);
    return add(tape, x, dropout(tape, (*layer)(tape, bent), 0.5f));
  }
};

enum class How { plain, recomputed, nested };

template <class Tape, class X, class Function>
auto call(Tape& tape, const X& x, const Function& function, How how) {
  return how == How::plain ? function(tape, x) : recompute(tape, x, function);
}

struct Everything {
  std::vector<float> value;
  std::vector<std::vector<float>> gradients;
  std::vector<float> weight_gradient, bias_gradient;
  bool operator==(const Everything&) const = default;
};

template <class Policy, class Device>
Everything everything_on(TapeOn<Policy, Device, OneLayer>& session, How how) {
  using T = typename Policy::compute_type;
  const auto few = random_numbers(width, -1.0f, 1.0f, 3);
  const BehindLittle behind_little{few.data()};
  const BehindMuch behind_much{&session.model.layer};
  const auto all = [&](auto& tape, const auto& x) {
    const auto first = call(tape, x, behind_much, how);
    const auto second = call(tape, call(tape, first, behind_little, how), Alone{}, how);
    return dropout(tape, call(tape, second, behind_much, how), 0.1f);
  };
  session.begin({5, 3});
  auto& tape = session.tape;
  const auto x = session.template input<T>({rows, width}, random_numbers(rows * width, -1.0f, 1.0f));
  halfstep_test::reset_cuda_calls();
  const auto y = how == How::nested ? recompute(tape, x, all) : all(tape, x);
  // The input is used outside too.
  const auto weights = random_numbers(rows * width, -1.0f, 1.0f, 9);
  session.backward(session.total(session.weighted_sum(y, weights), session.weighted_sum(x, weights)));
  BOOST_TEST(halfstep_test::cuda_calls().stream_waits == 0);
  // Results and gradients that are kept, one copy each, and none for those that lie at the front or near it.
  if (how == How::recomputed) BOOST_TEST(halfstep_test::cuda_calls().copies_on_device <= 4);
  return {session.values(y), session.template gradients<T>(), session.parameter_gradient("layer.weight"),
          session.parameter_gradient("layer.bias")};
}

}  // namespace recompute_cuda_test

BOOST_AUTO_TEST_SUITE(recompute_cuda_tests)

using namespace recompute_cuda_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(computing_again_changes_no_bit_in_cold_memory_and_in_warm, Policy, Policies) {
  TapeOn<Policy, Cuda, OneLayer> session;
  const Everything plain = everything_on(session, How::plain);
  for (const How how : {How::recomputed, How::nested}) {
    TapeOn<Policy, Cuda, OneLayer> cold;
    BOOST_TEST((everything_on(cold, how) == plain));
    BOOST_TEST((everything_on(cold, how) == plain));
  }
}

BOOST_AUTO_TEST_SUITE_END()
