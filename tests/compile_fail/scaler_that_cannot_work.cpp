// A scale that grows by a factor of 1 never grows; the numbers of a policy are checked by the compiler.
// expect: halfstep policy: the numbers of `scaler` cannot work: scales must be finite and positive with
// expect: halfstep policy: `scaler` must be a constant, for its numbers are checked by the compiler; write
#include <halfstep/policy.hpp>

using namespace halfstep;

struct Unmoving : Float16ScaledPolicy {
#if defined(HALFSTEP_CONTROL)
  static constexpr DynamicScaler scaler{.growth_factor = 1.0001};
#else
  static constexpr DynamicScaler scaler{.growth_factor = 1.0};
#endif
};

struct Changing : Float16ScaledPolicy {
#if defined(HALFSTEP_CONTROL)
  static constexpr DynamicScaler scaler{};
#else
  static inline DynamicScaler scaler{};
#endif
};

static_assert(rule::Explain<Unmoving>::holds);
static_assert(rule::Explain<Changing>::holds);
