#pragma once

#include <concepts>
#include <cstdint>

namespace halfstep {

/// A skipped window leaves the schedule where it is: the learning rates belong to updates. As PyTorch users
/// get it who step the scheduler only when the optimizer stepped.
struct HoldSchedule {
  static constexpr std::int64_t positions_on_skip = 0;
};

/// A skipped window uses up its learning rate: the learning rates belong to batches.
struct AdvanceSchedule {
  static constexpr std::int64_t positions_on_skip = 1;
};

/// By how many positions a skipped window moves the schedule. It cannot move back.
template <class Rule>
concept OnSkipRule = requires {
  { Rule::positions_on_skip } -> std::convertible_to<std::int64_t>;
  requires Rule::positions_on_skip >= 0;
};

}  // namespace halfstep
