#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/device/device.hpp>
#include <halfstep/nn/convolution.hpp>
#include <halfstep/nn/im2col.hpp>
#include <halfstep/nn/pooling.hpp>
#include <halfstep/nn/rotary.hpp>
#include <limits>
#include <vector>

#include "cuda/device_session.hpp"

BOOST_AUTO_TEST_SUITE(cuda_images_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace cuda_images_test {

struct PoolingCase {
  Shape images;
  Extents2d kernel;
  PoolingOptions options = {};
};

template <class Policy>
void compare_pooling(const PoolingCase& pooling) {
  using T = typename Policy::compute_type;
  BOOST_TEST_CONTEXT("images " << pooling.images.text() << ", kernel " << pooling.kernel.text()) {
    compare_devices<Policy>(NoLayers{}, [&](auto& session) {
      // Few values, so that windows hold equal ones.
      std::vector<T> values;
      for (const float number : random_numbers(pooling.images.size(), -4.0f, 4.0f))
        values.push_back(static_cast<T>(std::floor(number)));
      if (values.size() > 4) values[3] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      const auto x = session.input("x", pooling.images, values, 4);
      const auto largest = max_pool2d(session.tape, x, pooling.kernel, pooling.options);
      // NaN equals nothing, so that which elements are NaN is compared apart.
      std::vector<float> is_nan_there, numbers;
      for (const float value : downloaded_floats(session.device, largest.value())) {
        is_nan_there.push_back(is_nan(value) ? 1.0f : 0.0f);
        numbers.push_back(is_nan(value) ? 0.0f : value);
      }
      session.parts.push_back({"NaN of the largest", is_nan_there, {}});
      session.parts.push_back({"largest", numbers, {}});
      session.backward(largest, 1);
      session.tape.begin(Pass::training);
      const auto again = session.template input<T>("again", pooling.images, 4);
      const auto mean = average_pool2d(session.tape, again, pooling.kernel, pooling.options);
      session.keep("mean", mean);
      session.backward(mean, 1);
    });
  }
}

struct OneConvolution {
  Convolution2d layer;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

template <class Policy>
void compare_convolution(const Convolution2d& layer, const Shape& images) {
  using T = typename Policy::compute_type;
  BOOST_TEST_CONTEXT("weight " << layer.weight.shape.text() << ", images " << images.text()) {
    compare_devices<Policy>(OneConvolution{layer}, [&](auto& session) {
      const std::int64_t patch = layer.weight.shape.size() / layer.out_channels();
      const auto x = session.template input<T>("x", images, patch);
      const auto y = session.model.layer(session.tape, x);
      session.keep("y", y, patch);
      session.backward(y, 4 * y.shape().rows());
    });
  }
}

}  // namespace cuda_images_test
using namespace cuda_images_test;

BOOST_AUTO_TEST_CASE(pooling_is_that_of_the_host) {
  for (const PoolingCase& pooling :
       {PoolingCase{{2, 5, 7, 3}, 2}, PoolingCase{{1, 1, 1, 1}, 1}, PoolingCase{{0, 4, 4, 2}, 2},
        PoolingCase{{2, 6, 5, 4}, {3, 5}, {.stride = {1, 2}, .padding = {1, 2}}},
        PoolingCase{{1, 3, 20, 67}, {3, 2}, {.stride = 1, .padding = {0, 1}}}}) {
    compare_pooling<Float32Policy>(pooling);
    compare_pooling<BFloat16Policy>(pooling);
  }
}

BOOST_AUTO_TEST_CASE(convolutions_are_those_of_the_host) {
  compare_convolution<Float32Policy>({3, 5, 3, {.padding = 1}}, {2, 5, 7, 3});
  compare_convolution<Float16ScaledPolicy>({2, 4, {2, 3}, {.stride = 2, .padding = {1, 2}, .bias = false}},
                                           {3, 7, 6, 2});
  compare_convolution<Float32Policy>({4, 2, 1}, {2, 3, 5, 4});
  compare_convolution<Float32Policy>({2, 2, 1, {.stride = {1, 2}}}, {0, 3, 4, 2});
}

BOOST_AUTO_TEST_CASE(patches_that_come_in_several_parts_are_added_up_as_at_once) {
  Cuda cuda;
  const detail::Window2d window = detail::window_over("a window", {2, 6, 5, 3}, {3, 2}, {2, 1}, {1, 1});
  const std::int64_t columns = window.area() * window.channels;
  const auto numbers = random_numbers(window.rows() * columns, -1.0f, 1.0f);
  const auto scattered = [&](std::int64_t lines_at_once) {
    Arena<Cuda> arena(cuda);
    const Shape shape{window.batch, window.height, window.width, window.channels};
    const Tensor<float> images(arena.allocate<float>(shape.size()), shape);
    float* const sums = arena.allocate<float>(shape.size());
    float* const patches = arena.allocate<float>(lines_at_once * window.out_width * columns);
    for (std::int64_t image = 0; image < window.batch; ++image) {
      for (std::int64_t line = 0; line < window.out_height; line += lines_at_once) {
        const std::int64_t first = image * window.out_height + line,
                           count = (std::min)(lines_at_once, window.out_height - line);
        cuda.upload(patches, numbers.data() + first * window.out_width * columns,
                    static_cast<std::size_t>(count * window.out_width * columns) * sizeof(float));
        const detail::ScatterPatches<float> kernel{window,
                                                   patches,
                                                   image,
                                                   1,
                                                   first,
                                                   first + count,
                                                   sums,
                                                   line == 0,
                                                   line + count == window.out_height,
                                                   {images.data(), false}};
        compute::for_each_task(cuda, window.height, kernel);
      }
    }
    return downloaded_floats(cuda, Tensor<const float>(images));
  };
  const auto at_once = scattered(window.out_height);
  BOOST_TEST(scattered(1) == at_once, boost::test_tools::per_element());
  BOOST_TEST(scattered(2) == at_once, boost::test_tools::per_element());
  for (const float value : at_once) BOOST_TEST(is_finite(value));
}

BOOST_AUTO_TEST_CASE(rotary_positions_are_those_of_the_host) {
  struct Case {
    Shape shape;
    RotaryOptions options;
  };
  for (const Case& c :
       {Case{{2, 7, 12}, {.head_width = 4, .first_position = 100}}, Case{{1, 2}, {.head_width = 2}},
        Case{{1, 131, 6}, {.head_width = 6, .base = 500.0f}}, Case{{2, 3, 1028}, {.head_width = 514}}}) {
    compare_devices<Float32Policy>(NoLayers{}, [&](auto& session) {
      const auto x = session.template input<float>("x", c.shape, 2);
      const auto y = rotary(session.tape, x, c.options);
      session.keep("y", y);
      session.backward(rotary<float16>(session.tape, y, c.options), 1);
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
