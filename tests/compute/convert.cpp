#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include <halfstep/compute/convert.hpp>

BOOST_AUTO_TEST_SUITE(convert_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(a_parallel_conversion_is_that_of_each_element) {
  Host host;
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{5}, compute::chunk_size * 9 + 11}) {
    std::vector<float> from(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) * 1.0009765625f - 700.0f;
    std::vector<float16> to(from.size());
    compute::convert(host, from.data(), to.data(), n);
    for (std::size_t i = 0; i < from.size(); ++i) BOOST_REQUIRE(to[i].bits() == float16(from[i]).bits());
    std::vector<float> back(from.size());
    compute::convert(host, to.data(), back.data(), n);
    for (std::size_t i = 0; i < from.size(); ++i) BOOST_REQUIRE(back[i] == static_cast<float>(to[i]));
  }
}

BOOST_AUTO_TEST_SUITE_END()
