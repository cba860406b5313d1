#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/numeric/philox.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(philox_tests)

using namespace halfstep;

namespace {

// The known answers that Random123 ships for philox4x32 with 10 rounds (its file kat_vectors).
static_assert(philox({{0, 0, 0, 0}}, {{0, 0}}) ==
              PhiloxBlock{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
static_assert(philox({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, {{0xffffffff, 0xffffffff}}) ==
              PhiloxBlock{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
static_assert(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}}) ==
              PhiloxBlock{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});

static_assert(uniform(0) == 0.0f && uniform(0xffffffffu) == 1.0f - 0x1p-24f && uniform(0x80000000u) == 0.5f);

// From the FNV reference's list of test vectors.
static_assert(hash_name("") == 0xcbf29ce484222325u && hash_name("a") == 0xaf63dc4c8601ec8cu);
static_assert(hash_name("foobar") == 0x85944171f73967e8u);

constexpr int blocks = 1 << 18;

}  // namespace

BOOST_AUTO_TEST_CASE(seed_stream_and_index_each_change_the_block_in_all_their_bits) {
  const PhiloxBlock block = random_block(1, 2, 3);
  BOOST_TEST((block == random_block(1, 2, 3)));
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t flip = std::uint64_t{1} << bit;
    BOOST_TEST(!(block == random_block(1 ^ flip, 2, 3)));
    BOOST_TEST(!(block == random_block(1, 2 ^ flip, 3)));
    BOOST_TEST(!(block == random_block(1, 2, 3 ^ flip)));
  }
}

BOOST_AUTO_TEST_CASE(uniform_numbers_have_the_mean_and_variance_of_the_unit_interval) {
  double sum = 0, squares = 0;
  for (int i = 0; i < blocks; ++i) {
    for (const std::uint32_t word : random_block(7, 0, static_cast<std::uint64_t>(i)).words) {
      const double x = static_cast<double>(uniform(word));
      sum += x;
      squares += x * x;
    }
  }
  const double n = 4.0 * blocks;
  const double mean = sum / n;
  // Five standard errors of each estimate.
  BOOST_TEST(std::abs(mean - 0.5) < 5 * std::sqrt(1 / (12 * n)));
  BOOST_TEST(std::abs(squares / n - mean * mean - 1.0 / 12) < 5 * std::sqrt(1 / (180 * n)));
}

BOOST_AUTO_TEST_CASE(normal_numbers_have_the_moments_of_the_normal_distribution_and_do_not_correlate) {
  double sum = 0, squares = 0, cubes = 0, fourths = 0, products = 0;
  for (int i = 0; i < blocks; ++i) {
    const PhiloxBlock block = random_block(7, hash_name("hidden.weight"), static_cast<std::uint64_t>(i));
    for (const NormalPair pair :
         {normal(block.words[0], block.words[1]), normal(block.words[2], block.words[3])}) {
      products += static_cast<double>(pair.first) * static_cast<double>(pair.second);
      for (const double x : {static_cast<double>(pair.first), static_cast<double>(pair.second)}) {
        sum += x;
        squares += x * x;
        cubes += x * x * x;
        fourths += x * x * x * x;
      }
    }
  }
  const double n = 4.0 * blocks;
  BOOST_TEST(std::abs(sum / n) < 5 / std::sqrt(n));
  BOOST_TEST(std::abs(squares / n - 1) < 5 * std::sqrt(2 / n));
  BOOST_TEST(std::abs(cubes / n) < 5 * std::sqrt(15 / n));
  BOOST_TEST(std::abs(fourths / n - 3) < 5 * std::sqrt(96 / n));
  BOOST_TEST(std::abs(products / (n / 2)) < 5 / std::sqrt(n / 2));
}

BOOST_AUTO_TEST_CASE(normal_numbers_are_those_of_box_and_muller_in_double) {
  double largest = 0;
  for (int i = 0; i < 10000; ++i) {
    const PhiloxBlock block = random_block(11, 0, static_cast<std::uint64_t>(i));
    for (const std::uint32_t radius_word : {block.words[0], 0u, 1u, 0xffffffffu}) {
      for (const std::uint32_t angle_word :
           {block.words[1], 0u, 0x20000000u, 0x7fffffffu, 0xe0000000u, 0xffffffffu}) {
        const double u = (static_cast<double>(radius_word >> 1) + 0.5) / 2147483648.0;
        const double radius = std::sqrt(-2 * std::log(u));
        const double angle = 2 * std::acos(-1.0) * static_cast<double>(angle_word) / 4294967296.0;
        const NormalPair got = normal(radius_word, angle_word);
        largest = (std::max)({largest, std::abs(static_cast<double>(got.first) - radius * std::cos(angle)),
                              std::abs(static_cast<double>(got.second) - radius * std::sin(angle))});
      }
    }
  }
  // Near u = 1 the radius is the root of the difference of u from 1, which a float holds to 2^-25 or so.
  BOOST_TEST(largest < 5e-4);
}

BOOST_AUTO_TEST_SUITE_END()
