#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/numeric/convert.hpp>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "reference.hpp"

// All 2^32 floats down, one at a time and as arrays by every instruction set of this CPU.

using namespace halfstep;
using detail::ConversionSet;

namespace {

template <class T>
constexpr reference::Format format_of = std::is_same_v<T, float16> ? reference::float16 : reference::bfloat16;

/// The expected patterns of the positive floats, in their order: floats that follow each other stay at a
/// pattern up to the tie with the next, which the even one of the two gets.
template <class T>
class Staircase {
 public:
  explicit Staircase(std::uint32_t first_bits) {
    const auto x = static_cast<double>(__builtin_bit_cast(float, first_bits));
    pattern_ = reference::round(format_of<T>, x);
    set_tie();
  }

  std::uint16_t next(double x) {
    while (pattern_ < format_of<T>.infinity() && (x > tie_ || (x == tie_ && (pattern_ & 1u) != 0))) {
      ++pattern_;
      set_tie();
    }
    return static_cast<std::uint16_t>(pattern_);
  }

 private:
  void set_tie() {
    tie_ = (reference::value(format_of<T>, pattern_) + reference::value(format_of<T>, pattern_ + 1)) / 2;
  }

  unsigned pattern_ = 0;
  double tie_ = 0;
};

constexpr std::uint32_t block_size = 1u << 16;
constexpr std::uint32_t infinity_bits = 0x7f800000u;

template <class T>
class BlockCheck {
 public:
  /// How many of the floats of both signs from these bits on are converted wrongly in any way.
  long wrong(std::uint32_t first_bits) {
    fill_expected(first_bits);
    return wrong_of_sign(first_bits, 0) + wrong_of_sign(first_bits, 0x8000u);
  }

 private:
  void fill_expected(std::uint32_t first_bits) {
    if (first_bits >= infinity_bits) {
      std::fill(expected_.begin(), expected_.end(), std::uint16_t{0x7fff});
      if (first_bits == infinity_bits) expected_[0] = format_of<T>.infinity();
      return;
    }
    Staircase<T> staircase(first_bits);
    for (std::uint32_t i = 0; i < block_size; ++i) {
      expected_[i] = staircase.next(static_cast<double>(__builtin_bit_cast(float, first_bits + i)));
    }
  }

  long wrong_of_sign(std::uint32_t first_bits, std::uint16_t sign) {
    for (std::uint32_t i = 0; i < block_size; ++i) {
      from_[i] = __builtin_bit_cast(float, (first_bits + i) | static_cast<std::uint32_t>(sign) << 16);
    }
    long count = 0;
    for (std::uint32_t i = 0; i < block_size; ++i) to_[i] = T(from_[i]);
    count += differences(sign);
    detail::convert_portable(from_.data(), to_.data(), block_size);
    count += differences(sign);
    for (const auto set : {ConversionSet::avx2, ConversionSet::avx512}) {
      if (set > detail::detect_conversion_set()) continue;
      detail::convert_with(set, from_.data(), to_.data(), block_size, false);
      count += differences(sign);
    }
    return count;
  }

  long differences(std::uint16_t sign) const {
    long count = 0;
    for (std::uint32_t i = 0; i < block_size; ++i) {
      const bool is_nan = expected_[i] == 0x7fff;
      const auto signed_expected = static_cast<std::uint16_t>(is_nan ? 0x7fff : expected_[i] | sign);
      count += to_[i].bits() != signed_expected ? 1 : 0;
    }
    return count;
  }

  std::vector<std::uint16_t> expected_ = std::vector<std::uint16_t>(block_size);
  std::vector<float> from_ = std::vector<float>(block_size);
  std::vector<T> to_ = std::vector<T>(block_size);
};

using Types = std::tuple<float16, bfloat16>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(all_floats_round_to_nearest_even_by_every_path, T, Types) {
  std::atomic<std::uint32_t> next_block{0};
  std::atomic<long> wrong{0};
  const auto work = [&] {
    BlockCheck<T> check;
    for (;;) {
      const std::uint32_t block = next_block++;
      if (block >= 0x80000000u / block_size) return;
      wrong += check.wrong(block * block_size);
    }
  };
  std::vector<std::thread> threads((std::max)(1u, std::thread::hardware_concurrency()));
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(wrong == 0);
}
