#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <halfstep/error.hpp>
#include <halfstep/nn/initializer.hpp>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

BOOST_AUTO_TEST_SUITE(initializer_tests)

using halfstep::ConfigurationError;
using halfstep::Initializer;

namespace {

std::vector<float> values_of(Initializer initializer, std::size_t count, std::uint64_t seed = 1,
                             const char* name = "hidden.weight") {
  std::vector<float> values(count, -77.0f);
  initializer.fill(values, seed, name);
  return values;
}

double mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

double variance(const std::vector<float>& values) {
  const double center = mean(values);
  double sum = 0;
  for (const float value : values)
    sum += (static_cast<double>(value) - center) * (static_cast<double>(value) - center);
  return sum / static_cast<double>(values.size());
}

void check_refusal(Initializer (*make)(), const char* text) {
  BOOST_CHECK_EXCEPTION(make(), ConfigurationError, [&](const ConfigurationError& error) {
    return std::string(error.what()).find(text) != std::string::npos;
  });
}

// Large enough that four standard errors lie well under the bounds below.
constexpr std::size_t many = 100000;

}  // namespace

static_assert(std::is_trivially_copyable_v<Initializer>);

BOOST_AUTO_TEST_CASE(constants_fill_every_element) {
  BOOST_TEST(values_of({}, 5) == std::vector<float>(5, 0.0f));
  BOOST_TEST(values_of(Initializer::zeros(), 5) == std::vector<float>(5, 0.0f));
  BOOST_TEST(values_of(Initializer::ones(), 5) == std::vector<float>(5, 1.0f));
  BOOST_TEST(values_of(Initializer::constant(-0.25f), 5) == std::vector<float>(5, -0.25f));
  BOOST_TEST(values_of(Initializer::ones(), 0).empty());
}

BOOST_AUTO_TEST_CASE(uniform_values_fill_the_interval_evenly) {
  const auto values = values_of(Initializer::uniform(0.5f), many);
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  BOOST_TEST(*least >= -0.5f);
  BOOST_TEST(*least < -0.4999f);
  BOOST_TEST(*largest < 0.5f);
  BOOST_TEST(*largest > 0.4999f);
  BOOST_TEST(std::fabs(mean(values)) < 0.004);
  BOOST_TEST(std::fabs(variance(values) - 1.0 / 12.0) < 0.002);
}

BOOST_AUTO_TEST_CASE(normal_values_have_the_deviation_asked_for) {
  const auto values = values_of(Initializer::normal(0.02f), many);
  BOOST_TEST(std::fabs(mean(values)) < 0.0003);
  BOOST_TEST(std::fabs(std::sqrt(variance(values)) - 0.02) < 0.0003);
  const auto beyond_two =
      std::count_if(values.begin(), values.end(), [](float v) { return std::fabs(v) > 0.04f; });
  BOOST_TEST(std::fabs(static_cast<double>(beyond_two) / static_cast<double>(many) - 0.0455) < 0.004);
}

BOOST_AUTO_TEST_CASE(bounds_follow_the_fans) {
  for (const float value : values_of(Initializer::kaiming_uniform(64), 4000))
    BOOST_TEST(std::fabs(value) <= 0.125f);
  const auto kaiming = values_of(Initializer::kaiming_uniform(64), 4000);
  BOOST_TEST(*std::max_element(kaiming.begin(), kaiming.end()) > 0.124f);
  const auto xavier = values_of(Initializer::xavier_uniform(10, 14), 4000);
  for (const float value : xavier) BOOST_TEST(std::fabs(value) <= 0.5f);
  BOOST_TEST(*std::max_element(xavier.begin(), xavier.end()) > 0.498f);
}

BOOST_AUTO_TEST_CASE(values_depend_on_seed_name_and_index_alone) {
  const auto initializer = Initializer::uniform(1.0f);
  const auto values = values_of(initializer, 11, 5, "a");
  BOOST_TEST(values == values_of(initializer, 11, 5, "a"));
  BOOST_TEST(values != values_of(initializer, 11, 6, "a"));
  BOOST_TEST(values != values_of(initializer, 11, 5, "b"));
  for (std::size_t size = 1; size < 11; ++size) {
    const auto part = values_of(initializer, size, 5, "a");
    BOOST_TEST(std::equal(part.begin(), part.end(), values.begin()), "the first " << size << " values");
  }
  const auto normal = values_of(Initializer::normal(1.0f), 11, 5, "a");
  const auto fewer = values_of(Initializer::normal(1.0f), 6, 5, "a");
  BOOST_TEST(std::equal(fewer.begin(), fewer.end(), normal.begin()));
}

BOOST_AUTO_TEST_CASE(values_do_not_repeat) {
  const auto values = values_of(Initializer::uniform(1.0f), 1000);
  // 1000 draws among 2^24: a pair of equal ones has probability 0.03, four of them none to speak of.
  BOOST_TEST(std::set<float>(values.begin(), values.end()).size() > 996u);
}

BOOST_AUTO_TEST_CASE(numbers_that_make_no_sense_are_refused) {
  check_refusal([] { return Initializer::uniform(-1.0f); }, "uniform: bound is -1.0");
  check_refusal([] { return Initializer::uniform(std::numeric_limits<float>::infinity()); }, "bound is inf");
  check_refusal([] { return Initializer::normal(std::numeric_limits<float>::quiet_NaN()); },
                "standard_deviation is nan");
  check_refusal([] { return Initializer::kaiming_uniform(0); }, "kaiming_uniform: a fan is 0");
  check_refusal([] { return Initializer::xavier_uniform(3, -2); }, "xavier_uniform: a fan is -2");
}

BOOST_AUTO_TEST_SUITE_END()
