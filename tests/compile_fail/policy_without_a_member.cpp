// A policy that lacks a member is told which, and what to write. One policy for each member.
// expect: halfstep policy: `name` is missing; write `static constexpr std::string_view name
// expect: halfstep policy: `compute_type` is missing or none of float, float16, bfloat16; write
// expect: halfstep policy: `storage_type`, the type of the master weights, is missing; write
// expect: halfstep policy: `accumulator_type` is missing; write `using accumulator_type = float;`
// expect: halfstep policy: `scaler` is missing or no scaler; write `static constexpr DynamicScaler scaler{};`
// expect: halfstep policy: `on_skip` is missing or no rule; write `using on_skip = HoldSchedule;`
// expect: halfstep policy: `stop_after_skips` is missing; write `static constexpr std::int64_t
#include <halfstep/policy.hpp>

using namespace halfstep;

#if defined(HALFSTEP_CONTROL)
#define HALFSTEP_IN_CONTROL(...) __VA_ARGS__
#else
#define HALFSTEP_IN_CONTROL(...)
#endif

struct Nameless {
  HALFSTEP_IN_CONTROL(static constexpr std::string_view name = "mine";)
  using compute_type = float;
  using storage_type = float;
  using accumulator_type = float;
  static constexpr NoScaler scaler{};
  using on_skip = HoldSchedule;
  static constexpr std::int64_t stop_after_skips = 1000;
};

struct WithoutComputeType {
  static constexpr std::string_view name = "mine";
  HALFSTEP_IN_CONTROL(using compute_type = bfloat16;)
  using storage_type = float;
  using accumulator_type = float;
  static constexpr NoScaler scaler{};
  using on_skip = HoldSchedule;
  static constexpr std::int64_t stop_after_skips = 1000;
};

struct WithoutStorageType {
  static constexpr std::string_view name = "mine";
  using compute_type = float;
  HALFSTEP_IN_CONTROL(using storage_type = float;)
  using accumulator_type = float;
  static constexpr NoScaler scaler{};
  using on_skip = HoldSchedule;
  static constexpr std::int64_t stop_after_skips = 1000;
};

struct WithoutAccumulatorType {
  static constexpr std::string_view name = "mine";
  using compute_type = float;
  using storage_type = float;
  HALFSTEP_IN_CONTROL(using accumulator_type = float;)
  static constexpr NoScaler scaler{};
  using on_skip = HoldSchedule;
  static constexpr std::int64_t stop_after_skips = 1000;
};

struct WithoutScaler {
  static constexpr std::string_view name = "mine";
  using compute_type = float16;
  using storage_type = float;
  using accumulator_type = float;
  HALFSTEP_IN_CONTROL(static constexpr DynamicScaler scaler{};)
  using on_skip = HoldSchedule;
  static constexpr std::int64_t stop_after_skips = 1000;
};

struct WithoutRuleForSkips {
  static constexpr std::string_view name = "mine";
  using compute_type = float;
  using storage_type = float;
  using accumulator_type = float;
  static constexpr NoScaler scaler{};
  HALFSTEP_IN_CONTROL(using on_skip = AdvanceSchedule;)
  static constexpr std::int64_t stop_after_skips = 1000;
};

struct WithoutEnd {
  static constexpr std::string_view name = "mine";
  using compute_type = float;
  using storage_type = float;
  using accumulator_type = float;
  static constexpr NoScaler scaler{};
  using on_skip = HoldSchedule;
  HALFSTEP_IN_CONTROL(static constexpr std::int64_t stop_after_skips = 0;)
};

static_assert(rule::Explain<Nameless>::holds);
static_assert(rule::Explain<WithoutComputeType>::holds);
static_assert(rule::Explain<WithoutStorageType>::holds);
static_assert(rule::Explain<WithoutAccumulatorType>::holds);
static_assert(rule::Explain<WithoutScaler>::holds);
static_assert(rule::Explain<WithoutRuleForSkips>::holds);
static_assert(rule::Explain<WithoutEnd>::holds);
