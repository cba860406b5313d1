#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <string>

#include <halfstep/device/host.hpp>

BOOST_AUTO_TEST_SUITE(host_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(memory_that_is_not_there_is_a_device_error_with_the_bytes_asked_for) {
  Host host;
  const std::size_t absurd = (std::numeric_limits<std::size_t>::max)() / 4;
  BOOST_CHECK_EXCEPTION(host.allocate(absurd), DeviceError, [&](const DeviceError& error) {
    return std::string(error.what()).find(std::to_string(absurd)) != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(no_bytes_are_memory_too) {
  Host host;
  void* memory = host.allocate(0);
  BOOST_TEST(memory != nullptr);
  host.clear(memory, 0);
  host.copy(memory, nullptr, 0);
  host.deallocate(memory);
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
