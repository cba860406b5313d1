#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/matmul.hpp>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/matmul_case.hpp"
#include "support/sanitizers.hpp"

BOOST_AUTO_TEST_SUITE(matmul_tests)

using namespace halfstep;
using namespace halfstep::compute;
using namespace halfstep::test;

namespace {

using AllTypePairs = std::tuple<std::pair<float, float>, std::pair<float16, float16>, std::pair<float16, float>,
                                std::pair<bfloat16, bfloat16>, std::pair<bfloat16, float>>;
using EachType = std::tuple<std::pair<float, float>, std::pair<float16, float16>, std::pair<bfloat16, float>>;
using TypePairs = std::conditional_t<under_sanitizers, EachType, AllTypePairs>;

/// The edges of kernels, panels, blocks and tiles, and what lies beside them. Of the two with 61 and 73
/// threads share the columns or the rows; {193, 5, 257} is one tile of two blocks and two depths.
const std::vector<MatmulShape> shapes = {
    {1, 1, 1},    {2, 3, 4},    {6, 16, 5},    {7, 17, 257},  {1, 105, 107}, {107, 1, 13},  {13, 11, 1},
    {61, 73, 67}, {73, 61, 67}, {193, 5, 257}, {655, 10, 10}, {30, 530, 20}, {800, 20, 17}, {12, 32, 512}};

struct Options {
  bool biased, accumulate;
};

/// All options, or for a shape that takes its time those that leave out nothing and everything; under sanitizers the one
/// that reads all there is.
std::vector<Options> options_for(const MatmulShape& shape) {
  if (under_sanitizers) return {{true, true}};
  std::vector<Options> options{{false, false}, {true, true}};
  if (shape.m * shape.n * shape.k < 50000) options.insert(options.end(), {{false, true}, {true, false}});
  return options;
}

/// Products of these options and layouts, by the portable loop or by what `matmul` chooses.
template <class In, class Out>
void check_products(const MatmulShape& shape, const std::vector<Options>& options, bool portable = false) {
  Host host;
  for (const MatmulLayout& layout : all_layouts()) {
    const MatmulCase<In, Out> problem(shape, layout);
    for (const auto& [biased, accumulate] : options) {
      const std::int64_t wrong =
          problem.count_wrong(biased, accumulate, [&](auto a, auto b, auto result, auto choice) {
            if (portable) {
              portable_matmul(host, a, b, result, choice);
            } else {
              matmul(host, a, b, result, choice);
            }
          });
      BOOST_TEST(wrong == 0, problem.text(biased, accumulate));
    }
  }
}

/// The largest error of a product, in units of what it may be.
double worst_error(const MatmulShape& shape, const std::vector<double>& a, const std::vector<double>& b,
                   const std::vector<double>& result, double rounding) {
  double worst = 0;
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      double sum = 0;
      const double* const row = a.data() + i * shape.k;
      const double* const column = b.data() + j;
      for (std::int64_t k = 0; k < shape.k; ++k) sum += row[k] * column[k * shape.n];
      const double tolerance = 5e-6 * std::sqrt(static_cast<double>(shape.k)) + rounding * std::abs(sum);
      const double error = std::abs(result[static_cast<std::size_t>(i * shape.n + j)] - sum);
      worst = (std::max)(worst, error / tolerance);
    }
  }
  return worst;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(every_view_and_option_gives_the_exact_product_of_integers, Pair, TypePairs) {
  for (const MatmulShape& shape : shapes) {
    check_products<typename Pair::first_type, typename Pair::second_type>(shape, options_for(shape), true);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_small_product_goes_the_portable_way_with_every_view_and_option, Pair,
                              TypePairs) {
  for (const MatmulShape& shape : {MatmulShape{2, 3, 4}, MatmulShape{7, 17, 257}}) {
    check_products<typename Pair::first_type, typename Pair::second_type>(shape, options_for(shape));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_large_product_of_integers_is_exact, Pair, TypePairs) {
  static_assert(200 * 170 * 130 >= portable_limit);
  std::vector<Options> options{{true, true}};
  if (!under_sanitizers) options.push_back({true, false});
  check_products<typename Pair::first_type, typename Pair::second_type>({200, 170, 130}, options);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_inner_dimension_of_zero_gives_zeros_or_the_bias_or_what_was_there, Pair,
                              TypePairs) {
  check_products<typename Pair::first_type, typename Pair::second_type>({5, 19, 0}, options_for({5, 19, 0}));
}

BOOST_AUTO_TEST_CASE(a_result_without_elements_is_left_alone_and_needs_no_memory) {
  Host host;
  float* const nothing = nullptr;
  const std::vector<float> b(12, 1.0f);
  matmul(host, matrix(nothing, 0, 4), matrix(b.data(), 4, 3), matrix(nothing, 0, 3));
  matmul(host, matrix(b.data(), 3, 4), matrix(nothing, 4, 0), matrix(nothing, 3, 0));
  batched_matmul(host, 0, MatrixBatch<float>{matrix(nothing, 0, 0)},
                 MatrixBatch<float>{matrix(nothing, 0, 0)}, MatrixBatch<float>{matrix(nothing, 0, 0)});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(random_products_meet_the_reference_in_double, Pair, TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  // float: 5e-6 relative to a sum of this size, times sqrt(k), for k roundings of random sign; a 16-bit
  // result adds half a unit in its last place.
  Host host;
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  for (const MatmulShape& shape : {MatmulShape{33, 47, 1000}, MatmulShape{128, 100, 700}}) {
    if (under_sanitizers && shape.m > 33) break;
    std::vector<In> a(static_cast<std::size_t>(shape.m * shape.k)),
        b(static_cast<std::size_t>(shape.k * shape.n));
    std::vector<Out> result(static_cast<std::size_t>(shape.m * shape.n));
    for (In& value : a) value = convert_to<In>(normal(generator));
    for (In& value : b) value = convert_to<In>(normal(generator));
    matmul(host, matrix(a.data(), shape.m, shape.k), matrix(b.data(), shape.k, shape.n),
           matrix(result.data(), shape.m, shape.n));
    const double rounding = is_16bit<Out> ? static_cast<double>(numeric_traits<Out>::epsilon) / 2 : 0.0;
    const double worst = worst_error(shape, {a.begin(), a.end()}, {b.begin(), b.end()},
                                     {result.begin(), result.end()}, rounding);
    BOOST_TEST(worst <= 1.0);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_sum_that_float_holds_is_rounded_once, Out,
                              decltype(std::tuple<float16, bfloat16>{})) {
  // 1 + half a unit in the last place, a tie, and a little more that only the former content adds: rounding
  // the product first would lose it.
  Host host;
  const float half_unit = numeric_traits<Out>::epsilon / 2;
  const Out a[2] = {Out(1.0f), Out(half_unit)};
  const Out b[2] = {Out(1.0f), Out(1.0f)};
  Out result[1] = {Out(half_unit / 8)};
  matmul(host, matrix(a, 1, 2), matrix(b, 2, 1), matrix(result, 1, 1), {.accumulate = true});
  BOOST_TEST(static_cast<float>(result[0]) == 1.0f + numeric_traits<Out>::epsilon);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(infinity_and_nan_of_the_operands_reach_exactly_their_rows_and_columns, Pair,
                              TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  Host host;
  for (const std::int64_t size : {std::int64_t{9}, std::int64_t{170}}) {
    std::vector<In> a(static_cast<std::size_t>(size * size), In(1.0f)), b = a;
    std::vector<Out> result(a.size());
    a[static_cast<std::size_t>(2 * size + 3)] = convert_to<In>(std::numeric_limits<float>::infinity());
    b[static_cast<std::size_t>(4 * size + 5)] = convert_to<In>(std::numeric_limits<float>::quiet_NaN());
    matmul(host, matrix(a.data(), size, size), matrix(b.data(), size, size),
           matrix(result.data(), size, size));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t j = 0; j < size; ++j) {
        const Out value = result[static_cast<std::size_t>(i * size + j)];
        const bool right = j == 5   ? is_nan(value)
                           : i == 2 ? !is_finite(value) && !is_nan(value)
                                    : static_cast<float>(value) == static_cast<float>(size);
        wrong += !right;
      }
    }
    BOOST_TEST(wrong == 0);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_batch_is_its_products_one_by_one, Pair, TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  Host host;
  for (const std::int64_t size : {std::int64_t{11}, std::int64_t{165}}) {
    const std::int64_t count = 3, area = size * size, gap = 5;
    std::vector<In> a(static_cast<std::size_t>(count * (area + gap))), b(static_cast<std::size_t>(area));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = In(static_cast<float>(i % 5) - 2.0f);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = In(static_cast<float>(i % 3) - 1.0f);
    std::vector<Out> bias(static_cast<std::size_t>(size), Out(3.0f));
    std::vector<Out> batched(a.size(), Out(1.0f)), single = batched;
    const auto left = matrix(a.data(), size, size).transposed();
    const auto right = matrix(b.data(), size, size);
    const MatmulOptions<Out> options{.bias = bias.data(), .accumulate = true};
    // b has stride 0: every product takes the same.
    batched_matmul(host, count, MatrixBatch<In>{left, area + gap}, MatrixBatch<In>{right, 0},
                   MatrixBatch<Out>{matrix(batched.data(), size, size), area + gap}, options);
    for (std::int64_t item = 0; item < count; ++item) {
      Matrix<In> one = left;
      one.data += item * (area + gap);
      matmul(host, one, right, matrix(single.data() + item * (area + gap), size, size), options);
    }
    bool same = true;
    for (std::size_t i = 0; i < single.size(); ++i) {
      same = same && static_cast<float>(single[i]) == static_cast<float>(batched[i]);
    }
    BOOST_TEST(same);
  }
}

BOOST_AUTO_TEST_CASE(views_that_do_not_fit_are_refused_with_sizes_types_and_strides) {
  Host host;
  std::vector<float16> memory(100, float16(1.0f));
  std::vector<float> out(100, 7.0f);
  float16* const data = memory.data();
  float* const result = out.data();
  const auto refuses = [&](auto a, auto b, auto r, const std::string& part) {
    BOOST_CHECK_EXCEPTION(matmul(host, a, b, r), ShapeError, [&](const ShapeError& error) {
      const std::string message = error.what();
      BOOST_TEST(message.find(part) != std::string::npos, message);
      BOOST_TEST(message.find("float16 to float32") != std::string::npos, message);
      return true;
    });
  };
  refuses(matrix(data, 2, 3, 7), matrix(data, 4, 5), matrix(result, 2, 5), "m 2, n 5, k 3");
  refuses(matrix(data, 2, 3, 7), matrix(data, 4, 5), matrix(result, 2, 5), "a is 2 x 3 with stride 7");
  refuses(matrix(data, 2, 3), matrix(data, 3, 5), matrix(result, 3, 5), "as many rows as a");
  refuses(matrix(data, 2, 3), matrix(data, 3, 5), matrix(result, 2, 4), "as many columns as b");
  refuses(matrix(data, 2, 3), matrix(data, 3, 5), matrix(result, 5, 2).transposed(),
          "must not be a transposed view");
  refuses(matrix(data, 2, 3, 2), matrix(data, 3, 5), matrix(result, 2, 5), "with stride 2");
  refuses(matrix(data, 2, 3).transposed(), matrix(data, 3, 5), matrix(result, 3, 5), "a is 3 x 2 transposed");
  refuses(matrix(data, -2, 3), matrix(data, 3, 5), matrix(result, -2, 5), "0 or more");
  refuses(matrix(static_cast<float16*>(nullptr), 2, 3), matrix(data, 3, 5), matrix(result, 2, 5),
          "needs memory");
  for (const float value : out) BOOST_TEST(value == 7.0f);

  BOOST_CHECK_THROW(
      batched_matmul(host, -1, MatrixBatch<float16>{matrix(data, 2, 2)},
                     MatrixBatch<float16>{matrix(data, 2, 2)}, MatrixBatch<float>{matrix(result, 2, 2), 4}),
      ShapeError);
  BOOST_CHECK_THROW(
      batched_matmul(host, 2, MatrixBatch<float16>{matrix(data, 2, 2)},
                     MatrixBatch<float16>{matrix(data, 2, 2)}, MatrixBatch<float>{matrix(result, 2, 2), 0}),
      ShapeError);
}

BOOST_AUTO_TEST_SUITE_END()
