// What trainer.memory() says is what the formulas of docs/memory.md give, and what was in fact asked of the system. This
// file replaces the aligned operator new, by which Host allocates: a program of its own.
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <halfstep/halfstep.hpp>
#include <new>

#include "support/classifier.hpp"

namespace {

struct Block {
  std::byte* memory;
  std::size_t size;
};
Block blocks[64];
int block_count = 0;

/// What is used of the block: without what Host skips at its start, whose size Host writes at the end of it.
std::int64_t used_bytes(const Block& block) {
  constexpr std::size_t step = halfstep::Host::alignment;
  std::size_t skipped = step, written = 0;
  for (;; skipped += step) {
    std::memcpy(&written, block.memory + skipped - sizeof written, sizeof written);
    if (written == skipped) break;
  }
  return static_cast<std::int64_t>(block.size - skipped);
}
std::int64_t used_bytes() {
  std::int64_t total = 0;
  for (int i = 0; i < block_count; ++i) total += used_bytes(blocks[i]);
  return total;
}

}  // namespace

// Cleared, so that nothing in a block looks like Host's number before it.
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  const auto step = static_cast<std::size_t>(alignment);
  void* const memory = std::aligned_alloc(step, (size + step - 1) / step * step);
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0, size);
  blocks[block_count++] = {static_cast<std::byte*>(memory), size};
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  for (int i = 0; i < block_count; ++i) {
    if (blocks[i].memory == memory) blocks[i] = blocks[--block_count];
  }
  std::free(memory);
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
  BOOST_TEST_REQUIRE(block_count == 0);
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
      BOOST_TEST(use.total() == used_bytes());
    }
  }
  BOOST_TEST(block_count == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(memory_is_what_the_formulas_give_and_what_was_allocated_for_every_policy_and_optimizer) {
  check<Float32Policy, SGD>(4, 1);
  check<BFloat16Policy, Adam>(2, 2);
  check<Float16ScaledPolicy, AdamW>(2, 2);
}
