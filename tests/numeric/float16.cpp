#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/numeric/float16.hpp>
#include <limits>
#include <type_traits>

#include "reference.hpp"

BOOST_AUTO_TEST_SUITE(float16_tests)

using halfstep::float16;

namespace {

std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

static_assert(float16(65504.0f).bits() == 0x7bff && float16(65519.0f).bits() == 0x7bff);
static_assert(float16(65520.0f).bits() == 0x7c00 && float16(-65520.0f).bits() == 0xfc00);
static_assert(float16(0x1p-24f).bits() == 1 && float16(0x1p-25f).bits() == 0 && float16(1e-8f).bits() == 0);
static_assert(float16(0x1.000002p-25f).bits() == 1 && float16(0x1.8p-24f).bits() == 2);
static_assert(float16(0x1p-14f).bits() == 0x0400 && float16(0x1.ffcp-15f).bits() == 0x0400);
static_assert(static_cast<float>(float16::from_bits(0x3555)) == 0x1.554p-2f);
static_assert(float16(1e300).bits() == 0x7c00 && float16(5e-324).bits() == 0);
static_assert(std::is_trivial_v<float16> && std::is_trivially_copyable_v<float16> && sizeof(float16) == 2);
static_assert(!std::is_convertible_v<float, float16> && !std::is_convertible_v<float16, float>);
static_assert(float16(-0.0f).bits() == 0x8000 && float16(0.0f) == float16(-0.0f));
static_assert(float16(1).bits() == float16(1.0).bits() && float16(-3L) == float16(-3.0f));
static_assert(!(std::numeric_limits<float16>::quiet_NaN() == std::numeric_limits<float16>::quiet_NaN()));

}  // namespace

BOOST_AUTO_TEST_CASE(every_value_goes_up_exactly_and_every_nan_becomes_the_canonical_one) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    const float got = static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits)));
    const unsigned magnitude = bits & 0x7fffu;
    std::uint32_t expected = bits_of(static_cast<float>(reference::value(reference::float16, bits)));
    if (magnitude == reference::float16.infinity()) expected = (bits & 0x8000u) << 16 | 0x7f800000u;
    if (magnitude > reference::float16.infinity()) expected = 0x7fffffffu;
    BOOST_TEST_REQUIRE(bits_of(got) == expected, "pattern " << bits);
  }
}

BOOST_AUTO_TEST_CASE(floats_round_to_nearest_even_at_every_value_and_tie) {
  for (const std::uint32_t bits : reference::telling_floats(reference::float16)) {
    const float x = float_of(bits);
    BOOST_TEST_REQUIRE(float16(x).bits() == reference::round(reference::float16, static_cast<double>(x)),
                       "float " << bits);
  }
}

BOOST_AUTO_TEST_CASE(doubles_are_rounded_once) {
  for (unsigned bits = 0; bits < reference::float16.infinity(); ++bits) {
    const double tie =
        (reference::value(reference::float16, bits) + reference::value(reference::float16, bits + 1)) / 2;
    // As a float each of the three is the tie itself.
    for (const double x : {std::nextafter(tie, 0.0), tie, std::nextafter(tie, 1e300)}) {
      BOOST_TEST_REQUIRE(float16(x).bits() == reference::round(reference::float16, x),
                         "after pattern " << bits);
      BOOST_TEST_REQUIRE(float16(-x).bits() == reference::round(reference::float16, -x),
                         "after pattern " << bits);
    }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double x : {1e300, 5e-324, 1e-310, 0x1p-126, 0x1p128, 0x1.fffffffp127, infinity}) {
    BOOST_TEST(float16(x).bits() == reference::round(reference::float16, x));
    BOOST_TEST(float16(-x).bits() == reference::round(reference::float16, -x));
  }
  BOOST_TEST(float16(std::nan("77")).bits() == 0x7fff);
}

BOOST_AUTO_TEST_CASE(each_value_comes_back_from_its_float_and_its_double) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    if ((bits & 0x7fffu) > reference::float16.infinity()) continue;
    const auto value = float16::from_bits(static_cast<std::uint16_t>(bits));
    BOOST_TEST_REQUIRE(float16(static_cast<float>(value)).bits() == bits);
    BOOST_TEST_REQUIRE(float16(static_cast<double>(value)).bits() == bits);
    BOOST_TEST_REQUIRE((value == float16(static_cast<float>(value))));
  }
}

BOOST_AUTO_TEST_CASE(numeric_limits_are_those_of_the_format) {
  using Limits = std::numeric_limits<float16>;
  static_assert(Limits::is_specialized && Limits::has_infinity && Limits::is_signed && !Limits::is_integer);
  const auto format = reference::float16;
  const auto as_double = [](float16 x) { return static_cast<double>(x); };
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
