#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <halfstep/state/checksum.hpp>
#include <random>
#include <span>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(checksum_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(the_check_value_of_crc_32) {
  // Of the catalogue of parametrised CRC algorithms: CRC-32/ISO-HDLC.
  BOOST_TEST(crc32(std::as_bytes(std::span(std::string_view("123456789")))) == 0xcbf43926u);
  BOOST_TEST(crc32({}) == 0u);
  BOOST_TEST(crc32({}, 0x12345678u) == 0x12345678u);
}

BOOST_AUTO_TEST_CASE(any_length_anywhere_in_memory_after_any_bytes_as_zlib) {
  std::mt19937 random(5);
  std::vector<std::byte> bytes(1500);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255u);
  for (std::size_t size = 0; size < 1400; ++size) {
    const auto part = std::span(bytes).subspan(size % 61, size);
    const std::uint32_t before = size % 3 == 0 ? 0u : static_cast<std::uint32_t>(random());
    BOOST_REQUIRE(crc32(part, before) == detail::zlib_crc32(part, before));
  }
}

BOOST_AUTO_TEST_CASE(pieces_one_after_the_other_give_the_whole) {
  std::mt19937 random(6);
  std::vector<std::byte> bytes(5000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255u);
  for (const std::size_t cut : {1u, 63u, 64u, 257u, 1024u, 4999u}) {
    const auto whole = std::span(bytes);
    BOOST_TEST(crc32(whole.subspan(cut), crc32(whole.first(cut))) == crc32(whole));
  }
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_is_seen) {
  std::vector<std::byte> bytes(400, std::byte{0x5a});
  const std::uint32_t sum = crc32(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    BOOST_REQUIRE(crc32(bytes) != sum);
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
}

BOOST_AUTO_TEST_CASE(hexadecimal_digits_there_and_back) {
  for (const std::uint32_t value : {0u, 1u, 0xdeadbeefu, 0xffffffffu, 0x00f00000u}) {
    BOOST_TEST((detail::from_hex(detail::to_hex(value)) == value));
  }
  BOOST_TEST(detail::to_hex(0xcbf43926u) == "cbf43926");
  for (const char* other : {"", "1234567", "123456789", "DEADBEEF", "1234567g", "0x123456", " 1234567"}) {
    BOOST_TEST(!detail::from_hex(other), other);
  }
}

BOOST_AUTO_TEST_SUITE_END()
