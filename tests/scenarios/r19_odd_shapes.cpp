#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <halfstep/compute/matmul.hpp>
#include <tuple>
#include <vector>

#include "support/sanitizers.hpp"

BOOST_AUTO_TEST_SUITE(r19_odd_shapes_tests)

// Shapes that fast paths forget: one row, odd sizes, strides, nothing at all, and very many rows.

using namespace halfstep;
using namespace halfstep::compute;
using test::under_sanitizers;

namespace {

using Types = std::tuple<float, float16, bfloat16>;

template <class T>
std::vector<T> filled(std::int64_t size, float value) {
  return std::vector<T>(static_cast<std::size_t>(size), T(value));
}

template <class T>
bool all_equal(const std::vector<T>& values, float expected) {
  for (const T value : values) {
    if (static_cast<float>(value) != expected) return false;
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(one_row_times_an_odd_matrix, T, Types) {
  Host host;
  const auto a = filled<T>(107, 1), b = filled<T>(107 * 105, 1);
  auto result = filled<T>(105, -1);
  matmul(host, matrix(a.data(), 1, 107), matrix(b.data(), 107, 105), matrix(result.data(), 1, 105));
  BOOST_TEST(all_equal(result, 107.0f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(three_different_sizes_and_a_stride, T, Types) {
  Host host;
  std::vector<T> a, b = filled<T>(3 * 5, 77);
  for (int i = 1; i <= 6; ++i) a.push_back(T(static_cast<float>(i)));
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) b[static_cast<std::size_t>(i * 5 + j)] = T(static_cast<float>(i + j));
  }
  auto result = filled<T>(8, -1);
  matmul(host, matrix(a.data(), 2, 3), matrix(b.data(), 3, 4, 5), matrix(result.data(), 2, 4));
  const float expected[8] = {8, 14, 20, 26, 17, 32, 47, 62};
  for (std::size_t i = 0; i < 8; ++i) BOOST_TEST(static_cast<float>(result[i]) == expected[i]);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(no_rows_no_result_and_no_inner_dimension_zeros_or_the_bias, T, Types) {
  Host host;
  T* const nothing = nullptr;
  const auto b = filled<T>(12, 1), bias = filled<T>(4, 0.25f);
  matmul(host, matrix(nothing, 0, 3), matrix(b.data(), 3, 4), matrix(nothing, 0, 4));
  auto result = filled<T>(8, 7);
  matmul(host, matrix(nothing, 2, 0), matrix(nothing, 0, 4), matrix(result.data(), 2, 4));
  BOOST_TEST(all_equal(result, 0.0f));
  matmul(host, matrix(nothing, 2, 0), matrix(nothing, 0, 4), matrix(result.data(), 2, 4),
         {.bias = bias.data()});
  BOOST_TEST(all_equal(result, 0.25f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(very_many_rows, T, Types) {
  Host host;
  const std::int64_t rows = under_sanitizers ? 65600 : 655360;
  const auto a = filled<T>(rows * 10, 1), b = filled<T>(100, 1), bias = filled<T>(10, 0.25f);
  auto result = filled<T>(rows * 10, 0);
  matmul(host, matrix(a.data(), rows, 10), matrix(b.data(), 10, 10), matrix(result.data(), rows, 10),
         {.bias = bias.data()});
  BOOST_TEST(all_equal(result, 10.25f));
}

BOOST_AUTO_TEST_SUITE_END()
