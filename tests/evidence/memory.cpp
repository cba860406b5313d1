// What trainer.memory() says is what the formulas of docs/memory.md give, and what was in fact asked of the system. This
// file replaces the aligned operator new, by which Host allocates: a program of its own.
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <halfstep/halfstep.hpp>
#include <new>

#include "support/classifier.hpp"

namespace {
std::int64_t live_bytes = 0, live_blocks = 0;
}

// The size stands in front of the memory, a whole alignment before it.
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  const auto step = static_cast<std::size_t>(alignment);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(step, (size + step - 1) / step * step + step));
  if (memory == nullptr) return nullptr;
  *reinterpret_cast<std::size_t*>(memory) = size;
  live_bytes += static_cast<std::int64_t>(size);
  ++live_blocks;
  return memory + step;
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t alignment) noexcept {
  if (memory == nullptr) return;
  auto* start = static_cast<std::byte*>(memory) - static_cast<std::size_t>(alignment);
  live_bytes -= static_cast<std::int64_t>(*reinterpret_cast<std::size_t*>(start));
  --live_blocks;
  std::free(start);
}

using namespace halfstep;

namespace {

constexpr std::int64_t features = 20, width = 48, classes = 7, rows = 33;

constexpr std::int64_t rounded(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
/// Parameters, each tensor rounded up to 64 elements.
constexpr std::int64_t padded(std::int64_t elements) { return (elements + 63) / 64 * 64; }
constexpr std::int64_t P = padded(features * width) + padded(width) + padded(width * classes) + padded(classes);

/// The bias's gradient: partial sums of the columns.
constexpr std::int64_t column_sums(std::int64_t n, std::int64_t columns) {
  const std::int64_t block = 8192 / columns > 16 ? 8192 / columns : 16;
  return rounded(4 * columns * ((n + block - 1) / block));
}

/// The sum over the operations of the model, line for line as the table of the page has it.
constexpr std::int64_t activations(std::int64_t n, std::int64_t bytes) {
  const std::int64_t cast = bytes == 4 ? 0 : rounded(bytes * n * features);
  const std::int64_t hidden = rounded(bytes * n * width) + column_sums(n, width);
  const std::int64_t gelu = rounded(bytes * n * width) + rounded(bytes * n * width);
  const std::int64_t output =
      rounded(bytes * n * classes) + rounded(bytes * n * width) + column_sums(n, classes);
  const std::int64_t loss = rounded(8 * n) + rounded(4 * n) + rounded(8 * ((n + 8191) / 8192)) + 2 * rounded(8) +
                            rounded(bytes * n * classes);
  return cast + hidden + gelu + output + loss;
}

template <class Policy, class Optimizer>
void check(std::int64_t bytes_of_compute_type, std::int64_t moments) {
  const std::int64_t before = live_bytes, blocks_before = live_blocks;
  {
    Trainer<test::Classifier, Optimizer, Policy> trainer{test::Classifier(features, width, classes)};
    const test::Points points(rows, features, classes), fewer(rows / 2, features, classes);
    for (int step = 0; step < 2; ++step) {
      trainer.step(points);
      trainer.step(fewer);
    }
    const MemoryUse use = trainer.memory();
    BOOST_TEST_CONTEXT(Policy::name << " and " << Optimizer::name) {
      BOOST_TEST(use.masters == 4 * P);
      BOOST_TEST(use.working_copy == (bytes_of_compute_type == 4 ? 0 : bytes_of_compute_type * P));
      BOOST_TEST(use.gradients == 4 * P);
      BOOST_TEST(use.moments == 4 * P * moments);
      BOOST_TEST(use.activations == activations(rows, bytes_of_compute_type));
      BOOST_TEST(use.workspace == 4 * compute::detail::PortableScratch::total);
      BOOST_TEST(use.activations + use.reserve == std::int64_t{1} << 20);
      BOOST_TEST(use.bookkeeping >= std::int64_t{1} << 20);
      BOOST_TEST(use.bookkeeping < (std::int64_t{1} << 20) + 4096);
      BOOST_TEST(use.parameters() == use.masters + use.working_copy);
      // In front of each block Host skips 256 bytes to 4 KiB, no two blocks in turn the same.
      const std::int64_t skipped = live_bytes - before - use.total(), blocks = live_blocks - blocks_before;
      BOOST_TEST(skipped % 256 == 0);
      BOOST_TEST(skipped > 256 * blocks);
      BOOST_TEST(skipped < 4096 * blocks);
    }
  }
  BOOST_TEST(live_bytes == before);
}

}  // namespace

BOOST_AUTO_TEST_CASE(memory_is_what_the_formulas_give_and_what_was_allocated_for_every_policy_and_optimizer) {
  check<Float32Policy, SGD>(4, 1);
  check<Float32Policy, AdamW>(4, 2);
  check<BFloat16Policy, Adam>(2, 2);
  check<Float16ScaledPolicy, AdamW>(2, 2);
}
