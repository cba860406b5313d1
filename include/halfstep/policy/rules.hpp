#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>
#include <halfstep/scaling/on_skip.hpp>
#include <halfstep/scaling/scalers.hpp>

namespace halfstep::rule {

template <class T>
inline constexpr bool is_compute_type =
    std::is_same_v<T, float> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

template <class P>
concept HasName = requires {
  { P::name } -> std::convertible_to<std::string_view>;
};

template <class P>
concept HasComputeType = requires { typename P::compute_type; } && is_compute_type<typename P::compute_type>;

template <class P>
concept HasStorageType = requires { typename P::storage_type; };

template <class P>
concept HasAccumulatorType = requires { typename P::accumulator_type; };

template <class P>
concept HasScaler = requires { P::scaler; } && Scaler<std::remove_cvref_t<decltype(P::scaler)>>;

template <class P>
concept ScalerIsConstant = requires { typename std::bool_constant<is_valid(P::scaler)>; };

template <class P>
concept HasOnSkip = requires { typename P::on_skip; } && OnSkipRule<typename P::on_skip>;

template <class P>
concept HasStopAfterSkips = requires {
  { P::stop_after_skips } -> std::convertible_to<std::int64_t>;
};

template <class P>
concept ScalesNothing = !std::remove_cvref_t<decltype(P::scaler)>::scales;

template <class P>
concept MastersInFloat = std::is_same_v<typename P::storage_type, float>;

template <class P>
concept AccumulatesInFloat = std::is_same_v<typename P::accumulator_type, float>;

template <class P>
concept ScalesFloat16 = !std::is_same_v<typename P::compute_type, float16> || !ScalesNothing<P>;

template <class P>
concept ScalerIsSound = ScalerIsConstant<P> && is_valid(P::scaler);

/// The same rules as sentences: instantiating this with a type that breaks one is an error that says which, and
/// what to write instead.
template <class P>
struct Explain {
  static_assert(HasName<P>,
                "halfstep policy: `name` is missing; write `static constexpr std::string_view name = \"mine\";` or "
                "derive from one of the library's policies");
  static_assert(HasComputeType<P>,
                "halfstep policy: `compute_type` is missing or none of float, float16, bfloat16; write "
                "`using compute_type = bfloat16;`");
  static_assert(HasStorageType<P>,
                "halfstep policy: `storage_type`, the type of the master weights, is missing; write "
                "`using storage_type = float;`");
  static_assert(HasAccumulatorType<P>,
                "halfstep policy: `accumulator_type` is missing; write `using accumulator_type = float;`");
  static_assert(HasScaler<P>,
                "halfstep policy: `scaler` is missing or no scaler; write `static constexpr DynamicScaler scaler{};` "
                "or `static constexpr NoScaler scaler{};`");
  static_assert(HasOnSkip<P>,
                "halfstep policy: `on_skip` is missing or no rule; write `using on_skip = HoldSchedule;` or "
                "`using on_skip = AdvanceSchedule;`");
  static_assert(HasStopAfterSkips<P>,
                "halfstep policy: `stop_after_skips` is missing; write `static constexpr std::int64_t "
                "stop_after_skips = 1000;`, or 0 never to stop");

  template <class Q>
  static consteval bool numbers_hold() {
    if constexpr (HasStorageType<Q> && HasScaler<Q>) {
      static_assert(MastersInFloat<Q> || ScalesNothing<Q>,
                    "halfstep policy: a loss scaler over 16-bit master weights: unscaling in 16 bits loses what "
                    "scaling preserved, and small updates round away; write `using storage_type = float;`");
      static_assert(MastersInFloat<Q> || !ScalesNothing<Q>,
                    "halfstep policy: master weights must be float: in 16 bits small updates round away; write "
                    "`using storage_type = float;`");
    }
    if constexpr (HasAccumulatorType<Q>) {
      static_assert(AccumulatesInFloat<Q>,
                    "halfstep policy: sums of products must be kept in float: a float16 sum of ones stalls at 2048, "
                    "a bfloat16 one at 256; write `using accumulator_type = float;`");
    }
    if constexpr (HasStopAfterSkips<Q>) {
      static_assert(Q::stop_after_skips >= 0,
                    "halfstep policy: `stop_after_skips` is negative; write how many windows in a row may be skipped, "
                    "or 0 never to stop");
    }
    if constexpr (HasComputeType<Q> && HasScaler<Q>) {
      static_assert(ScalesFloat16<Q>,
                    "halfstep policy: float16 compute needs a loss scaler, because gradients under 2^-24 round to "
                    "zero; write `static constexpr DynamicScaler scaler{};`, or compute in bfloat16");
    }
    if constexpr (HasScaler<Q>) {
      static_assert(ScalerIsConstant<Q>,
                    "halfstep policy: `scaler` must be a constant, for its numbers are checked by the compiler; write "
                    "`static constexpr DynamicScaler scaler{...};`");
      static_assert(!ScalerIsConstant<Q> || ScalerIsSound<Q>,
                    "halfstep policy: the numbers of `scaler` cannot work: scales must be finite and positive with "
                    "minimum_scale <= initial_scale <= maximum_scale, growth_factor > 1, 0 < backoff_factor < 1, "
                    "growth_interval >= 1, hysteresis >= 1");
    }
    return true;
  }
  static constexpr bool holds = numbers_hold<P>();
};

}  // namespace halfstep::rule
