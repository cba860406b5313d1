#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/order.hpp>
#include <halfstep/data/permutation.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(permutation_tests)

using namespace halfstep;

namespace {

std::vector<std::int64_t> elements(const Permutation& order) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < order.size(); ++i) values.push_back(order[i]);
  return values;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_element_comes_exactly_once_for_every_size_seed_and_epoch) {
  for (const std::int64_t size :
       {0, 1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 64, 65, 100, 255, 256, 257, 1437, 4097, 70000}) {
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
      for (const std::uint64_t epoch : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40}) {
        const Permutation order(size, seed, epoch);
        std::vector<bool> seen(static_cast<std::size_t>(size), false);
        bool good = true;
        for (const std::int64_t value : elements(order)) {
          good = good && value >= 0 && value < size && !seen[static_cast<std::size_t>(value)];
          if (good) seen[static_cast<std::size_t>(value)] = true;
        }
        BOOST_TEST(good, "size " << size << ", seed " << seed << ", epoch " << epoch);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(epochs_and_seeds_give_orders_of_their_own) {
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 30; ++epoch) orders.insert(elements(Permutation(50, seed, epoch)));
  }
  BOOST_TEST(orders.size() == 900u);
  BOOST_TEST(elements(Permutation(50, 3, 4)) == elements(Permutation(50, 3, 4)));
}

BOOST_AUTO_TEST_CASE(small_sets_come_in_every_order) {
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 2000; ++epoch) orders.insert(elements(Permutation(4, 1, epoch)));
  BOOST_TEST(orders.size() == 24u);
}

BOOST_AUTO_TEST_CASE(every_element_is_as_likely_at_every_position) {
  // 20 elements in 4000 orders: each is expected 200 times at each position, with a deviation of 13.8.
  constexpr int size = 20, epochs = 4000;
  std::vector<int> counts(size * size, 0);
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Permutation order(size, 11, epoch);
    for (int i = 0; i < size; ++i) ++counts[static_cast<std::size_t>(i * size + order[i])];
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 200.0) * (count - 200.0) / 200.0;
  // 361 degrees of freedom: mean 361, deviation 26.9; five deviations each way.
  BOOST_TEST(chi_square > 227.0);
  BOOST_TEST(chi_square < 496.0);
}

BOOST_AUTO_TEST_CASE(neighbours_are_torn_apart) {
  const Permutation order(10000, 5, 0);
  int kept = 0;
  for (std::int64_t i = 0; i + 1 < order.size(); ++i) kept += order[i + 1] == order[i] + 1 ? 1 : 0;
  BOOST_TEST(kept < 10);  // one is expected
}

BOOST_AUTO_TEST_CASE(the_largest_sets_need_no_memory) {
  const std::int64_t size = (std::int64_t{1} << 62) - 3;
  const Permutation order(size, 1, 2);
  for (const std::int64_t i : {std::int64_t{0}, size / 2, size - 1}) {
    BOOST_TEST(order[i] >= 0);
    BOOST_TEST(order[i] < size);
  }
}

BOOST_AUTO_TEST_CASE(orders_are_the_same_on_every_machine) {
  // Checkpoints hold a position in this order: it must never change.
  BOOST_TEST(elements(Permutation(10, 7, 3)) == (std::vector<std::int64_t>{9, 4, 5, 7, 6, 0, 8, 1, 2, 3}));
  BOOST_TEST(Permutation(1000000007, 7, 3)[123456] == 195745593);
}

BOOST_AUTO_TEST_CASE(a_negative_size_is_refused) {
  const std::string message = test::refusal<ConfigurationError>([] { Permutation(-3, 0, 0); });
  BOOST_TEST(test::holds(message, "-3 elements"), message);
}

BOOST_AUTO_TEST_CASE(the_orders_of_the_library_are_what_they_say) {
  BOOST_TEST(Shuffled(9).seed() == 9u);
  BOOST_TEST(Shuffled(9).in_epoch(2, 30)[17] == Permutation(30, 9, 2)[17]);
  BOOST_TEST(Sequential().in_epoch(2, 30)[17] == 17);
}

BOOST_AUTO_TEST_SUITE_END()
