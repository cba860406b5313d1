#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/matmul.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "support/matmul_case.hpp"

BOOST_AUTO_TEST_SUITE(matmul_onednn_tests)

using namespace halfstep;
using namespace halfstep::compute;
using namespace halfstep::test;

#if HALFSTEP_WITH_ONEDNN

namespace {

using TypePairs = std::tuple<std::pair<float, float>, std::pair<float16, float16>, std::pair<float16, float>,
                             std::pair<bfloat16, bfloat16>, std::pair<bfloat16, float>>;

const std::vector<MatmulShape> shapes = {{1, 1, 1},     {2, 3, 4},     {7, 17, 257},
                                         {1, 105, 107}, {97, 61, 103}, {655, 10, 10}};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(small_products_by_onednn_are_the_exact_integers_of_the_portable_loop, Pair,
                              TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  Host host;
  for (const MatmulShape& shape : shapes) {
    for (const MatmulLayout& layout : all_layouts()) {
      const MatmulCase<In, Out> problem(shape, layout);
      for (const bool biased : {false, true}) {
        for (const bool accumulate : {false, true}) {
          const std::int64_t wrong =
              problem.count_wrong(biased, accumulate, [&](auto a, auto b, auto result, auto options) {
                compute::detail::onednn_matmul<In, Out>(host, 1, {a, 0}, {b, 0}, {result, 0}, options);
              });
          BOOST_TEST(wrong == 0, problem.text(biased, accumulate));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_primitive_made_for_the_problem_gives_the_exact_integers) {
  // The way that bfloat16 takes where the CPU multiplies it; float takes it on every CPU.
  Host host;
  compute::detail::OnednnCache cache;
  for (const MatmulShape& shape : shapes) {
    for (const MatmulLayout& layout : all_layouts()) {
      const MatmulCase<float, float> problem(shape, layout);
      for (const bool biased : {false, true}) {
        for (const bool accumulate : {false, true}) {
          for (int repeat = 0; repeat < 2; ++repeat) {
            bool done = false;
            const std::int64_t wrong =
                problem.count_wrong(biased, accumulate, [&](auto a, auto b, auto result, auto options) {
                  done = cache.multiply<float, float>(a, b, result, options);
                });
            BOOST_TEST(done);
            BOOST_TEST(wrong == 0, problem.text(biased, accumulate));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_primitive_of_bfloat16_is_exact_or_declined, Out,
                              decltype(std::tuple<bfloat16, float>{})) {
  compute::detail::OnednnCache cache;
  const MatmulCase<bfloat16, Out> problem({97, 61, 103}, all_layouts().back());
  bool done = false;
  const std::int64_t wrong = problem.count_wrong(true, true, [&](auto a, auto b, auto result, auto options) {
    done = cache.multiply<bfloat16, Out>(a, b, result, options);
  });
  BOOST_TEST((!done || wrong == 0));
  if (compute::detail::onednn_has_fast_bfloat16()) BOOST_TEST(done);
}

BOOST_AUTO_TEST_CASE(the_cache_of_primitives_is_bounded_and_forgets_the_one_unused_for_longest) {
  compute::detail::OnednnCache cache;
  std::vector<float> ones(1000, 1.0f), out(1000);
  const auto multiply = [&](std::int64_t m) {
    const Matrix<const float> a = matrix(ones.data(), m, 1), b = matrix(ones.data(), 1, 1);
    return cache.multiply<float, float>(a, b, matrix(out.data(), m, 1), {});
  };
  const auto capacity = static_cast<std::int64_t>(compute::detail::OnednnCache::capacity);
  for (std::int64_t m = 1; m <= capacity; ++m) BOOST_TEST_REQUIRE(multiply(m));
  BOOST_TEST(cache.size() == compute::detail::OnednnCache::capacity);
  BOOST_TEST(multiply(1));
  BOOST_TEST(multiply(capacity + 1));
  BOOST_TEST(cache.size() == compute::detail::OnednnCache::capacity);
  BOOST_TEST(cache.built() == compute::detail::OnednnCache::capacity + 1);
  BOOST_TEST(multiply(1));
  BOOST_TEST(cache.built() == compute::detail::OnednnCache::capacity + 1);
  BOOST_TEST(multiply(2));
  BOOST_TEST(cache.built() == compute::detail::OnednnCache::capacity + 2);
}

#else

BOOST_AUTO_TEST_CASE(without_onednn_there_is_nothing_to_test) { BOOST_TEST(true); }

#endif

BOOST_AUTO_TEST_SUITE_END()
