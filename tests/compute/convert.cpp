#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include <halfstep/compute/convert.hpp>

BOOST_AUTO_TEST_SUITE(convert_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(a_parallel_conversion_is_that_of_each_element) {
  Host host;
  // The last is long enough for stores past the cache, in both directions.
  constexpr std::int64_t long_array = halfstep::detail::streaming_bytes / 2 + 8191;
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{5}, compute::chunk_size * 9 + 11, long_array}) {
    std::vector<float> from(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) * 1.0009765625f - 700.0f;
    std::vector<float16> to(from.size());
    compute::convert(host, from.data(), to.data(), n);
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (to[i].bits() != float16(from[i]).bits()) BOOST_FAIL("element " << i << " of " << n);
    }
    std::vector<float> back(from.size());
    compute::convert(host, to.data(), back.data(), n);
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (back[i] != static_cast<float>(to[i])) BOOST_FAIL("element " << i << " of " << n);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
