#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <halfstep/numeric/convert.hpp>

#include "reference.hpp"

using namespace halfstep;

static_assert(__FINITE_MATH_ONLY__ == 1, "this file is to be compiled with -ffast-math");

namespace {

/// The flush modes that -ffast-math switches on where it also links.
struct FlushSubnormals {
#if defined(__SSE2__)
  unsigned before = _mm_getcsr();
  FlushSubnormals() { _mm_setcsr(before | 0x8040u); }
  ~FlushSubnormals() { _mm_setcsr(before); }
#endif
};

/// The rounding that float16.cpp proves, as it comes out of a constant expression or another build, is not at
/// hand here; thresholds in integers are, and fast mathematics leaves integers alone.
std::uint16_t expected(std::uint32_t bits, int fraction_bits, std::uint32_t bias) {
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  if (magnitude > 0x7f800000u) return 0x7fff;
  const std::uint32_t infinity = ((2 * bias + 1) << fraction_bits);
  if (magnitude == 0x7f800000u) return static_cast<std::uint16_t>(sign | infinity);
  std::uint32_t exponent = magnitude >> 23;
  const std::uint64_t significand = exponent == 0 ? magnitude : (magnitude & 0x7fffffu) | 0x800000u;
  if (exponent == 0) exponent = 1;
  const std::uint32_t smallest = 128 - bias;  // the float exponent of the smallest normal number
  std::uint32_t dropped = 23 - static_cast<std::uint32_t>(fraction_bits);
  if (exponent < smallest) dropped += smallest - exponent;
  if (dropped > 40) dropped = 40;
  std::uint64_t kept = significand >> dropped;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << dropped) - 1);
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  const std::uint64_t carried =
      exponent > smallest ? kept + (std::uint64_t{exponent - smallest} << fraction_bits) : kept;
  return static_cast<std::uint16_t>(sign | (carried < infinity ? carried : infinity));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(convert_fast_math_tests)

BOOST_AUTO_TEST_CASE(fast_math_and_flushed_subnormals_leave_every_conversion_down_as_it_is) {
  for (const auto& format : {reference::float16, reference::bfloat16}) {
    const std::vector<std::uint32_t> sources = reference::telling_floats(format);
    const FlushSubnormals flush;
    std::vector<float> from(sources.size());
    std::memcpy(from.data(), sources.data(), sources.size() * 4);
    std::vector<float16> halves(from.size());
    std::vector<bfloat16> brains(from.size());
    convert(from.data(), halves.data(), static_cast<std::int64_t>(from.size()));
    convert(from.data(), brains.data(), static_cast<std::int64_t>(from.size()));
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::uint16_t half = expected(sources[i], 10, 15);
      const std::uint16_t brain = expected(sources[i], 7, 127);
      const bool right = halves[i].bits() == half && brains[i].bits() == brain &&
                         float16(from[i]).bits() == half && bfloat16(from[i]).bits() == brain;
      if (!right) BOOST_ERROR("float " << sources[i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(fast_math_and_flushed_subnormals_leave_every_conversion_up_as_it_is) {
  const FlushSubnormals flush;
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float from_half = static_cast<float>(float16::from_bits(pattern));
    const float from_brain = static_cast<float>(bfloat16::from_bits(pattern));
    const std::uint32_t brain = (bits & 0x7fffu) > 0x7f80u ? 0x7fffffffu : bits << 16;
    BOOST_TEST_REQUIRE(__builtin_bit_cast(std::uint32_t, from_brain) == brain);
    const auto half = __builtin_bit_cast(std::uint32_t, from_half);
    BOOST_TEST_REQUIRE(reference::is_nan_bits(half) == ((bits & 0x7fffu) > 0x7c00u));
    if (!reference::is_nan_bits(half)) BOOST_TEST_REQUIRE(expected(half, 10, 15) == bits);
  }
}

BOOST_AUTO_TEST_CASE(fast_math_keeps_values_computed_in_the_same_expression) {
  std::vector<float> from{1.0f, 3e38f, 0.0f, -3e38f, 1e-30f};
  const std::uint32_t nan_bits = 0xffc12345u;
  std::memcpy(&from[2], &nan_bits, 4);
  const volatile float scale = 3.0f;
  const float factor = scale;
  std::vector<std::uint16_t> halves, brains;
  for (const float x : from) {
    halves.push_back(float16(x * factor).bits());
    brains.push_back(bfloat16(x * factor).bits());
  }
  BOOST_TEST(halves == (std::vector<std::uint16_t>{0x4200, 0x7c00, 0x7fff, 0xfc00, 0}),
             boost::test_tools::per_element());
  BOOST_TEST(brains == (std::vector<std::uint16_t>{0x4040, 0x7f80, 0x7fff, 0xff80, bfloat16(3e-30f).bits()}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
