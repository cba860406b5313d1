#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/emulated.hpp"
#include "cuda/on_device.hpp"
#include "support/matmul_case.hpp"

namespace matmul_test {

using namespace halfstep::test;

using TypePairs = std::tuple<std::pair<float, float>, std::pair<float16, float16>, std::pair<float16, float>,
                             std::pair<bfloat16, bfloat16>, std::pair<bfloat16, float>>;
using SixteenBitTypes = std::tuple<float16, bfloat16>;

const std::vector<MatmulShape> shapes = {{1, 1, 1},    {2, 3, 4},   {16, 8, 24}, {1, 9, 33},
                                         {107, 1, 13}, {33, 11, 1}, {7, 17, 65}};

/// How a bias reaches the device.
struct BiasCase {
  bool fused;
  std::int64_t shift;
};
const std::vector<BiasCase> bias_cases = {{true, 0}, {true, 1}, {false, 0}};

}  // namespace matmul_test

BOOST_FIXTURE_TEST_SUITE(matmul_tests, matmul_test::NothingForbidden)

using namespace matmul_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(every_view_and_option_gives_the_exact_product_of_integers, Pair, TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  for (const BiasCase& bias : bias_cases) {
    Cuda cuda(options_with(bias.fused));
    const Multiply multiply{cuda, bias.shift};
    for (const MatmulShape& shape : shapes) {
      for (const MatmulLayout& layout : all_layouts()) {
        const MatmulCase<In, Out> problem(shape, layout);
        for (const bool biased : {false, true}) {
          for (const bool accumulate : {false, true}) {
            if (!biased && &bias != &bias_cases[0]) continue;
            BOOST_TEST(problem.count_wrong(biased, accumulate, multiply) == 0,
                       problem.text(biased, accumulate) << ", fused " << bias.fused << ", shift " << bias.shift);
          }
        }
      }
    }
    // The double offers every fused bias that is aligned; what NVIDIA's library offers is its own affair.
    if (emulated || !bias.fused) BOOST_TEST((blas_calls().fused_biases > 0) == (bias.fused && bias.shift == 0));
    reset_blas_calls();
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_inner_dimension_of_zero_gives_zeros_or_the_bias_or_what_was_there, Pair, TypePairs) {
  Cuda cuda(options_with(true));
  const MatmulCase<typename Pair::first_type, typename Pair::second_type> problem({5, 19, 0}, all_layouts().back());
  for (const bool biased : {false, true}) {
    for (const bool accumulate : {false, true}) {
      BOOST_TEST(problem.count_wrong(biased, accumulate, Multiply{cuda}) == 0, problem.text(biased, accumulate));
    }
  }
  BOOST_TEST(blas_calls().matmuls == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_batch_gives_what_the_host_gives, Pair, TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  const std::int64_t count = 3, m = 5, n = 6, k = 7, gap = 1;
  const auto numbers = [](auto of, std::int64_t size, int modulus) {
    std::vector<decltype(of)> values(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = convert_to<decltype(of)>(static_cast<float>(static_cast<int>(i) % modulus - 2));
    }
    return values;
  };
  const auto a = numbers(In{}, count * (m * k + gap), 5), b = numbers(In{}, k * n, 3);
  const auto bias = numbers(Out{}, n, 4), former = numbers(Out{}, count * (m * n + gap), 7);
  const auto multiply = [&](auto& device, const In* a_data, const In* b_data, Out* result, MatmulOptions<Out> options) {
    // One b for every product.
    batched_matmul(device, count, MatrixBatch<const In>{matrix(a_data, k, m), m * k + gap}.transposed(),
                   MatrixBatch<const In>{matrix(b_data, k, n), 0}, MatrixBatch<Out>{matrix(result, m, n), m * n + gap},
                   options);
  };
  for (const bool fused : {true, false}) {
    Cuda cuda(options_with(fused));
    const OnDevice<In> a_there(cuda, a.data(), std::ssize(a)), b_there(cuda, b.data(), std::ssize(b));
    const OnDevice<Out> bias_there(cuda, bias.data(), n, 0);
    for (const bool accumulate : {false, true}) {
      Host host;
      auto expected = former, found = former;
      multiply(host, a.data(), b.data(), expected.data(), {.bias = bias.data(), .accumulate = accumulate});
      const OnDevice<Out> result_there(cuda, former.data(), std::ssize(former));
      multiply(cuda, a_there.data(), b_there.data(), result_there.data(),
               {.bias = bias_there.data(), .accumulate = accumulate});
      result_there.download(found.data());
      std::int64_t wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        wrong += static_cast<float>(found[i]) != static_cast<float>(expected[i]);
      }
      BOOST_TEST(wrong == 0, "fused " << fused << ", accumulate " << accumulate);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_batch_larger_than_one_call_takes_goes_by_several) {
  Cuda cuda(options_with(true));
  const std::int64_t count = compute::detail::largest_cuda_batch + 3;
  std::vector<float> numbers(static_cast<std::size_t>(count)), results(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const float two = 2.0f;
  const OnDevice<float> a(cuda, numbers.data(), count, 0), b(cuda, &two, 1, 0), result(cuda, results.data(), count, 0);
  batched_matmul(cuda, count, MatrixBatch<float>{matrix(a.data(), 1, 1), 1},
                 MatrixBatch<float>{matrix(b.data(), 1, 1), 0}, MatrixBatch<float>{matrix(result.data(), 1, 1), 1});
  BOOST_TEST(blas_calls().matmuls == 2);
  result.download(results.data());
  bool right = true;
  for (std::size_t i = 0; i < numbers.size(); ++i) right = right && results[i] == 2.0f * numbers[i];
  BOOST_TEST(right);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(product_bias_and_former_result_are_rounded_once, T, SixteenBitTypes) {
  // Each sum is a little more than half way from 1 to the next number of type T. Where two of its parts are added and
  // rounded before the rest is, what remains is 1.
  const float unit = numeric_traits<T>::epsilon, half = unit / 2, little = unit / 16;
  struct Case {
    float product[2], bias, former;
    bool accumulate;
  };
  for (const Case& sum : {Case{{1.0f, little}, half, 0.0f, false}, Case{{little, 0.0f}, 1.0f, half, true},
                          Case{{1.0f, 0.0f}, little, half, true}, Case{{half, 0.0f}, little, 1.0f, true}}) {
    for (const BiasCase& where : bias_cases) {
      Cuda cuda(options_with(where.fused));
      // Two results, for a single one does not take its bias with it.
      const T ones[2] = {T(1.0f), T(1.0f)};
      const T terms[4] = {T(sum.product[0]), T(sum.product[0]), T(sum.product[1]), T(sum.product[1])};
      const T bias[2] = {T(sum.bias), T(sum.bias)};
      T result[2] = {T(sum.former), T(sum.former)};
      Multiply{cuda, where.shift}.operator()<T, T>(matrix(ones, 1, 2), matrix(terms, 2, 2), matrix(result, 1, 2),
                                                   {.bias = bias, .accumulate = sum.accumulate});
      for (const T value : result) {
        BOOST_TEST(static_cast<float>(value) == 1.0f + unit, "fused " << where.fused << ", bias " << sum.bias);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
