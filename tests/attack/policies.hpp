#pragma once

#include <cstdint>
#include <halfstep/policy.hpp>
#include <tuple>

namespace halfstep::test {

/// Never stops, however many windows are skipped in a row.
template <class Base>
struct Endless : Base {
  static constexpr std::int64_t stop_after_skips = 0;
};

/// At the first scale of the library's own, 65536, a single sample that is altogether wrong overflows, as it should.
struct EndlessFloat16 : Endless<Float16ScaledPolicy> {
  static constexpr DynamicScaler scaler{.initial_scale = 1024};
};

/// What every attack runs under: one set, for each policy is a trainer and a tape of its own to compile.
using EndlessPolicies = std::tuple<Endless<Float32Policy>, Endless<BFloat16Policy>, EndlessFloat16>;

}  // namespace halfstep::test
