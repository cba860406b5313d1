#include <boost/test/unit_test.hpp>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>
#if defined(_OPENMP)
#include <omp.h>
#endif

#include <halfstep/compute/reduce.hpp>

BOOST_AUTO_TEST_SUITE(reduce_tests)

using namespace halfstep;

#if defined(_OPENMP)
namespace {

std::vector<float> waves(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 1e3f;
  return values;
}

float sum(const std::vector<float>& values) {
  Host host;
  Arena<Host> arena(host);
  const float* data = values.data();
  float result = -1;
  compute::reduce(host, arena, static_cast<std::int64_t>(values.size()), [data](std::int64_t i) { return data[i]; },
                  0.0f, compute::Plus{}, &result);
  return result;
}

}  // namespace
#endif

BOOST_AUTO_TEST_CASE(sums_of_integers_are_exact_for_every_size) {
  Host host;
  Arena<Host> arena(host);
  for (std::int64_t n = 0; n < 70; ++n) {
    std::int64_t result = -1;
    compute::reduce(host, arena, n, [](std::int64_t i) { return i; }, std::int64_t{0}, compute::Plus{}, &result);
    BOOST_REQUIRE(result == n * (n - 1) / 2);
  }
  const std::int64_t large = 1'000'003;
  std::int64_t result = -1;
  compute::reduce(host, arena, large, [](std::int64_t i) { return i; }, std::int64_t{0}, compute::Plus{}, &result);
  BOOST_TEST(result == large * (large - 1) / 2);
}

BOOST_AUTO_TEST_CASE(the_largest_of_negative_numbers_is_found) {
  Host host;
  Arena<Host> arena(host);
  const std::vector<float> values{-5, -2, -7};
  const float* data = values.data();
  float result = 0;
  compute::reduce(host, arena, 3, [data](std::int64_t i) { return data[i]; }, -1e30f, compute::Maximum{}, &result);
  BOOST_TEST(result == -2.0f);
}

#if defined(_OPENMP)
BOOST_AUTO_TEST_CASE(a_sum_has_the_same_bits_for_every_number_of_threads) {
  const std::vector<float> values = waves(1'234'567);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::uint32_t one = std::bit_cast<std::uint32_t>(sum(values));
  for (const int count : {2, 3, 5}) {
    omp_set_num_threads(count);
    BOOST_TEST(std::bit_cast<std::uint32_t>(sum(values)) == one);
  }
  omp_set_num_threads(threads);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
