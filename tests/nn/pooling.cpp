#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/pooling.hpp>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/refusal.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(pooling_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace pooling_test {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Both poolings in double, by the definition.
struct Reference {
  std::vector<double> largest, mean, largest_gradient, mean_gradient;

  Reference(const Shape& images, Extents2d kernel, Extents2d stride, Extents2d padding,
            const std::vector<double>& x, const std::vector<float>& dy) {
    const std::int64_t out_height = (images[1] + 2 * padding.height - kernel.height) / stride.height + 1;
    const std::int64_t out_width = (images[2] + 2 * padding.width - kernel.width) / stride.width + 1;
    largest_gradient.assign(x.size(), 0.0);
    mean_gradient.assign(x.size(), 0.0);
    for (std::int64_t o = 0; o < images[0] * out_height * out_width; ++o) {
      const std::int64_t image = o / (out_height * out_width), line = o / out_width % out_height;
      for (std::int64_t c = 0; c < images[3]; ++c) {
        std::vector<std::size_t> seen;
        for (std::int64_t k = 0; k < kernel.height * kernel.width; ++k) {
          const std::int64_t r = line * stride.height - padding.height + k / kernel.width;
          const std::int64_t s = o % out_width * stride.width - padding.width + k % kernel.width;
          if (r < 0 || r >= images[1] || s < 0 || s >= images[2]) continue;
          seen.push_back(static_cast<std::size_t>(((image * images[1] + r) * images[2] + s) * images[3] + c));
        }
        const auto g = static_cast<double>(dy[largest.size()]);
        const auto area = static_cast<double>(kernel.height * kernel.width);
        const auto first =
            *std::max_element(seen.begin(), seen.end(), [&](auto a, auto b) { return x[a] < x[b]; });
        double sum = 0;
        for (const std::size_t pixel : seen) {
          sum += x[pixel];
          mean_gradient[pixel] += g / area;
        }
        largest.push_back(x[first]);
        largest_gradient[first] += g;
        mean.push_back(sum / area);
      }
    }
  }
};

}  // namespace pooling_test
using namespace pooling_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(results_and_gradients_match_float64, Policy, AllPolicies) {
  using T = typename Policy::compute_type;
  struct Case {
    Shape images;
    Extents2d kernel;
    PoolingOptions options;
  };
  for (const auto& [images, kernel, options] :
       {Case{{2, 4, 6, 3}, 2, {}}, Case{{1, 5, 7, 2}, 2, {}},
        Case{{2, 7, 5, 70}, {3, 2}, {.stride = 2, .padding = 1}},
        Case{{1, 6, 5, 1}, {5, 3}, {.stride = {1, 3}, .padding = {2, 0}}},
        Case{{1, 3, 4, 2}, 1, {.stride = 2}}}) {
    BOOST_TEST_CONTEXT("images " << images.text() << ", kernel " << kernel.text()) {
      Session<Policy> session;
      auto& tape = session.tape;
      // Few values, so that several are the largest.
      auto numbers = random_numbers(images.size(), -3.0f, 3.0f);
      for (std::size_t i = 0; i < numbers.size(); i += 2)
        numbers[i] = static_cast<float>(static_cast<int>(numbers[i]));
      Watched<T> x(images, numbers), x2(images, numbers);
      const auto max = max_pool2d(tape, watch(tape, x), kernel, options);
      const auto mean = average_pool2d(tape, watch(tape, x2), kernel, options);
      static_assert(std::is_same_v<decltype(max), const Variable<T>> &&
                    std::is_same_v<decltype(mean), const Variable<T>>);
      const auto dy = rounded<T>(random_numbers(max.size(), -1.0f, 1.0f, 4));
      session.backward(total(tape, weighted_sum(tape, max, dy), weighted_sum(tape, mean, dy)));
      const Extents2d stride = options.stride.height == 0 ? kernel : options.stride;
      const Reference exact(images, kernel, stride, options.padding, x.exact(), dy);
      BOOST_TEST((max.shape() == mean.shape()));
      check_close(floats(max.value()), exact.largest, Tolerance{0, 0});
      check_close(floats(mean.value()), exact.mean, tolerance_of<T>);
      check_close(x.gradient, exact.largest_gradient, tolerance_of<T>);
      check_close(x2.gradient, exact.mean_gradient, tolerance_of<T>);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_first_of_equal_values_gets_the_gradient_and_a_nan_is_the_largest, Policy,
                              FloatAnd16Bits) {
  using T = typename Policy::compute_type;
  Session<Policy> session;
  auto& tape = session.tape;
  Watched<T> x({1, 2, 10, 1}, {1, 1, -0.0f, 0, nan, 9,   infinity, nan, -infinity, -infinity,  //
                               1, 1, 0,     0, 9,   nan, 9,        9,   -infinity, -infinity});
  const auto y = max_pool2d(tape, watch(tape, x), 2);
  session.backward(weighted_sum(tape, y, {1, 2, 3, 4, 5}));
  const auto values = floats(y.value());
  BOOST_TEST(
      (values[0] == 1 && values[1] == 0 && is_nan(values[2]) && is_nan(values[3]) && values[4] == -infinity));
  const std::vector<float> expected{1, 0, 2, 0, 3, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  BOOST_TEST(x.gradient == expected, boost::test_tools::per_element());
  BOOST_TEST(is_nan(average_pool2d(tape, watch(tape, x), 2).value()[2]));
}

BOOST_AUTO_TEST_CASE(padding_is_never_the_largest_and_counts_in_the_mean) {
  Session<Float32Policy> session;
  auto& tape = session.tape;
  const std::vector<float> x(4, -6.0f);
  const Tensor<const float> image(x.data(), {1, 2, 2, 1});
  BOOST_TEST(floats(max_pool2d(tape, image, 2, {.padding = 1}).value()) == std::vector<float>(4, -6.0f));
  BOOST_TEST(floats(average_pool2d(tape, image, 2, {.padding = 1}).value()) == std::vector<float>(4, -1.5f));
}

BOOST_AUTO_TEST_CASE(a_gradient_is_added_to_what_came_before) {
  Session<BFloat16Policy> session;
  auto& tape = session.tape;
  Watched<bfloat16> x({1, 2, 2, 1}, {1, 4, 2, 3});
  const auto input = watch(tape, x);
  const auto max = weighted_sum(tape, max_pool2d(tape, input, 2), {1});
  const auto mean = weighted_sum(tape, average_pool2d(tape, input, 2), {4});
  session.backward(total(tape, total(tape, max, mean), weighted_sum(tape, input, {8, 8, 8, 8})));
  BOOST_TEST(x.gradient == (std::vector<float>{9, 10, 9, 9}));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, Policy, ThreadPolicies) {
  const auto [one, two] = with_one_and_two_threads([] {
    Session<Policy> session;
    auto& tape = session.tape;
    Watched<typename Policy::compute_type> x({3, 21, 17, 8}, random_numbers(3 * 21 * 17 * 8, -1.0f, 1.0f));
    const auto y = average_pool2d(tape, max_pool2d(tape, watch(tape, x), 3, {.stride = 1, .padding = 1}), 3,
                                  {.stride = 2});
    session.backward(weighted_sum(tape, y, random_numbers(y.size(), -1.0f, 1.0f, 3)));
    return std::vector{floats(y.value()), x.gradient};
  });
  BOOST_TEST((one == two));
}

BOOST_AUTO_TEST_CASE(empty_batches_and_data_without_a_gradient_are_pooled) {
  Session<Float32Policy> session;
  const std::vector<float> data{1, 2, 3, 4};
  const auto y = max_pool2d(session.tape, Tensor<const float>(data.data(), {1, 2, 2, 1}), 2);
  BOOST_TEST((!y.requires_gradient() && y.data()[0] == 4.0f));
  BOOST_TEST((average_pool2d(session.tape, Tensor<const float>(nullptr, {0, 5, 4, 3}), 2).shape() ==
              Shape{0, 2, 2, 3}));
}

BOOST_AUTO_TEST_CASE(windows_and_images_that_cannot_be_are_refused) {
  Session<Float32Policy> session;
  const std::vector<float> data(60, 1.0f);
  const auto configuration = [&](Extents2d kernel, PoolingOptions options) {
    const Tensor<const float> image(data.data(), {1, 4, 5, 3});
    return refusal<ConfigurationError>([&] { max_pool2d(session.tape, image, kernel, options); });
  };
  check_holds(configuration(0, {}), {"max_pool2d: the kernel is 0 x 0"});
  check_holds(configuration(2, {.stride = -1}), {"the stride is -1 x -1"});
  check_holds(configuration(2, {.stride = {0, 1}}), {"the stride is 0 x 1"});
  check_holds(configuration(2, {.padding = -1}), {"the padding is -1 x -1"});
  check_holds(configuration({2, 3}, {.padding = {1, 2}}), {"the padding is 1 x 2 for a kernel of 2 x 3"});
  check_holds(configuration({2, 3}, {.padding = {2, 1}}), {"the padding is 2 x 1 for a kernel of 2 x 3"});
  const auto shape = [&](const Shape& images, Extents2d kernel) {
    return refusal<ShapeError>(
        [&] { average_pool2d(session.tape, Tensor<const float>(data.data(), images), kernel); });
  };
  check_holds(shape({4, 5, 3}, 2), {"average_pool2d got images of shape [4, 5, 3]"});
  check_holds(shape({1, 4, 5, 3}, {5, 1}), {"a kernel of 5 x 1 has no place in 4 x 5 pixels"});
  check_holds(shape({0, 1 << 20, 1 << 20, 1}, 2), {"2^30 pixels"});
  BOOST_TEST(session.tape.arena().used() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
