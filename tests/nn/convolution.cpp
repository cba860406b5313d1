#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/compute_in.hpp>
#include <halfstep/nn/convolution.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(convolution_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace convolution_test {

template <class Layer = Convolution2d>
struct One {
  Layer layer;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

/// Results and gradients in double, by the definition: one sum over all that there is.
struct Reference {
  Shape images, weight;
  Extents2d stride, padding;
  std::int64_t out_height = 0, out_width = 0;
  std::vector<double> y, dx, dweight, dbias;

  Reference(const Convolution2d& layer, const Shape& image_shape, const std::vector<double>& x,
            const std::vector<double>& w, const std::vector<double>& b, const std::vector<float>& dy)
      : images(image_shape), weight(layer.weight.shape), stride(layer.stride()), padding(layer.padding()) {
    out_height = (images[1] + 2 * padding.height - weight[1]) / stride.height + 1;
    out_width = (images[2] + 2 * padding.width - weight[2]) / stride.width + 1;
    dx.assign(x.size(), 0.0);
    dweight.assign(w.size(), 0.0);
    dbias.assign(static_cast<std::size_t>(weight[0]), 0.0);
    for (std::int64_t image = 0; image < images[0]; ++image) {
      for (std::int64_t place = 0; place < out_height * out_width; ++place) {
        for (std::int64_t out = 0; out < weight[0]; ++out) {
          const auto g = static_cast<double>(dy[y.size()]);
          double sum = b.empty() ? 0.0 : b[static_cast<std::size_t>(out)];
          dbias[static_cast<std::size_t>(out)] += g;
          for_each_pair(image, place / out_width, place % out_width, out,
                        [&](std::size_t pixel, std::size_t k) {
                          sum += x[pixel] * w[k];
                          dx[pixel] += g * w[k];
                          dweight[k] += g * x[pixel];
                        });
          y.push_back(sum);
        }
      }
    }
  }

 private:
  template <class Function>
  void for_each_pair(std::int64_t image, std::int64_t line, std::int64_t column, std::int64_t out,
                     const Function& function) const {
    for (std::int64_t i = 0; i < weight[1] * weight[2]; ++i) {
      const std::int64_t r = line * stride.height - padding.height + i / weight[2];
      const std::int64_t s = column * stride.width - padding.width + i % weight[2];
      if (r < 0 || r >= images[1] || s < 0 || s >= images[2]) continue;
      for (std::int64_t c = 0; c < weight[3]; ++c) {
        function(static_cast<std::size_t>(((image * images[1] + r) * images[2] + s) * images[3] + c),
                 static_cast<std::size_t>((out * weight[1] * weight[2] + i) * weight[3] + c));
      }
    }
  }
};

template <class T, class Session, class Layer>
void check(Session& session, const Layer& layer, const Shape& images) {
  auto& tape = session.tape;
  Watched<T> x(images, random_numbers(images.size(), -1.0f, 1.0f));
  const auto y = layer(tape, watch(tape, x));
  static_assert(std::is_same_v<decltype(y), const Variable<T>>);
  const auto dy = rounded<T>(random_numbers(y.size(), -1.0f, 1.0f, 4));
  session.backward(weighted_sum(tape, y, dy));
  const std::vector<double> bias = layer.has_bias() ? session.working("layer.bias") : std::vector<double>{};
  const Reference exact(layer, images, x.exact(), session.working("layer.weight"), bias, dy);
  BOOST_TEST((y.shape() == Shape{images[0], exact.out_height, exact.out_width, layer.out_channels()}));
  const std::int64_t patch = layer.weight.shape.size() / layer.out_channels();
  check_close(floats(y.value()), exact.y, tolerance_of<T>.over(patch));
  check_close(x.gradient, exact.dx, tolerance_of<T>.over(patch));
  check_close(session.gradient("layer.weight"), exact.dweight, float_tolerance.over(y.shape().rows()));
  if (layer.has_bias()) {
    check_close(session.gradient("layer.bias"), exact.dbias, float_tolerance.over(y.shape().rows()));
  }
}

struct Case {
  Convolution2d layer;
  Shape images;
};

std::vector<Case> cases() {
  return {{{3, 5, 3, {.padding = 1}}, {2, 5, 7, 3}},
          {{2, 4, {2, 3}, {.stride = 2, .bias = false}}, {3, 7, 6, 2}},
          {{1, 3, {3, 1}, {.stride = {1, 3}, .padding = {2, 0}}}, {1, 4, 8, 1}},
          {{4, 2, 1}, {2, 3, 5, 4}},
          {{2, 2, 1, {.stride = {2, 1}}}, {1, 3, 4, 2}},
          {{2, 2, 1, {.stride = {1, 2}}}, {1, 3, 4, 2}},
          {{2, 2, 1, {.padding = {1, 0}}}, {1, 3, 4, 2}},
          {{2, 2, 1, {.padding = {0, 1}}}, {1, 3, 4, 2}},
          {{70, 2, 5, {.stride = 3, .padding = 3}}, {1, 6, 5, 70}},
          {{2, 3, 4}, {2, 4, 4, 2}}};
}

}  // namespace convolution_test
using namespace convolution_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_float64, Policy, AllPolicies) {
  for (const auto& [layer, images] : cases()) {
    BOOST_TEST_CONTEXT("weight " << layer.weight.shape.text() << ", images " << images.text()) {
      Session<Policy, One<>> session(One<>{layer});
      check<typename Policy::compute_type>(session, session.model.layer, images);
    }
  }
}

// Patches of which not all fit into the part of their matrix that is in memory: many images, and one large
// image.
BOOST_AUTO_TEST_CASE(results_and_gradients_of_several_chunks_match_float64) {
  for (const Shape& images : {Shape{20, 5, 5, 70}, Shape{2, 45, 8, 24}}) {
    Session<BFloat16Policy, One<>> session(
        One<>{{images[3], 1, {images[3] == 70 ? 3 : 25, 3}, {.padding = 1}}});
    const detail::PatchRows<bfloat16, Host> patches{
        detail::window_over("", images, session.model.layer.kernel(), 1, 1), nullptr};
    BOOST_TEST(patches.chunks() > 1);
    check<bfloat16>(session, session.model.layer, images);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(gradients_add_up_over_uses_of_a_layer_and_of_its_input, Policy, FloatAnd16Bits) {
  using T = typename Policy::compute_type;
  const auto run = [](bool first, bool second) {
    Session<Policy, One<>> session(One<>{{2, 2, 3, {.padding = 1}}});
    auto& tape = session.tape;
    Watched<T> watched({1, 4, 4, 2}, random_numbers(32, -1.0f, 1.0f));
    const auto x = watch(tape, watched);
    const auto one = weighted_sum(tape, session.model.layer(tape, x), random_numbers(32, -1.0f, 1.0f, 2));
    const auto two = weighted_sum(tape, session.model.layer(tape, x), random_numbers(32, -1.0f, 1.0f, 3));
    session.backward(first && second ? total(tape, one, two) : first ? one : two);
    auto all = session.gradient("layer.weight");
    for (const float value : session.gradient("layer.bias")) all.push_back(value);
    return std::pair(all, watched.gradient);
  };
  const auto one = run(true, false), two = run(false, true), both = run(true, true);
  for (std::size_t i = 0; i < both.first.size(); ++i) {
    BOOST_TEST(std::abs(both.first[i] - (one.first[i] + two.first[i])) <= 1e-5f);
  }
  std::vector<double> sums;
  for (std::size_t i = 0; i < both.second.size(); ++i) {
    sums.push_back(static_cast<double>(one.second[i]) + static_cast<double>(two.second[i]));
  }
  check_close(both.second, sums, Tolerance{tolerance_of<T>.relative, tolerance_of<T>.relative}.over(2));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  using T = typename Policy::compute_type;
  const auto [one, two] = with_one_and_two_threads([] {
    Session<Policy, One<>> session(One<>{{8, 4, 3, {.stride = 2, .padding = 1}}});
    Watched<T> x({3, 21, 17, 8}, random_numbers(3 * 21 * 17 * 8, -1.0f, 1.0f));
    const auto y = session.model.layer(session.tape, watch(session.tape, x));
    session.backward(weighted_sum(session.tape, y, random_numbers(y.size(), -1.0f, 1.0f, 3)));
    return std::vector{floats(y.value()), x.gradient, session.gradient("layer.weight"),
                       session.gradient("layer.bias")};
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(a_patch_overlapping_many_others_rounds_its_gradient_once) {
  // Nine shares of 1 + 2^-8 each: in bfloat16 one by one they would lose the 2^-8.
  Session<BFloat16Policy, One<>> session(One<>{{1, 1, 3, {.padding = 1, .bias = false}}});
  auto& tape = session.tape;
  for (float& value : session.parameters.master(0)) value = 1.0f;
  session.parameters.refresh_working_copy(0);
  Watched<bfloat16> x({1, 3, 3, 1}, std::vector<float>(9, 1.0f));
  const auto y = session.model.layer(tape, watch(tape, x));
  std::vector<float> dy(9, 0x1p-8f);
  dy[0] = 1.0f;
  session.backward(weighted_sum(tape, y, dy));
  BOOST_TEST(x.gradient[4] == 1.0f + 8 * 0x1p-8f);
}

BOOST_AUTO_TEST_CASE(a_batch_without_images_gives_gradients_of_zero) {
  Session<Float32Policy, One<>> session(One<>{{2, 3, 3}});
  const auto y = session.model.layer(session.tape, Tensor<const float>(nullptr, {0, 5, 5, 2}));
  BOOST_TEST((y.shape() == Shape{0, 3, 3, 3}));
  session.backward(weighted_sum(session.tape, y, {}));
  BOOST_TEST(session.gradient("layer.weight") == std::vector<float>(54, 0.0f));
  BOOST_TEST(session.gradient("layer.bias") == std::vector<float>(3, 0.0f));
}

BOOST_AUTO_TEST_CASE(first_values_are_those_of_pytorch_s_bounds) {
  Session<Float32Policy, One<>> session(One<>{{3, 64, 3}});
  const float bound = 1.0f / std::sqrt(27.0f);
  float largest = 0;
  for (const float value : session.master("layer.weight")) largest = (std::max)(largest, std::abs(value));
  BOOST_TEST((largest <= bound && largest > 0.99f * bound));
}

BOOST_AUTO_TEST_CASE(frozen_parameters_and_images_that_are_data_get_no_gradient) {
  One<> model{{1, 2, 3}};
  model.layer.weight.frozen = true;
  Session<BFloat16Policy, One<>> session(model);
  const std::vector<float> data(25, 1.0f);
  const auto y = session.model.layer(session.tape, Tensor<const float>(data.data(), {1, 5, 5, 1}));
  session.backward(weighted_sum(session.tape, y, std::vector<float>(18, 1.0f)));
  BOOST_TEST(!session.has_gradient("layer.weight"));
  BOOST_TEST(session.gradient("layer.bias") == (std::vector<float>{9.0f, 9.0f}));
}

namespace convolution_test {
struct InFloat : BFloat16Policy {
  using in_float = operation::List<operation::Convolution>;
};
}  // namespace convolution_test

BOOST_AUTO_TEST_CASE(a_policy_or_a_layer_computes_in_float) {
  static_assert(std::is_same_v<operation_type<BFloat16Policy, operation::Convolution>, bfloat16>);
  static_assert(std::is_same_v<operation_type<InFloat, operation::Convolution>, float>);
  static_assert(std::is_same_v<operation_type<InFloat, operation::Matmul>, bfloat16>);
  using Layer = ComputeIn<float, Convolution2d>;
  Session<BFloat16Policy, One<Layer>> session(One<Layer>{{1, 2, 3}});
  const std::vector<float> data(9, 1.0f);
  const auto y = session.model.layer(session.tape, Tensor<const float>(data.data(), {1, 3, 3, 1}));
  static_assert(std::is_same_v<decltype(y), const Variable<float>>);
  double sum = 0;
  for (const float value : session.master("layer.weight")) sum += static_cast<double>(value);
  for (const float value : session.master("layer.bias")) sum += static_cast<double>(value);
  BOOST_TEST(std::abs(static_cast<double>(y.data()[0] + y.data()[1]) - sum) <= 1e-5);
}

BOOST_AUTO_TEST_CASE(layers_and_images_that_cannot_be_are_refused) {
  const auto refused = [](std::int64_t in, std::int64_t out, Extents2d kernel, Convolution2dOptions options) {
    return refusal<ConfigurationError>([&] { Convolution2d(in, out, kernel, options); });
  };
  check_holds(refused(0, 2, 3, {}), {"Convolution2d{0, 2, 3 x 3}: the numbers of channels"});
  check_holds(refused(1, -2, 3, {}), {"channels"});
  check_holds(refused(1, 2, {3, 0}, {}), {"the kernel is 3 x 0; it must be 1 or more"});
  check_holds(refused(1, 2, 3, {.stride = 0}), {"the stride is 0 x 0"});
  check_holds(refused(1, 2, 3, {.stride = {1, -1}}), {"the stride is 1 x -1"});
  check_holds(refused(1, 2, 3, {.padding = -1}), {"the padding is -1 x -1; it must be 0 or more"});
  check_holds(refused(1, 2, 3, {.padding = std::int64_t{1} << 62}), {"2^30"});
  BOOST_CHECK_THROW(Convolution2d(1 << 30, 2, {1 << 30, 1 << 30}), ShapeError);

  Session<Float32Policy, One<>> session(One<>{{3, 2, {3, 5}, {.padding = {0, 1}}}});
  const std::vector<float> data(300, 1.0f);
  const auto text = [&](const Shape& shape) {
    return refusal<ShapeError>(
        [&] { session.model.layer(session.tape, Tensor<const float>(data.data(), shape)); });
  };
  check_holds(text({5, 5, 3}), {"[5, 5, 3]; they must have four extents"});
  check_holds(text({1, 5, 5, 4}), {"[1, 5, 5, 4]: their last extent, the channels, must be 3"});
  check_holds(text({1, 3, 5, 5}), {"moved to the end"});
  check_holds(text({1, 2, 5, 3}), {"a kernel of 3 x 5 has no place in 2 x 5 pixels with a padding of 0 x 1"});
  check_holds(text({1, 3, 2, 3}), {"no place in 3 x 2 pixels"});
  check_holds(text({1, 0, 5, 3}), {"no place"});
  BOOST_TEST(session.tape.arena().used() == 0u);
  BOOST_TEST((session.model.layer(session.tape, Tensor<const float>(data.data(), {1, 3, 3, 3})).shape() ==
              Shape{1, 1, 1, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
