#pragma once

#include <cstdint>
#include <string_view>

#include <halfstep/policy/operation.hpp>
#include <halfstep/policy/rules.hpp>

namespace halfstep {

/// True float32: no second copy of the weights, no scaler; gradients are still checked.
struct Float32Policy {
  static constexpr std::string_view name = "float32";
  using compute_type = float;
  using storage_type = float;
  using accumulator_type = float;
  static constexpr NoScaler scaler{};
  using on_skip = HoldSchedule;
  static constexpr std::int64_t stop_after_skips = 1000;
};

/// Float32Policy but for products on a GPU that has TensorFloat-32: they round each float operand to 11 significant
/// bits first and are several times faster for it; sums are float. Elsewhere it is Float32Policy to the bit.
struct TensorFloat32Policy : Float32Policy {
  static constexpr std::string_view name = "tensorfloat32";
  static constexpr bool tensor_float32 = true;
};

/// Computes in bfloat16, which has float's range and so needs no scale; master weights stay in float32.
struct BFloat16Policy {
  static constexpr std::string_view name = "bfloat16";
  using compute_type = bfloat16;
  using storage_type = float;
  using accumulator_type = float;
  static constexpr NoScaler scaler{};
  using on_skip = HoldSchedule;
  static constexpr std::int64_t stop_after_skips = 1000;
};

/// Computes in float16 under a dynamic loss scale (Micikevicius et al., Mixed Precision Training, 2018); master
/// weights stay in float32.
struct Float16ScaledPolicy {
  static constexpr std::string_view name = "float16";
  using compute_type = float16;
  using storage_type = float;
  using accumulator_type = float;
  static constexpr DynamicScaler scaler{};
  using on_skip = HoldSchedule;
  static constexpr std::int64_t stop_after_skips = 1000;
};

/// What every policy meets, those above and users' own. `rule::Explain` says the same in sentences. Three members are
/// optional: `in_float` and `in_compute_type`, for which see operation_type, and `tensor_float32`.
template <class P>
concept PrecisionPolicy =
    rule::HasName<P> && rule::HasComputeType<P> && rule::HasStorageType<P> && rule::HasAccumulatorType<P> &&
    rule::HasScaler<P> && rule::HasOnSkip<P> && rule::HasStopAfterSkips<P> && rule::MastersInFloat<P> &&
    rule::AccumulatesInFloat<P> && rule::ScalesFloat16<P> && rule::ScalerIsSound<P>;

}  // namespace halfstep
