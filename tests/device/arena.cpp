#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <vector>

#include <halfstep/device/arena.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/device/host.hpp>

BOOST_AUTO_TEST_SUITE(arena_tests)

using namespace halfstep;

namespace {

/// A host that counts what it is asked for.
class CountingHost : public Host {
 public:
  void* allocate(std::size_t bytes) {
    ++allocations;
    ++living;
    return Host::allocate(bytes);
  }
  void deallocate(void* memory) noexcept {
    --living;
    Host::deallocate(memory);
  }
  int allocations = 0;
  int living = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_handed_out_is_aligned_and_does_not_overlap) {
  Host host;
  Arena<Host> arena(host);
  std::vector<char*> pieces;
  for (std::int64_t size = 1; size < 2000; size += 37) {
    char* piece = arena.allocate<char>(size);
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(piece) % Host::alignment == 0u);
    std::memset(piece, static_cast<int>(pieces.size()), static_cast<std::size_t>(size));
    pieces.push_back(piece);
  }
  std::int64_t size = 1;
  for (std::size_t i = 0; i < pieces.size(); ++i, size += 37) {
    BOOST_TEST(pieces[i][0] == static_cast<char>(i));
    BOOST_TEST(pieces[i][size - 1] == static_cast<char>(i));
  }
}

BOOST_AUTO_TEST_CASE(a_pass_as_large_as_the_one_before_allocates_nothing) {
  CountingHost host;
  Arena<CountingHost> arena(host);
  const auto pass = [&] {
    arena.reset();
    for (int i = 0; i < 50; ++i) arena.allocate<float>(100'000);
  };
  pass();
  BOOST_TEST(host.allocations > 1);
  pass();
  const int warm = host.allocations;
  for (int i = 0; i < 3; ++i) pass();
  BOOST_TEST(host.allocations == warm);
  BOOST_TEST(host.living == 1);
  // Not what the first pass happened to take while the arena grew.
  BOOST_TEST(arena.capacity() == arena.peak());
}

BOOST_AUTO_TEST_CASE(the_peak_is_the_largest_pass_and_outlives_smaller_ones) {
  Host host;
  Arena<Host> arena(host);
  arena.allocate<char>(10 * 256);
  arena.reset();
  BOOST_TEST(arena.used() == 0u);
  arena.allocate<char>(256);
  BOOST_TEST(arena.used() == 256u);
  BOOST_TEST(arena.peak() == 2560u);
}

BOOST_AUTO_TEST_CASE(what_came_after_a_mark_is_taken_back_and_handed_out_again) {
  CountingHost host;
  Arena<CountingHost> arena(host);
  const auto pass = [&] {
    arena.reset();
    auto* const before = arena.allocate<char>(1000);
    std::memset(before, 1, 1000);
    const auto mark = arena.mark();
    for (int round = 0; round < 3; ++round) {
      std::vector<char*> pieces;
      for (int i = 0; i < 4; ++i) {
        pieces.push_back(arena.allocate<char>(700'000));
        std::memset(pieces.back(), 2, 700'000);
        BOOST_TEST((arena.is_since(mark, pieces.back()) && arena.is_since(mark, pieces.back() + 699'999)));
      }
      arena.rollback(mark);
      BOOST_TEST(arena.used() == 1024u);
      for (const char* piece : pieces) BOOST_TEST((piece[0] == 2 && piece[699'999] == 2));
    }
    BOOST_TEST((arena.allocate<char>(1) == before + 1024));
    arena.rollback(mark);
    // Larger than the room that the first block has left.
    std::memset(arena.allocate<char>(1'500'000), 3, 1'500'000);
    BOOST_TEST((before[0] == 1 && before[999] == 1));
    BOOST_TEST(!arena.is_since(mark, before));
    BOOST_TEST(!arena.is_since(mark, nullptr));
  };
  pass();
  BOOST_TEST(arena.peak() == 1024 + 4 * 700'160u);
  pass();
  const int warm = host.allocations;
  for (int i = 0; i < 3; ++i) pass();
  BOOST_TEST(host.allocations == warm);
  BOOST_TEST(arena.capacity() == arena.peak());
}

BOOST_AUTO_TEST_CASE(memory_goes_back_to_the_device) {
  CountingHost host;
  {
    Arena<CountingHost> arena(host);
    for (int i = 0; i < 10; ++i) arena.allocate<double>(1 << 18);
    BOOST_TEST(host.living > 1);
  }
  BOOST_TEST(host.living == 0);
}

BOOST_AUTO_TEST_CASE(counts_whose_bytes_have_no_number_are_refused) {
  Host host;
  Arena<Host> arena(host);
  for (const std::int64_t count : {std::int64_t{1} << 62, (std::int64_t{1} << 62) + 1, INT64_MAX, INT64_MAX / 4,
                                   std::int64_t{-1}, INT64_MIN}) {
    BOOST_CHECK_THROW(arena.allocate<float>(count), DeviceError);
    BOOST_CHECK_THROW((Buffer<double, Host>(host, count)), DeviceError);
  }
  BOOST_TEST(arena.used() == 0u);
  arena.allocate<float>(1)[0] = 1;
}

BOOST_AUTO_TEST_SUITE_END()
