#include <boost/test/unit_test.hpp>
#include <halfstep/scaling/clip.hpp>
#include <limits>
#include <string>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(clip_tests)

using namespace halfstep;
using test::check_is;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

static_assert(clip_coefficient(0.5, 1) == 1);
static_assert(clip_coefficient(0, 1) == 1);  // not 0 / 0
static_assert(clip_coefficient(5, infinity) == 1);
static_assert(clip_coefficient(1e300, infinity) == 1);
static_assert(clip_coefficient(5, 1) == static_cast<float>(1 / (5 + 1e-6)));
static_assert(clip_coefficient(300, 1) == static_cast<float>(1 / (300 + 1e-6)));
static_assert(clip_coefficient(120000, 1e-3f) > 0);  // half(8.3e-9) is 0, float is not
static_assert(clip_coefficient(1e60, 1e30f) > 0);    // beyond float's range in between

static_assert(clip_value(0.3f, 0.1f) == 0.1f && clip_value(-0.3f, 0.1f) == -0.1f);
static_assert(clip_value(-0.05f, 0.1f) == -0.05f && clip_value(0.1f, 0.1f) == 0.1f);
static_assert(clip_value(3e38f, infinity) == 3e38f && clip_value(-3e38f, infinity) == -3e38f);

std::string refusal(float max_norm, float max_value) {
  try {
    validate_clip(max_norm, max_value);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_threshold_that_would_turn_erase_or_poison_the_gradients_is_refused) {
  const std::string rule =
      "; a clipping threshold must be greater than 0; infinity measures and leaves the gradients as they "
      "are.";
  check_is(refusal(infinity, infinity), "accepted");
  check_is(refusal(1.0f, 0.1f), "accepted");
  check_is(refusal(1e-45f, infinity), "accepted");
  check_is(refusal(-1.0f, infinity), "clipping: clip_norm is -1" + rule);
  check_is(refusal(0.0f, infinity), "clipping: clip_norm is 0" + rule);
  check_is(refusal(-0.0f, infinity), "clipping: clip_norm is -0" + rule);
  check_is(refusal(nan_value, infinity), "clipping: clip_norm is NaN" + rule);
  check_is(refusal(-infinity, infinity), "clipping: clip_norm is -infinity" + rule);
  check_is(refusal(1.0f, -0.1f), "clipping: clip_value is -0.1" + rule);
  check_is(refusal(1.0f, nan_value), "clipping: clip_value is NaN" + rule);
}

BOOST_AUTO_TEST_SUITE_END()
