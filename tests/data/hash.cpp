#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/hash.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(hash_tests)

using halfstep::detail::ContentHash;
using halfstep::detail::mix_bits;

namespace {

std::string hash_of(const std::vector<std::string_view>& pieces) {
  ContentHash hash;
  for (const std::string_view piece : pieces) hash.add(std::span(piece.data(), piece.size()));
  return hash.text();
}

}  // namespace

BOOST_AUTO_TEST_CASE(bits_are_mixed_as_splitmix64_does) {
  // The generator's first numbers from seed 0 (Vigna, splitmix64.c).
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15;
  static_assert(mix_bits(step) == 0xe220a8397b1dcdaf);
  static_assert(mix_bits(2 * step) == 0x6e789e6aa1b965f4);
}

BOOST_AUTO_TEST_CASE(contents_and_where_pieces_end_give_different_hashes) {
  using namespace std::string_view_literals;
  const std::vector<std::vector<std::string_view>> contents{{},
                                                            {""},
                                                            {"", ""},
                                                            {"\0"sv},
                                                            {"\0\0"sv},
                                                            {"a"},
                                                            {"a\0"sv},
                                                            {"\0a"sv},
                                                            {"ab", "c"},
                                                            {"a", "bc"},
                                                            {"abc"},
                                                            {"c", "ab"},
                                                            {"12345678"},
                                                            {"12345678", ""},
                                                            {"1234567"},
                                                            {"123456789"},
                                                            {"12345678\0"sv},
                                                            {"1234", "5678"}};
  std::set<std::string> hashes;
  for (const auto& content : contents) {
    BOOST_TEST(hash_of(content).size() == 16u);
    BOOST_TEST(hash_of(content) == hash_of(content));
    hashes.insert(hash_of(content));
  }
  BOOST_TEST(hashes.size() == contents.size());
}

BOOST_AUTO_TEST_SUITE_END()
