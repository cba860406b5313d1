#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <halfstep/optim/schedule.hpp>
#include <type_traits>

namespace halfstep {

/// What one parameter does differently from the others. 0 for weight_decay_factor is the usual choice for
/// biases and normalisation weights; 0 for learning_rate_factor leaves a weight where it is while its moments
/// still move.
struct ParameterOptions {
  float learning_rate_factor = 1;  ///< times the schedule's rate, in the decoupled decay too
  float weight_decay_factor = 1;   ///< times the optimizer's weight_decay
};

/// Throws ConfigurationError naming `parameter` if a factor is negative or not finite.
inline void validate(const ParameterOptions& options, const char* parameter) {
  constexpr const char* rule = "a factor must be finite and not negative";
  if (!detail::is_rate(options.learning_rate_factor)) {
    detail::throw_if_fault(parameter, {"learning_rate_factor", options.learning_rate_factor, rule});
  }
  if (!detail::is_rate(options.weight_decay_factor)) {
    detail::throw_if_fault(parameter, {"weight_decay_factor", options.weight_decay_factor, rule});
  }
}

namespace detail {

template <class O>
concept HasElementUpdate =
    (O::moments == 0 && requires(float& w, float g, const typename O::Coefficients c,
                                 const ParameterOptions p) { O::update(w, g, c, p); }) ||
    (O::moments == 1 && requires(float& w, float g, const typename O::Coefficients c,
                                 const ParameterOptions p) { O::update(w, g, w, c, p); }) ||
    (O::moments == 2 && requires(float& w, float g, const typename O::Coefficients c,
                                 const ParameterOptions p) { O::update(w, g, w, w, c, p); });

}  // namespace detail

/// An optimizer is a small value: its options, and pure arithmetic on single elements that host and device
/// run alike.
///
/// - `name`, `moments` (0 to 2 buffers of one float per weight, zero when training begins) and
/// `moment_names`, by which
///   a checkpoint knows them.
/// - `learning_rate`: a schedule; any callable of the position.
/// - `coefficients(learning_rate, t)`: what is the same for every element of an update, computed in double
/// and rounded to
///   float once. t is 1 for the first *applied* update: skipped windows do not count.
/// - static `update(weight, unscaled clipped gradient, moments..., coefficients, options)`: one element, all
/// in float,
///   without branches on the element's values, so that a loop over it vectorises.
/// - `validate()` throws ConfigurationError.
template <class O>
concept Optimizer = std::is_trivially_copyable_v<O> &&
    std::is_trivially_copyable_v<typename O::Coefficients> &&
    requires(const O optimizer, float rate, std::int64_t t) {
  requires LearningRateSchedule<std::remove_cvref_t<decltype(optimizer.learning_rate)>>;
  { O::name } -> std::convertible_to<const char*>;
  { O::moments } -> std::convertible_to<int>;
  { O::moment_names.size() } -> std::convertible_to<std::size_t>;
  { optimizer.coefficients(rate, t) } -> std::same_as<typename O::Coefficients>;
  { optimizer.validate() } -> std::same_as<void>;
} && detail::HasElementUpdate<O>;

}  // namespace halfstep
