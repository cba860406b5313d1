#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/device/device.hpp>
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

BOOST_AUTO_TEST_CASE(rotary_positions_are_those_of_the_host) {
  struct Case {
    Shape shape;
    RotaryOptions options;
  };
  for (const auto& [shape, options] :
       {Case{{2, 7, 12}, {.head_width = 4, .first_position = 100}}, Case{{1, 2}, {.head_width = 2}},
        Case{{1, 131, 6}, {.head_width = 6, .base = 500.0f}}, Case{{2, 3, 1028}, {.head_width = 514}}}) {
    compare_devices<Float32Policy>(NoLayers{}, [&](auto& session) {
      const auto x = session.template input<float>("x", shape, 2);
      const auto y = rotary(session.tape, x, options);
      session.keep("y", y);
      session.backward(rotary<float16>(session.tape, y, options), 1);
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
