#include <boost/test/unit_test.hpp>
#include <utility>

#include <halfstep/device/buffer.hpp>

BOOST_AUTO_TEST_SUITE(buffer_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(a_buffer_starts_with_zeros_and_can_be_cleared) {
  Host host;
  Buffer<float, Host> buffer(host, 1000);
  for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(buffer.data()[i] == 0.0f);
  buffer.data()[999] = 3;
  buffer.clear();
  BOOST_TEST(buffer.data()[999] == 0.0f);
  BOOST_TEST(buffer.bytes() == 4000u);
}

BOOST_AUTO_TEST_CASE(a_moved_buffer_has_one_owner) {
  Host host;
  Buffer<int, Host> first(host, 4);
  int* memory = first.data();
  memory[2] = 7;
  Buffer<int, Host> second(std::move(first));
  BOOST_TEST(second.data() == memory);
  BOOST_TEST(first.data() == nullptr);
  BOOST_TEST(first.size() == 0);
  Buffer<int, Host> third(host, 1);
  third = std::move(second);
  BOOST_TEST(third.data()[2] == 7);
  BOOST_TEST(second.data() == nullptr);
}

BOOST_AUTO_TEST_CASE(an_empty_buffer_is_a_buffer) {
  Host host;
  Buffer<float, Host> empty(host, 0);
  BOOST_TEST(empty.size() == 0);
  empty.clear();
  Buffer<float, Host> none;
  none.clear();
  BOOST_TEST(none.data() == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
