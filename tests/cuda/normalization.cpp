#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/device/device.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <halfstep/nn/rms_norm.hpp>
#include <string>
#include <vector>

#include "cuda/device_session.hpp"
#include "support/norm_case.hpp"

BOOST_AUTO_TEST_SUITE(cuda_normalization_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace cuda_normalization_test {

/// Narrow rows, which a thread of the CPU keeps as those of a GPU do; wide ones; for warps and for blocks;
/// none, and more than one team sums up.
const std::vector<Shape> shapes{{1, 1},     {9, 7},   {3, 16},   {2, 17}, {6, 31},
                                {2, 3, 33}, {5, 600}, {3, 1027}, {0, 5}};

template <class Policy, class T, class Layer>
void compare_norm(const Shape& shape, const Layer& layer) {
  BOOST_TEST_CONTEXT("shape " << shape.text()) {
    compare_devices<Policy>(random_norm(layer), [&](auto& session) {
      const auto x = session.template input<T>("x", shape, 4);
      const auto y = session.model.norm(session.tape, x);
      session.keep("y", y);
      session.backward(y, shape.rows());
    });
  }
}

/// The input gets a gradient from elsewhere too, and a part of the window has been before.
template <class Policy, class A, class B, class Layer>
void compare_residual(const Shape& shape, const Layer& layer) {
  BOOST_TEST_CONTEXT("shape " << shape.text()) {
    compare_devices<Policy>(random_norm(layer), [&](auto& session) {
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        session.tape.begin(Pass::training);
        const auto x = session.template input<A>("x", shape, 16);
        const auto branch = session.template input<B>("branch", shape, 16);
        const auto [sum, normed] = session.model.norm.add(session.tape, x, branch);
        const auto [sum_again, normed_again] = session.model.norm.add(session.tape, sum, normed);
        session.keep("sum", sum);
        session.keep("normed", normed);
        session.keep("sum again", sum_again);
        session.backward(normed_again, 8 * shape.rows());
      }
    });
  }
}

}  // namespace cuda_normalization_test
using namespace cuda_normalization_test;

BOOST_AUTO_TEST_CASE(norms_and_their_gradients_are_those_of_the_host) {
  for (const Shape& shape : shapes) {
    compare_norm<Float32Policy, float>(shape, LayerNorm{shape.columns()});
    compare_norm<NormsInFloat16, float16>(shape, RmsNorm{shape.columns()});
  }
  compare_norm<Float32Policy, float>({5, 33}, LayerNorm{33, {.bias = false}});
}

BOOST_AUTO_TEST_CASE(norms_of_a_residual_sum_are_those_of_the_host) {
  for (const Shape& shape : {Shape{5, 12}, Shape{7, 40}}) {
    compare_residual<Float32Policy, float, float>(shape, LayerNorm{shape.columns()});
    compare_residual<BFloat16Policy, float, bfloat16>(shape, LayerNorm{shape.columns()});
    compare_residual<NormsInFloat16, float16, float16>(shape, RmsNorm{shape.columns()});
  }
}

BOOST_AUTO_TEST_CASE(a_frozen_weight_gets_no_gradient) {
  auto model = random_norm(LayerNorm{24});
  model.norm.weight.frozen = true;
  compare_devices<Float32Policy>(model, [&](auto& session) {
    session.backward(session.model.norm(session.tape, session.template input<float>("x", {3, 24}, 4)), 3);
    BOOST_TEST(session.parts.size() == 2u);
  });
}

BOOST_AUTO_TEST_CASE(rows_of_equal_numbers_and_rows_too_large_for_float_are_as_on_the_host) {
  DeviceSession<Float32Policy, Cuda, OneNorm<LayerNorm>> session(OneNorm<LayerNorm>{LayerNorm{7}});
  // Seven times 0.7 divided by 7 is not 0.7 in float.
  std::vector<float> numbers(14, 0.7f);
  numbers[7] = 1e30f;
  const auto y = session.model.norm(session.tape, session.input<float>("x", {2, 7}, numbers));
  const auto values = downloaded_floats(session.device, y.value());
  for (std::size_t i = 0; i < 7; ++i) BOOST_TEST(values[i] == 0.0f);
  for (std::size_t i = 7; i < 14; ++i) BOOST_TEST(is_nan(values[i]));
}

BOOST_AUTO_TEST_SUITE_END()
