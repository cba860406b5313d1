// Compiled with -ffast-math, under which NaN != NaN is false and isfinite(infinity) is true.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/scaling/clip.hpp>
#include <halfstep/scaling/decide.hpp>
#include <halfstep/scaling/scalers.hpp>

#include "support/float_from_bits.hpp"

using namespace halfstep;
using test::float_from_bits;

BOOST_AUTO_TEST_SUITE(refusals_fast_math_tests)

BOOST_AUTO_TEST_CASE(nan_and_infinity_are_refused_under_fast_math_too) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f800001u}) {
    const float value = float_from_bits(bits);
    DynamicScaler scaler;
    scaler.growth_factor = value;
    BOOST_CHECK_THROW(validate(scaler), ConfigurationError);
    BOOST_CHECK_THROW(validate(StaticScaler{.scale = value}), ConfigurationError);
    BOOST_CHECK_THROW(AdamW{.learning_rate = value}.validate(), ConfigurationError);
    BOOST_CHECK_THROW(AdamW{.beta1 = value}.validate(), ConfigurationError);
    if (bits != 0x7f800000u) BOOST_CHECK_THROW(validate_clip(value, 1.0f), ConfigurationError);
  }
}

BOOST_AUTO_TEST_CASE(an_infinite_threshold_only_measures_under_fast_math_too) {
  const float infinity = float_from_bits(0x7f800000u);
  BOOST_CHECK_NO_THROW(validate_clip(infinity, infinity));
  BOOST_TEST(clip_coefficient(5, infinity) == 1.0f);
}

BOOST_AUTO_TEST_CASE(growth_stops_before_infinity_under_fast_math_too) {
  DynamicScaler scaler;
  scaler.growth_interval = 1;
  const ScalerState top{float_from_bits(0x7f000000u), 0, 1};  // 2^127
  BOOST_TEST(scaler.after(top, Outcome::applied, SkipCause::none).next.scale == top.scale);
}

BOOST_AUTO_TEST_SUITE_END()
