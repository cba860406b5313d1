// Products are summed in float.
// expect: halfstep policy: sums of products must be kept in float: a float16 sum of ones stalls at 2048
// expect: write `using accumulator_type = float;`
#include <halfstep/policy.hpp>

struct Mine : halfstep::Float16ScaledPolicy {
#if !defined(HALFSTEP_CONTROL)
  using accumulator_type = halfstep::float16;
#endif
};

static_assert(halfstep::rule::Explain<Mine>::holds);
