// Small updates round away in 16 bits, with a scaler or without.
// expect: halfstep policy: master weights must be float: in 16 bits small updates round away; write
#include <halfstep/policy.hpp>

struct Mine : halfstep::BFloat16Policy {
#if !defined(HALFSTEP_CONTROL)
  using storage_type = halfstep::bfloat16;
#endif
};

static_assert(halfstep::rule::Explain<Mine>::holds);
