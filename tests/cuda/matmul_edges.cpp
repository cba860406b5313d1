// Products at the edges of what cuBLASLt is made for: long sums that cancel, which it may cut into parts
// where it has memory for them, and matrices that are very tall, or very wide.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/on_device.hpp"
#include "support/matmul_case.hpp"

namespace matmul_edges_test {

using namespace matmul_test;
using halfstep::test::all_layouts, halfstep::test::MatmulCase, halfstep::test::MatmulLayout,
    halfstep::test::MatmulShape;

using TypePairs = std::tuple<std::pair<float, float>, std::pair<float16, float16>, std::pair<float16, float>,
                             std::pair<bfloat16, bfloat16>, std::pair<bfloat16, float>>;

/// Sums whose first half is 128 over and over and whose second is -128, and that end at a small whole number.
/// Their parts are exact in float, whatever the order; float16 cannot hold them, and bfloat16 not their last
/// digits.
template <class In, class Out>
struct Cancelling {
  static constexpr std::int64_t rows = 16, columns = 8, depth = 65536;
  std::vector<In> left = std::vector<In>(rows * depth), right = std::vector<In>(depth * columns);

  Cancelling() {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < depth; ++k) at(left, i * depth + k) = number(k < depth / 2 ? 128 : -128);
      // Row i holds i ones more.
      for (std::int64_t one = 0; one < i; ++one) {
        In& value = at(left, i * depth + (4099 * one + 31 * i) % depth);
        value = number(static_cast<int>(static_cast<float>(value)) + 1);
      }
    }
    for (std::int64_t k = 0; k < depth * columns; ++k) at(right, k) = number(sign(k % columns));
  }

  std::int64_t count_wrong(Cuda& cuda, bool accumulate) const {
    constexpr float former = 7.0f;
    std::vector<Out> result(rows * columns, Out(former));
    Multiply{cuda}.operator()<In, Out>(matrix(left.data(), rows, depth), matrix(right.data(), depth, columns),
                                       matrix(result.data(), rows, columns), {.accumulate = accumulate});
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const float expected =
            static_cast<float>(sign(j) * static_cast<int>(i)) + (accumulate ? former : 0.0f);
        wrong += static_cast<float>(result[static_cast<std::size_t>(i * columns + j)]) != expected;
      }
    }
    return wrong;
  }

 private:
  static In number(int value) { return static_cast<In>(static_cast<float>(value)); }
  static int sign(std::int64_t column) { return column % 3 == 1 ? -1 : 1; }
  static In& at(std::vector<In>& values, std::int64_t index) {
    return values[static_cast<std::size_t>(index)];
  }
};

}  // namespace matmul_edges_test

BOOST_FIXTURE_TEST_SUITE(matmul_edges_tests, matmul_test::NothingForbidden)

using namespace matmul_edges_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(long_sums_that_cancel_are_exact_whatever_the_workspace, Pair, TypePairs) {
  const Cancelling<typename Pair::first_type, typename Pair::second_type> problem;
  for (const std::size_t workspace : {std::size_t{1} << 20, std::size_t{32} << 20}) {
    Cuda cuda(options_with(true, workspace));
    for (const bool accumulate : {false, true}) {
      BOOST_TEST(problem.count_wrong(cuda, accumulate) == 0,
                 workspace << " bytes, accumulate " << accumulate);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(tall_and_wide_matrices_give_the_exact_product_of_integers, Pair, TypePairs) {
  Cuda cuda(options_with(true));
  const std::vector<MatmulLayout> layouts{all_layouts().front(), all_layouts().back()};
  for (const MatmulShape& shape :
       {MatmulShape{20011, 3, 5}, MatmulShape{3, 20011, 5}, MatmulShape{2, 3, 20011}}) {
    for (const MatmulLayout& layout : layouts) {
      const MatmulCase<typename Pair::first_type, typename Pair::second_type> problem(shape, layout);
      for (const bool both : {false, true}) {
        BOOST_TEST(problem.count_wrong(both, both, Multiply{cuda}) == 0, problem.text(both, both));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
