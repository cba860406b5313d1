#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <halfstep/compute/matmul.hpp>
#include <tuple>
#include <vector>

BOOST_AUTO_TEST_SUITE(r18_misaligned_operands_tests)

// Operands, bias and workspace that do not lie as a library's fast path would like them: slices and packed
// buffers of float16 and bfloat16, all ones, so that every right answer is exact.

using namespace halfstep;
using namespace halfstep::compute;

namespace {

using SixteenBitTypes = std::tuple<float16, bfloat16>;

template <class T>
std::vector<T> ones(std::size_t size) {
  return std::vector<T>(size, T(1.0f));
}

template <class T>
bool all_equal(const std::vector<T>& values, float expected) {
  for (const T value : values) {
    if (static_cast<float>(value) != expected) return false;
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(an_operand_that_starts_one_element_into_its_buffer, T, SixteenBitTypes) {
  Host host;
  const auto a = ones<T>(65), b = ones<T>(64);
  std::vector<T> result(64);
  matmul(host, matrix(a.data() + 1, 8, 8), matrix(b.data(), 8, 8), matrix(result.data(), 8, 8));
  BOOST_TEST(all_equal(result, 8.0f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_operand_that_is_a_window_of_a_larger_matrix, T, SixteenBitTypes) {
  Host host;
  const auto b = ones<T>(64);
  std::vector<T> parent(16 * 24, T(99.0f)), result(64);
  const auto window = matrix(parent.data(), 16, 24).block(4, 3, 8, 8);
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t j = 0; j < 8; ++j) window(i, j) = T(1.0f);
  }
  matmul(host, window, matrix(b.data(), 8, 8), matrix(result.data(), 8, 8));
  BOOST_TEST(all_equal(result, 8.0f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_bias_that_starts_one_element_into_its_buffer, T, SixteenBitTypes) {
  Host host;
  const auto a = ones<T>(64), b = ones<T>(64);
  const std::vector<T> bias(9, T(0.5f));
  std::vector<T> result(64);
  matmul(host, matrix(a.data(), 8, 8), matrix(b.data(), 8, 8), matrix(result.data(), 8, 8),
         {.bias = bias.data() + 1});
  BOOST_TEST(all_equal(result, 8.5f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(everything_misaligned_at_a_size_that_takes_the_fast_path, T, SixteenBitTypes) {
  Host host;
  const std::int64_t size = 171, leading = 173;
  const auto a = ones<T>(static_cast<std::size_t>(size * leading + 1)), b = a;
  const std::vector<T> bias(static_cast<std::size_t>(size + 1), T(0.5f));
  std::vector<T> result(static_cast<std::size_t>(size * size + 1), T(171.5f));
  BOOST_TEST_REQUIRE(size * size * size >= portable_limit);
  matmul(host, matrix(a.data() + 1, size, size, leading),
         matrix(b.data() + 1, size, size, leading).transposed(), matrix(result.data() + 1, size, size),
         {.bias = bias.data() + 1});
  BOOST_TEST(all_equal(result, static_cast<float>(T(171.5f))));
}

BOOST_AUTO_TEST_CASE(scratch_memory_serves_any_product_after_any_other) {
  // The host's workspace is its own: what an odd product leaves there, at whatever alignment, harms no later
  // one.
  Host host;
  for (const std::int64_t size : {8, 171, 3, 64, 200, 8}) {
    const auto a = ones<float16>(static_cast<std::size_t>(size * size));
    std::vector<float16> result(a.size());
    matmul(host, matrix(a.data(), size, size), matrix(a.data(), size, size),
           matrix(result.data(), size, size));
    BOOST_TEST(all_equal(result, static_cast<float>(size)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
