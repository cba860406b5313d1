#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/numeric/bfloat16.hpp>
#include <limits>
#include <type_traits>

#include "reference.hpp"

BOOST_AUTO_TEST_SUITE(bfloat16_tests)

using halfstep::bfloat16;

namespace {

std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

static_assert(bfloat16(256.0f).bits() == 0x4380 && bfloat16(257.0f).bits() == 0x4380 &&
              bfloat16(259.0f).bits() == 0x4382);
static_assert(bfloat16(0x1.fep127f).bits() == 0x7f7f && bfloat16(0x1.fefffep127f).bits() == 0x7f7f);
static_assert(bfloat16(0x1.ffp127f).bits() == 0x7f80 && bfloat16(-0x1.ffp127f).bits() == 0xff80);
static_assert(bfloat16(0x1p-133f).bits() == 1 && bfloat16(0x1p-134f).bits() == 0 &&
              bfloat16(0x1.8p-133f).bits() == 2);
static_assert(static_cast<float>(bfloat16::from_bits(0x3eab)) == 0x1.56p-2f);
static_assert(bfloat16(1e300).bits() == 0x7f80 && bfloat16(5e-324).bits() == 0);
static_assert(std::is_trivial_v<bfloat16> && std::is_trivially_copyable_v<bfloat16> && sizeof(bfloat16) == 2);
static_assert(!std::is_convertible_v<float, bfloat16> && !std::is_convertible_v<bfloat16, float>);
static_assert(bfloat16(-0.0f).bits() == 0x8000 && bfloat16(0.0f) == bfloat16(-0.0f));
static_assert(bfloat16(1).bits() == bfloat16(1.0).bits() && bfloat16(-3L) == bfloat16(-3.0f));
static_assert(!(std::numeric_limits<bfloat16>::quiet_NaN() == std::numeric_limits<bfloat16>::quiet_NaN()));

}  // namespace

BOOST_AUTO_TEST_CASE(every_value_goes_up_exactly_and_every_nan_becomes_the_canonical_one) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    const float got = static_cast<float>(bfloat16::from_bits(static_cast<std::uint16_t>(bits)));
    const unsigned magnitude = bits & 0x7fffu;
    std::uint32_t expected = bits_of(static_cast<float>(reference::value(reference::bfloat16, bits)));
    if (magnitude == reference::bfloat16.infinity()) expected = (bits & 0x8000u) << 16 | 0x7f800000u;
    if (magnitude > reference::bfloat16.infinity()) expected = 0x7fffffffu;
    BOOST_TEST_REQUIRE(bits_of(got) == expected, "pattern " << bits);
  }
}

BOOST_AUTO_TEST_CASE(floats_round_to_nearest_even_at_every_value_and_tie) {
  for (const std::uint32_t bits : reference::telling_floats(reference::bfloat16)) {
    const float x = float_of(bits);
    BOOST_TEST_REQUIRE(bfloat16(x).bits() == reference::round(reference::bfloat16, static_cast<double>(x)),
                       "float " << bits);
  }
}

BOOST_AUTO_TEST_CASE(doubles_are_rounded_once) {
  for (unsigned bits = 0; bits < reference::bfloat16.infinity(); ++bits) {
    const double tie =
        (reference::value(reference::bfloat16, bits) + reference::value(reference::bfloat16, bits + 1)) / 2;
    // As a float each of the three is the tie itself.
    for (const double x : {std::nextafter(tie, 0.0), tie, std::nextafter(tie, 1e300)}) {
      BOOST_TEST_REQUIRE(bfloat16(x).bits() == reference::round(reference::bfloat16, x),
                         "after pattern " << bits);
      BOOST_TEST_REQUIRE(bfloat16(-x).bits() == reference::round(reference::bfloat16, -x),
                         "after pattern " << bits);
    }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double x : {1e300, 5e-324, 1e-310, 0x1p-126, 0x1p128, 0x1.fffffffp127, infinity}) {
    BOOST_TEST(bfloat16(x).bits() == reference::round(reference::bfloat16, x));
    BOOST_TEST(bfloat16(-x).bits() == reference::round(reference::bfloat16, -x));
  }
  BOOST_TEST(bfloat16(std::nan("77")).bits() == 0x7fff);
}

BOOST_AUTO_TEST_CASE(each_value_comes_back_from_its_float_and_its_double) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    if ((bits & 0x7fffu) > reference::bfloat16.infinity()) continue;
    const auto value = bfloat16::from_bits(static_cast<std::uint16_t>(bits));
    BOOST_TEST_REQUIRE(bfloat16(static_cast<float>(value)).bits() == bits);
    BOOST_TEST_REQUIRE(bfloat16(static_cast<double>(value)).bits() == bits);
    BOOST_TEST_REQUIRE((value == bfloat16(static_cast<float>(value))));
  }
}

BOOST_AUTO_TEST_CASE(numeric_limits_are_those_of_the_format) {
  using Limits = std::numeric_limits<bfloat16>;
  static_assert(Limits::is_specialized && Limits::has_infinity && Limits::is_signed && !Limits::is_integer);
  const auto format = reference::bfloat16;
  const auto as_double = [](bfloat16 x) { return static_cast<double>(x); };
  BOOST_TEST(Limits::digits == format.fraction_bits + 1);
  BOOST_TEST(Limits::max_exponent == format.bias + 1);
  BOOST_TEST(Limits::min_exponent == 2 - format.bias);
  BOOST_TEST(as_double((Limits::max)()) ==
             std::ldexp(2 - std::ldexp(1.0, -format.fraction_bits), format.bias));
  BOOST_TEST(as_double(Limits::lowest()) == -as_double((Limits::max)()));
  BOOST_TEST(as_double((Limits::min)()) == std::ldexp(1.0, 1 - format.bias));
  BOOST_TEST(as_double(Limits::denorm_min()) == std::ldexp(1.0, 1 - format.bias - format.fraction_bits));
  BOOST_TEST(as_double(Limits::epsilon()) == std::ldexp(1.0, -format.fraction_bits));
  BOOST_TEST(as_double(Limits::round_error()) == 0.5);
  BOOST_TEST(as_double(Limits::infinity()) == std::numeric_limits<double>::infinity());
  BOOST_TEST(Limits::quiet_NaN().bits() == 0x7fff);
  const double log10_of_2 = std::log10(2.0);
  BOOST_TEST(Limits::digits10 == static_cast<int>(format.fraction_bits * log10_of_2));
  BOOST_TEST(Limits::max_digits10 ==
             static_cast<int>(std::ceil((format.fraction_bits + 1) * log10_of_2 + 1)));
  BOOST_TEST(Limits::max_exponent10 == static_cast<int>(std::log10(as_double((Limits::max)()))));
  BOOST_TEST(Limits::min_exponent10 == static_cast<int>(std::log10(as_double((Limits::min)()))));
}

BOOST_AUTO_TEST_SUITE_END()
