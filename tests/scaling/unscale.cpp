#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/scaling/scalers.hpp>
#include <halfstep/scaling/unscale.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(unscale_tests)

using namespace halfstep;

namespace {

static_assert(window_normalizer(0) == 1 && window_normalizer(1) == 1 && window_normalizer(2) == 2);
static_assert(window_normalizer(3) == 2 && window_normalizer(4) == 4 && window_normalizer(1437) == 1024);
static_assert(window_normalizer((std::int64_t{1} << 40) + 1) == 0x1p40);
static_assert(loss_seed(65536, 1024) == 64);
static_assert(inverse_scale(65536, 1, 1) == 0x1p-16f);
static_assert(inverse_scale(65536, 1024, 1024) == 0x1p-16f);
static_assert(inverse_scale(1, 2, 3) == static_cast<float>(2.0 / 3.0));

/// The unscaled gradient of a window whose samples have these derivatives, micro-batch by micro-batch.
float window_gradient(const std::vector<std::vector<float>>& micro_batches, float scale) {
  double normalizer = 0;
  std::int64_t valid = 0;
  float accumulated = 0;
  for (const auto& samples : micro_batches) {
    if (samples.empty()) continue;
    if (valid == 0) normalizer = window_normalizer(static_cast<std::int64_t>(samples.size()));
    for (const float derivative : samples) accumulated += loss_seed(scale, normalizer) * derivative;
    valid += static_cast<std::int64_t>(samples.size());
  }
  return accumulated * inverse_scale(scale, normalizer, valid);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_count_alike_whatever_micro_batch_they_came_in) {
  // y = w * x at w = 0, x = 1: d (y - t)^2 / 2 / d w = -t.
  BOOST_TEST(window_gradient({{-1, -1, -1}, {-5}}, 65536) == -2.0f);
  BOOST_TEST(window_gradient({{-1, -1, -1, -5}}, 65536) == -2.0f);
  BOOST_TEST(window_gradient({{-5}, {-1, -1, -1}}, 65536) == -2.0f);
  BOOST_TEST(window_gradient({{}, {-1, -1, -1}, {}, {-5}}, 65536) == -2.0f);
}

BOOST_AUTO_TEST_CASE(a_short_last_window_is_divided_by_what_it_holds) {
  for (const std::size_t micro_batches : {4u, 4u, 2u, 3u, 1u}) {
    for (const std::size_t size : {1u, 2u, 8u}) {
      const std::vector<std::vector<float>> window(micro_batches, std::vector<float>(size, 1.0f));
      BOOST_TEST(window_gradient(window, 65536) == 1.0f);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_power_of_two_of_scale_and_samples_costs_no_bit) {
  for (const float gradient : {0.1f, -3.3333333f, 1e-20f, 12345.678f}) {
    for (int exponent = -16; exponent <= 40; ++exponent) {
      const float scale = std::ldexp(1.0f, exponent);
      BOOST_TEST(window_gradient({{gradient, gradient}, {gradient, gradient}}, scale) == gradient);
    }
  }
}

BOOST_AUTO_TEST_CASE(seed_and_inverse_are_neither_zero_nor_infinite_for_any_scale_that_options_admit) {
  for (const float scale : {smallest_loss_scale, 1.0f, 0x1p127f, largest_loss_scale}) {
    for (const std::int64_t first : {std::int64_t{1}, std::int64_t{1} << 20, std::int64_t{1} << 62}) {
      const std::int64_t many = first < (1 << 20) ? first + (1 << 20) : first;
      for (const std::int64_t all : {first, many}) {
        const double normalizer = window_normalizer(first);
        const float seed = loss_seed(scale, normalizer), inverse = inverse_scale(scale, normalizer, all);
        BOOST_TEST((seed > 0 && std::isfinite(seed)));
        BOOST_TEST((inverse > 0 && std::isfinite(inverse)));
      }
    }
  }
  BOOST_TEST(std::isfinite(inverse_scale(65536, 1, 0)));
}

BOOST_AUTO_TEST_SUITE_END()
