#include <boost/test/unit_test.hpp>
#include <atomic>
#include <cstdint>
#include <vector>

#include <halfstep/compute/for_each.hpp>

BOOST_AUTO_TEST_SUITE(for_each_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(every_index_is_called_exactly_once_for_every_size) {
  Host host;
  const std::int64_t chunk = compute::chunk_size;
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, chunk - 1, chunk, chunk + 1,
                               3 * chunk + 5, 20 * chunk + 3}) {
    std::vector<int> calls(static_cast<std::size_t>(n), 0);
    int* count = calls.data();
    compute::for_each(host, n, [count](std::int64_t i) { ++count[i]; });
    for (const int c : calls) BOOST_REQUIRE(c == 1);
  }
}

BOOST_AUTO_TEST_CASE(every_task_is_called_exactly_once) {
  Host host;
  for (const std::int64_t tasks : {0, 1, 2, 7, 100}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(tasks));
    compute::for_each_task(host, tasks, [&](std::int64_t task) { ++calls[static_cast<std::size_t>(task)]; });
    compute::for_each_chunk(host, tasks, [&](std::int64_t task) { ++calls[static_cast<std::size_t>(task)]; });
    for (const auto& c : calls) BOOST_REQUIRE(c == 2);
  }
}

BOOST_AUTO_TEST_SUITE_END()
