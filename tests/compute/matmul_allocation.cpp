#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <halfstep/compute/matmul.hpp>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

// Counts what the program and its libraries ask of operator new while `counting` is on.
namespace {
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  if (counting) ++allocations;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment + alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace halfstep;
using namespace halfstep::compute;

namespace {

using TypePairs = std::tuple<std::pair<float, float>, std::pair<float16, float16>, std::pair<float16, float>,
                             std::pair<bfloat16, bfloat16>, std::pair<bfloat16, float>>;

/// Allocations of the third product of this size: the first two warm every thread.
template <class In, class Out>
int allocations_of(Host& host, std::int64_t size) {
  std::vector<In> a(static_cast<std::size_t>(size * size), In(1.0f));
  std::vector<Out> bias(static_cast<std::size_t>(size), Out(1.0f)), result(a.size());
  const auto multiply = [&] {
    matmul(host, matrix(a.data(), size, size), matrix(a.data(), size, size).transposed(),
           matrix(result.data(), size, size), {.bias = bias.data()});
  };
  multiply();
  multiply();
  allocations = 0;
  counting = true;
  multiply();
  counting = false;
  return allocations;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(a_warm_product_by_the_portable_loop_allocates_nothing, Pair, TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  Host host({.deterministic = true});
  for (const std::int64_t size : {10, 100, 300}) BOOST_TEST((allocations_of<In, Out>(host, size)) == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_warm_product_allocates_nothing_but_what_onednn_does_itself, Pair, TypePairs) {
  using In = typename Pair::first_type;
  using Out = typename Pair::second_type;
  Host host;
  BOOST_TEST((allocations_of<In, Out>(host, 100)) == 0);
#if HALFSTEP_WITH_ONEDNN
  // sgemm allocates its threads' shared state; executing a primitive also builds its table of arguments.
  constexpr int by_onednn = 1, by_primitive = 8;
  const bool is_primitive = std::is_same_v<In, bfloat16> && compute::detail::onednn_has_fast_bfloat16();
  BOOST_TEST((allocations_of<In, Out>(host, 300)) <= (is_primitive ? by_primitive : by_onednn));
#else
  BOOST_TEST((allocations_of<In, Out>(host, 300)) == 0);
#endif
}
