#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <halfstep/device/host.hpp>

BOOST_AUTO_TEST_SUITE(host_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(memory_that_is_not_there_is_a_device_error_with_the_bytes_asked_for) {
  Host host;
  constexpr std::size_t most = (std::numeric_limits<std::size_t>::max)();
  for (const std::size_t absurd : {most, most - 300, most / 4}) {
    BOOST_CHECK_EXCEPTION(host.allocate(absurd), DeviceError, [&](const DeviceError& error) {
      return std::string(error.what()).find(std::to_string(absurd)) != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(no_bytes_are_memory_too) {
  Host host;
  void* memory = host.allocate(0);
  BOOST_TEST(memory != nullptr);
  host.clear(memory, 0);
  host.copy(memory, nullptr, 0);
  host.deallocate(memory);
  host.deallocate(nullptr);
}

// See Host::allocate: passes over several arrays are a third slower where all begin at one place.
BOOST_AUTO_TEST_CASE(sixteen_blocks_begin_at_sixteen_places_of_a_page_and_are_the_callers_to_the_last_byte) {
  Host host;
  constexpr std::size_t bytes = std::size_t{1} << 20;
  std::vector<unsigned char*> blocks;
  std::set<std::uintptr_t> places;
  for (unsigned char i = 0; i < 16; ++i) {
    blocks.push_back(static_cast<unsigned char*>(host.allocate(bytes)));
    const auto address = reinterpret_cast<std::uintptr_t>(blocks.back());
    BOOST_TEST(address % Host::alignment == 0u);
    places.insert(address % 4096);
    std::fill_n(blocks.back(), bytes, i);
#if defined(HALFSTEP_ADDRESS_SANITIZER)
    BOOST_TEST(__asan_address_is_poisoned(blocks.back() - 1) == 1);
    BOOST_TEST(__asan_address_is_poisoned(blocks.back() + bytes) == 1);
#endif
  }
  BOOST_TEST(places.size() == 16u);
  for (unsigned char i = 0; i < 16; ++i) {
    BOOST_TEST(std::count(blocks[i], blocks[i] + bytes, i) == static_cast<std::ptrdiff_t>(bytes));
    host.deallocate(blocks[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_service_is_built_once_a_device_and_keeps_its_place) {
  struct Counter {
    int value = 0;
  };
  struct Other {
    int value = 5;
  };
  Host one, two;
  Counter& counter = one.service<Counter>();
  counter.value = 3;
  one.service<Other>().value = 4;
  BOOST_TEST(&one.service<Counter>() == &counter);
  BOOST_TEST(one.service<Counter>().value == 3);
  BOOST_TEST(one.service<Other>().value == 4);
  BOOST_TEST(two.service<Counter>().value == 0);
}

BOOST_AUTO_TEST_SUITE_END()
