#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include <halfstep/device/device.hpp>
#include <halfstep/nn/cross_entropy.hpp>
#include <halfstep/nn/mean_squared_error.hpp>
#include <halfstep/nn/sum.hpp>

#include "cuda/double/cuda_runtime.hpp"
#include "cuda/tape_on.hpp"
#include "support/tolerance.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace losses_test {

using Policies = std::tuple<Float32Policy, BFloat16Policy, Float16ScaledPolicy>;
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Result {
  std::vector<float> loss;
  std::int64_t count;
  std::vector<float> gradient;
};

template <class Policy, class Device, class MakeLoss>
Result result_on(Shape shape, const std::vector<float>& numbers, float seed, const MakeLoss& make_loss) {
  using T = typename Policy::compute_type;
  TapeOn<Policy, Device> session;
  const auto input = session.template input<T>(shape, numbers);
  const Loss loss = make_loss(session, input);
  session.backward(loss.sum, seed);
  return {session.values(loss.sum), loss.count, session.template gradients<T>()[0]};
}

void check_same_or_close(const std::vector<float>& actual, const std::vector<float>& expected, Tolerance tolerance) {
  BOOST_TEST_REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const float a = actual[i], e = expected[i];
    const double distance = std::fabs(static_cast<double>(a) - static_cast<double>(e));
    const bool same = is_finite(e) ? distance <= tolerance.at(static_cast<double>(e))
                                   : a == e || (std::isnan(a) && std::isnan(e));
    BOOST_TEST(same, "element " << i << ": " << a << " instead of " << e);
  }
}

/// The same loss on both devices: on the GPU without waiting for it.
template <class Policy, class MakeLoss>
Result check_devices_agree(Shape shape, const std::vector<float>& numbers, float seed, const MakeLoss& make_loss,
                           Tolerance loss_tolerance = float_tolerance) {
  using T = typename Policy::compute_type;
  const Result host = result_on<Policy, Host>(shape, numbers, seed, make_loss);
  halfstep_test::reset_cuda_calls();
  const auto without_waiting = [&](auto& session, const auto& input) {
    const Loss loss = make_loss(session, input);
    BOOST_TEST(halfstep_test::cuda_calls().stream_waits == 0);
    BOOST_TEST(halfstep_test::cuda_calls().copies_to_host == 0);
    return loss;
  };
  const Result cuda = result_on<Policy, Cuda>(shape, numbers, seed, without_waiting);
  BOOST_TEST(cuda.count == host.count);
  check_same_or_close(cuda.loss, host.loss, loss_tolerance);
  check_same_or_close(cuda.gradient, host.gradient, tolerance_of<T>);
  return cuda;
}

std::vector<std::int32_t> some_labels(std::int64_t rows, std::int64_t classes, bool with_ignored) {
  std::vector<std::int32_t> labels;
  for (std::int64_t r = 0; r < rows; ++r) {
    labels.push_back(with_ignored && r % 3 == 1 ? -100 : static_cast<std::int32_t>((r * 7 + 3) % classes));
  }
  return labels;
}

template <class L>
auto entropy_of(const std::vector<L>& labels, CrossEntropyOptions options = {}) {
  return [&labels, options](auto& session, const auto& input) {
    return cross_entropy(session.tape, input, Tensor<const L>(labels.data(), {std::ssize(labels)}), options);
  };
}

}  // namespace losses_test

BOOST_AUTO_TEST_SUITE(losses_tests)

using namespace losses_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(cross_entropy_and_its_gradient_are_the_hosts, Policy, Policies) {
  // Both cuts: up to 1024 classes a row is a warp's, from there on a block's.
  const std::vector<Shape> shapes{{1, 1}, {2, 3, 7}, {29, 10}, {3, 1024}, {2, 1031}};
  for (const Shape& shape : shapes) {
    for (const float smoothing : {0.0f, 0.1f, 1.0f}) {
      for (const bool with_ignored : {false, true}) {
        BOOST_TEST_CONTEXT(shape.text() << ", smoothing " << smoothing << ", ignored rows " << with_ignored) {
          const auto labels = some_labels(shape.rows(), shape.columns(), with_ignored);
          check_devices_agree<Policy>(shape, random_numbers(shape.size(), -3.0f, 3.0f), 0.5f,
                                      entropy_of(labels, {.label_smoothing = smoothing}),
                                      float_tolerance.over(shape.columns()));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(large_and_rising_logits_neither_overflow_nor_lose_digits, Policy, Policies) {
  // Every element of the last two rows is a new maximum, in steps that the exponential sees and in steps far beyond it.
  std::vector<float> numbers{32768.0f, 32768.0f, 0.0f, 256.0f, -32768.0f, -32768.0f, -32768.0f, 256.0f};
  for (const float step : {0.25f, 1024.0f})
    for (int k = -2; k < 2; ++k) numbers.push_back(static_cast<float>(k) * step);
  const std::vector<std::int64_t> labels{1, 3, 0, 2};
  check_devices_agree<Policy>({4, 4}, numbers, 1.0f, entropy_of(labels));
}

BOOST_AUTO_TEST_CASE(infinite_and_undefined_logits_show_as_on_the_host) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> rows{{-infinity, 1, 2},          {1, -infinity, -infinity}, {1, infinity, 2},
                                             {infinity, 1, infinity},    {1, nan, 2},               {nan, nan, nan},
                                             {-infinity, -infinity, -infinity}};
  for (const auto& row : rows) {
    for (const int label : {0, 1}) {
      for (const float smoothing : {0.0f, 0.1f, 1.0f}) {
        BOOST_TEST_CONTEXT(row[0] << ' ' << row[1] << ' ' << row[2] << ", label " << label) {
          const std::vector<std::uint8_t> labels{static_cast<std::uint8_t>(label)};
          check_devices_agree<Float32Policy>({1, 3}, row, 1.0f, entropy_of(labels, {.label_smoothing = smoothing}));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(logits_read_by_two_losses_get_both_gradients, Policy, Policies) {
  const std::vector<std::int64_t> first{0, 1, -100}, second{3, -100, 2};
  check_devices_agree<Policy>({3, 4}, random_numbers(12, -1.0f, 1.0f), 1.0f, [&](auto& session, const auto& input) {
    const Loss one = entropy_of(first)(session, input);
    const Loss two = entropy_of(second)(session, input);
    return Loss{session.total(one.sum, two.sum), one.count + two.count};
  });
}

BOOST_AUTO_TEST_CASE(a_batch_of_ignored_rows_counts_nothing) {
  const std::vector<std::int64_t> labels{-100, -100};
  const auto result = check_devices_agree<Float16ScaledPolicy>({2, 3}, {1, infinity, 3, 4, 5, 6}, 1.0f,
                                                               entropy_of(labels, {.label_smoothing = 0.1f}));
  BOOST_TEST(result.count == 0);
  BOOST_TEST(result.loss == std::vector<float>{0.0f});
  BOOST_TEST(result.gradient == std::vector<float>(6, 0.0f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(squared_errors_and_sums_and_their_gradients_are_the_hosts, Policy, Policies) {
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 11}, Shape{2, 4099}}) {
    const auto numbers = random_numbers(shape.size(), -2.0f, 2.0f), targets = random_numbers(shape.size(), -2, 2, 8);
    check_devices_agree<Policy>(shape, numbers, 2.0f, [&](auto& session, const auto& input) {
      const Loss error = mean_squared_error(session.tape, input, Tensor<const float>(targets.data(), shape));
      const Loss plain = sum(session.tape, input);
      return Loss{session.total(error.sum, plain.sum), error.count + plain.count};
    });
  }
}

BOOST_AUTO_TEST_CASE(nothing_sums_to_zero) {
  const auto result = check_devices_agree<Float32Policy>({0, 5}, {}, 1.0f, [](auto& session, const auto& input) {
    return sum(session.tape, input);
  });
  BOOST_TEST(result.loss == std::vector<float>{0.0f});
}

BOOST_AUTO_TEST_SUITE_END()
