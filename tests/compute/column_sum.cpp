#include <boost/test/unit_test.hpp>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>
#include <limits>
#include <tuple>
#include <vector>

#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(column_sum_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Types = std::tuple<float, float16, bfloat16>;

struct Size {
  std::int64_t rows, columns, gap;
};
const Size sizes[] = {{0, 3, 0},     {1, 1, 0},     {3, 1, 2},      {7, 13, 1},   {64, 10, 0},
                      {1009, 10, 5}, {331, 257, 0}, {135, 8195, 3}, {80011, 1, 0}};

template <class T>
std::vector<T> numbers(const Size& size) {
  const auto floats = random_numbers(size.rows * (size.columns + size.gap), -1.0f, 1.0f);
  std::vector<T> values(floats.size());
  convert(floats.data(), values.data(), std::ssize(floats));
  return values;
}

template <class T>
std::vector<float> sums_of(const std::vector<T>& values, const Size& size, std::vector<float> sums,
                           bool accumulate) {
  Host host;
  Arena<Host> arena(host);
  compute::column_sum(host, arena,
                      compute::matrix(values.data(), size.rows, size.columns, size.columns + size.gap),
                      sums.data(), accumulate);
  return sums;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(columns_sum_up_in_float_whatever_the_type, T, Types) {
  for (const Size& size : sizes) {
    BOOST_TEST_CONTEXT(size.rows << " x " << size.columns << ", gap " << size.gap) {
      const auto values = numbers<T>(size);
      const auto columns = static_cast<std::size_t>(size.columns);
      std::vector<double> expected(columns, 0.0), added(columns, 3.0);
      // Bare pointers: without optimisation these sums are most of the test's time.
      for (std::int64_t i = 0; i < size.rows; ++i) {
        const T* const row = values.data() + i * (size.columns + size.gap);
        double* const sums = expected.data();
        for (std::int64_t j = 0; j < size.columns; ++j)
          sums[j] += static_cast<double>(static_cast<float>(row[j]));
      }
      for (std::size_t j = 0; j < columns; ++j) added[j] += expected[j];
      const Tolerance tolerance = float_tolerance.over(size.rows + 1);
      const std::vector<float> not_numbers(columns, std::numeric_limits<float>::quiet_NaN());
      check_close(sums_of(values, size, not_numbers, false), expected, tolerance);
      check_close(sums_of(values, size, std::vector<float>(columns, 3.0f), true), added, tolerance);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_the_number_of_threads, T, Types) {
  for (const Size& size : sizes) {
    const auto values = numbers<T>(size);
    const auto [one, two] = with_one_and_two_threads([&] {
      return sums_of(values, size, std::vector<float>(static_cast<std::size_t>(size.columns), 0.5f), true);
    });
    BOOST_TEST((one == two));
  }
}

BOOST_AUTO_TEST_CASE(infinities_and_nan_stay_in_their_columns) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float16> values{float16(inf),  float16(1.0f), float16(inf),
                                    float16(-inf), float16(2.0f), float16(1.0f)};
  const auto sums = sums_of(values, {2, 3, 0}, std::vector<float>(3), false);
  BOOST_TEST(is_nan(sums[0]));
  BOOST_TEST(sums[1] == 3.0f);
  BOOST_TEST(sums[2] == inf);
}

BOOST_AUTO_TEST_SUITE_END()
