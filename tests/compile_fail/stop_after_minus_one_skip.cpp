// A negative number would never be reached, and training would never stop.
// expect: halfstep policy: `stop_after_skips` is negative; write how many windows in a row may be skipped, or 0 never
#include <halfstep/policy.hpp>

struct Mine : halfstep::BFloat16Policy {
#if !defined(HALFSTEP_CONTROL)
  static constexpr std::int64_t stop_after_skips = -1;
#endif
};

static_assert(halfstep::rule::Explain<Mine>::holds);
