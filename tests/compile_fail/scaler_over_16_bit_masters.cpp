// Unscaling in place in 16 bits loses what scaling preserved.
// expect: halfstep policy: a loss scaler over 16-bit master weights: unscaling in 16 bits loses what
// expect: write `using storage_type = float;`
#include <halfstep/policy.hpp>

struct Mine : halfstep::Float16ScaledPolicy {
#if !defined(HALFSTEP_CONTROL)
  using storage_type = halfstep::float16;
#endif
};

static_assert(halfstep::rule::Explain<Mine>::holds);
