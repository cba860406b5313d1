#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/matmul.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "support/counted_allocations.hpp"

using namespace halfstep;
using namespace halfstep::compute;

namespace {

using TypePairs = std::tuple<std::pair<float, float>, std::pair<float16, float16>, std::pair<float16, float>,
                             std::pair<bfloat16, bfloat16>, std::pair<bfloat16, float>>;

/// Allocations of the third product of this size: the first two warm every thread.
template <class In, class Out>
std::int64_t allocations_of_product(Host& host, std::int64_t size) {
  std::vector<In> a;
  BOOST_TEST(test::allocations_of([&] { a.assign(static_cast<std::size_t>(size * size), In(1.0f)); }) > 0);
  std::vector<Out> bias(static_cast<std::size_t>(size), Out(1.0f)), result(a.size());
  const auto multiply = [&] {
    matmul(host, matrix(a.data(), size, size), matrix(a.data(), size, size).transposed(),
           matrix(result.data(), size, size), {.bias = bias.data()});
  };
  multiply();
  multiply();
  return test::allocations_of(multiply);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(matmul_allocation_tests)

BOOST_AUTO_TEST_CASE_TEMPLATE(a_warm_product_by_the_portable_loop_allocates_nothing, Pair, TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  Host host({.deterministic = true});
  for (const std::int64_t size : {10, 100, 300}) BOOST_TEST((allocations_of_product<In, Out>(host, size)) == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_warm_product_allocates_nothing, Pair, TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  Host host;
  BOOST_TEST((allocations_of_product<In, Out>(host, 100)) == 0);
  test::onednn_calls = 0;
  BOOST_TEST((allocations_of_product<In, Out>(host, 300)) == 0);
#if HALFSTEP_WITH_ONEDNN
  BOOST_TEST(test::onednn_calls == 3);
#endif
}

BOOST_AUTO_TEST_SUITE_END()
