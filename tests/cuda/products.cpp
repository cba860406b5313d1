#include <halfstep/nn/attention.hpp>
#include <halfstep/nn/convolution.hpp>
#include <halfstep/nn/embedding.hpp>
#include <halfstep/nn/head_cross_entropy.hpp>
#include <halfstep/nn/linear.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device_session.hpp"
#include "cuda/double/cublaslt.hpp"

namespace products_test {

using namespace halfstep;
using namespace halfstep::test;
using namespace halfstep_test;

/// Every layer that multiplies matrices, of sizes that no alignment divides.
struct Products {
  Convolution2d convolution{3, 5, 3, {.padding = 1}};
  Convolution2d pointwise{5, 3, 1};
  Linear linear{3, 7};
  Linear without_bias{7, 6, {.bias = false}};
  Embedding table{11, 6};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("convolution", convolution);
    visit("pointwise", pointwise);
    visit("linear", linear);
    visit("without_bias", without_bias);
    visit("table", table);
  }
};

/// Forward and backward, twice over some layers, so that gradients accumulate.
struct RunThem {
  template <class Session>
  void operator()(Session& session) const {
    using T = typename Session::Compute;
    const Products& model = session.model;
    auto& tape = session.tape;
    const auto images = session.template input<T>("images", {2, 5, 4, 3}, 5 * 9 * 2);
    const auto pixels = model.pointwise(tape, model.convolution(tape, images));
    const auto again = model.pointwise(tape, model.convolution(tape, pixels));
    session.keep("pixels", again, 3 * 9);
    const auto hidden = model.without_bias(tape, model.linear(tape, again));
    session.keep("hidden", hidden, 7);
    const auto logits = model.table.project(tape, hidden);
    session.keep("logits", logits, 6);
    session.backward(logits, 2 * 5 * 4);
  }
};

/// A tied head whose logits are computed by five rows at a time.
struct RunHead {
  template <class Session>
  void operator()(Session& session) const {
    using T = typename Session::Compute;
    const auto hidden = session.template input<T>("hidden", {13, 6}, 11);
    const std::vector<std::int32_t> labels{0, 10, 3, -100, 5, 5, 1, 2, 9, 4, -100, 8, 7};
    const auto loss = head_cross_entropy(session.tape, hidden, session.model.table.weight,
                                         Tensor<const std::int32_t>(labels.data(), {13}), {.rows_at_once = 5});
    session.keep("loss", loss.sum, 13);
    session.backward(loss.sum, 13);
  }
};

struct RunAttention {
  template <class Session>
  void operator()(Session& session) const {
    const auto heads = session.template input<typename Session::Compute>("heads", {2, 5, 18}, 5);
    session.backward(attention(session.tape, heads, {.heads = 2, .causal = true}), 5);
  }
};

struct Fixture {
  Fixture() {
    reset_blas_calls();
    (void)take_blas_violations();
  }
  ~Fixture() {
    for (const std::string& sentence : take_blas_violations()) BOOST_ERROR(sentence);
  }
};

}  // namespace products_test

BOOST_FIXTURE_TEST_SUITE(products_tests, products_test::Fixture)

using namespace products_test;

BOOST_AUTO_TEST_CASE(layers_that_multiply_give_what_they_give_on_the_host) {
  compare_devices<Float32Policy>(Products{}, RunThem{});
  compare_devices<BFloat16Policy>(Products{}, RunThem{});
  compare_devices<Float32Policy>(Products{}, RunHead{});
  compare_devices<Float16ScaledPolicy>(Products{}, RunHead{});
  BOOST_TEST(blas_calls().tensor_float32_matmuls == 0);
}

BOOST_AUTO_TEST_CASE(every_product_of_float_operands_is_tensor_float32_under_the_policy_that_says_so) {
  const auto check = [](const auto& run) {
    reset_blas_calls();
    DeviceSession<TensorFloat32Policy, Cuda, Products> session(Products{});
    run(session);
    BOOST_TEST(blas_calls().matmuls > 0);
    BOOST_TEST(blas_calls().tensor_float32_matmuls == blas_calls().matmuls);
  };
  check(RunThem{});
  check(RunHead{});
  check(RunAttention{});
}

BOOST_AUTO_TEST_SUITE_END()
