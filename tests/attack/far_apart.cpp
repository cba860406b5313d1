// Strides and offsets that do not fit 32 bits, in memory of which only a few pages exist.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/matmul.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/update_pass.hpp>
#include <halfstep/scaling/measure.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <limits>
#include <tuple>
#include <vector>

#include "support/sparse_memory.hpp"

BOOST_AUTO_TEST_SUITE(far_apart_tests)

using namespace halfstep;
using namespace halfstep::compute;
using namespace halfstep::test;

namespace {

using Types = std::tuple<float, float16, bfloat16>;

/// Odd, past 2^32, and with low 32 bits that are a harmless small stride.
constexpr std::int64_t far = (std::int64_t{1} << 32) + 513;

/// Small integers: products of them are exact, in whatever order they are summed.
std::int64_t integer(std::int64_t row, std::int64_t column) { return (row * 5 + column * 3) % 4 - 1; }

template <class T>
T number(std::int64_t row, std::int64_t column) {
  return T(static_cast<float>(integer(row, column)));
}

template <class T>
void fill(const Matrix<T>& matrix) {
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t j = 0; j < matrix.columns; ++j) matrix(i, j) = number<T>(i, j);
  }
}

template <class T>
std::int64_t wrong_elements(const Matrix<T>& product, std::int64_t depth) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < product.rows; ++i) {
    for (std::int64_t j = 0; j < product.columns; ++j) {
      std::int64_t expected = 0;
      for (std::int64_t k = 0; k < depth; ++k) expected += integer(i, k) * integer(k, j);
      wrong += static_cast<float>(product(i, j)) != static_cast<float>(expected);
    }
  }
  return wrong;
}

/// a * b with all rows far apart, as they are and as transposed views.
template <class T>
void check_products(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  Host host;
  for (const bool transposed : {false, true}) {
    const std::int64_t a_rows = transposed ? depth : rows, b_rows = transposed ? columns : depth;
    const SparseMemory<T> a_memory(a_rows * far), b_memory(b_rows * far), result_memory(rows * far);
    if (!a_memory || !b_memory || !result_memory) return;
    auto a = matrix(a_memory.data() + 1, a_rows, transposed ? rows : depth, far);
    auto b = matrix(b_memory.data() + 3, b_rows, transposed ? depth : columns, far);
    if (transposed) a = a.transposed(), b = b.transposed();
    const auto result = matrix(result_memory.data() + 5, rows, columns, far);
    fill(a);
    fill(b);
    matmul(host, a, b, result);
    BOOST_TEST(wrong_elements(result, depth) == 0);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(products_of_matrices_with_rows_far_apart, T, Types) {
  check_products<T>(3, 5, 4);
}

// Large enough for oneDNN, where it is there.
BOOST_AUTO_TEST_CASE_TEMPLATE(large_products_of_matrices_with_rows_far_apart, T, Types) {
  static_assert(std::int64_t{130} * 260 * 130 > std::int64_t{1} << 22);
  check_products<T>(130, 260, 130);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(batches_of_matrices_far_apart, T, Types) {
  Host host;
  const SparseMemory<T> a(3 * far), b(3 * far), result(3 * far);
  if (!a || !b || !result) return;
  const MatrixBatch<T> as{matrix(a.data(), 2, 7), far}, bs{matrix(b.data(), 7, 3), far};
  const MatrixBatch<T> results{matrix(result.data(), 2, 3), far};
  for (std::int64_t i = 0; i < 3; ++i) fill(as[i]), fill(bs[i]);
  batched_matmul(host, 3, as, bs, results);
  for (std::int64_t i = 0; i < 3; ++i) BOOST_TEST(wrong_elements(results[i], 7) == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(columns_of_rows_far_apart, T, Types) {
  Host host;
  Arena<Host> arena(host);
  const SparseMemory<T> memory(9 * far);
  if (!memory) return;
  const auto values = matrix(memory.data(), 9, 5, far);
  fill(values);
  std::vector<float> sums(5);
  column_sum<T>(host, arena, values, sums.data());
  for (std::int64_t j = 0; j < 5; ++j) {
    float expected = 0;
    for (std::int64_t i = 0; i < 9; ++i) expected += static_cast<float>(number<T>(i, j));
    BOOST_TEST(sums[static_cast<std::size_t>(j)] == expected);
  }
}

// A flat buffer of a model of 2^32 weights, of which two parameters are looked at.
BOOST_AUTO_TEST_CASE(parameters_that_lie_far_into_the_flat_buffers) {
  const std::vector<Segment> segments{{0, 100}, {far - 513, 20000}};
  const SparseMemory<float> gradients(far + 20000), masters(far + 20000), m(far + 20000), v(far + 20000);
  const SparseMemory<bfloat16> working(far + 20000);
  if (!gradients || !masters || !m || !v || !working) return;
  const auto chunks = cut_into_chunks(segments);
  const auto count = static_cast<std::int64_t>(chunks.size());
  const std::vector<std::uint8_t> has_gradient{1, 1};
  const std::int64_t last = segments[1].offset + 19999;
  gradients[3] = 3;
  gradients[last] = 4;
  Host host;
  float inverse = 1;
  std::vector<MeasurePartial> partials(chunks.size());
  const auto measure = [&] {
    for_each_chunk(host, count,
                   MeasureChunk{chunks.data(), segments.data(), has_gradient.data(), gradients.data(),
                                &inverse, partials.data()});
    return join_partials(partials.data(), chunks.data(), count, true, true);
  };
  BOOST_TEST(measure().sum_of_squares == 25);
  gradients[last - 1] = std::numeric_limits<float>::infinity();
  BOOST_TEST(measure().first_bad_parameter == 1);
  BOOST_TEST(measure().first_bad_index == 19998);
  gradients[last - 1] = 0;

  UpdateFacts<AdamCoefficients> facts{.apply = true, .clip_value = 1};
  facts.coefficients = AdamW{}.coefficients(0.5f, 1);
  const std::vector<ParameterOptions> options(2);
  for_each_chunk(host, count,
                 UpdateChunk<AdamW, bfloat16>{chunks.data(),
                                              has_gradient.data(),
                                              options.data(),
                                              gradients.data(),
                                              masters.data(),
                                              working.data(),
                                              {m.data(), v.data()},
                                              &facts});
  // Both gradients are clipped to 1: Adam's first step is the rate, 0.5.
  for (const std::int64_t moved : {std::int64_t{3}, last}) {
    BOOST_TEST(masters[moved] == -0.5f, boost::test_tools::tolerance(1e-6f));
    BOOST_TEST(static_cast<float>(working[moved]) == -0.5f);
    BOOST_TEST(m[moved] > 0.09f);
    BOOST_TEST(v[moved] > 0.0009f);
  }
  for (const std::int64_t still :
       {std::int64_t{2}, std::int64_t{4}, last - 1, last + 1, last - (std::int64_t{1} << 32)}) {
    BOOST_TEST(masters[still] == 0);
  }
}

BOOST_AUTO_TEST_CASE(shapes_count_in_64_bits) {
  const Shape shape{3, std::int64_t{1} << 31, 5};
  BOOST_TEST(shape.size() == 15 * (std::int64_t{1} << 31));
  BOOST_TEST(shape.rows() == 3 * (std::int64_t{1} << 31));
  BOOST_TEST(shape.with_columns(1 << 29).size() == 3 * (std::int64_t{1} << 60));
}

BOOST_AUTO_TEST_SUITE_END()
