#pragma once

#include <array>
#include <cstdint>
#include <halfstep/optim/adam_element.hpp>

namespace halfstep {

/// Adam (Kingma and Ba, 2015): formulas, defaults and order of operations of torch.optim.Adam, not amsgrad.
/// Epsilon stands outside the corrected root. Weight decay is L2: it is added to the gradient and goes
/// through the moments; for decay that does not, take AdamW.
///
///     g = g + weight_decay * w                              (g negated first if maximize)
///     m = beta1 * m + (1 - beta1) * g
///     v = beta2 * v + (1 - beta2) * g^2
///     w = w - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
template <LearningRateSchedule S = Schedule>
struct BasicAdam {
  static constexpr const char* name = "Adam";
  static constexpr int moments = 2;
  static constexpr std::array<const char*, 2> moment_names{"m", "v"};
  using Coefficients = AdamCoefficients;

  S learning_rate = detail::default_learning_rate<S>();  ///< 1e-3
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool maximize = false;

  /// Requires: t >= 1.
  HALFSTEP_HOST_DEVICE Coefficients coefficients(float rate, std::int64_t t) const {
    return detail::adam_coefficients({beta1, beta2, epsilon, weight_decay, maximize}, rate, t);
  }

  HALFSTEP_HOST_DEVICE static void update(float& weight, float gradient, float& m, float& v,
                                          const Coefficients& c, const ParameterOptions& options) {
    const float slope = c.sign * gradient + (c.weight_decay * options.weight_decay_factor) * weight;
    detail::adam_step(weight, slope, m, v, c, options.learning_rate_factor);
  }

  constexpr detail::OptionFault fault() const {
    return detail::adam_fault({beta1, beta2, epsilon, weight_decay, maximize});
  }

  void validate() const {
    detail::validate_schedule(name, learning_rate);
    detail::throw_if_fault(name, fault());
  }
};

/// BasicAdam{my_schedule}, and with g++ or clang 17 BasicAdam{.learning_rate = my_schedule, ...}; elsewhere
/// name the type of the schedule: BasicAdam<MySchedule>{.learning_rate = my_schedule, ...}.
template <class Rate, class... Rest>
BasicAdam(Rate, Rest...) -> BasicAdam<detail::ScheduleFor<Rate, Schedule>>;

using Adam = BasicAdam<>;

}  // namespace halfstep
