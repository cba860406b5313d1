#pragma once

#include <array>
#include <cstdint>
#include <halfstep/optim/adam_element.hpp>

namespace halfstep {

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019): formulas, defaults and order of operations
/// of torch.optim.AdamW, not amsgrad.
///
///     w = w * (1 - rate * weight_decay)
///     m = beta1 * m + (1 - beta1) * g                       (g negated first if maximize)
///     v = beta2 * v + (1 - beta2) * g^2
///     w = w - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
template <LearningRateSchedule S = Schedule>
struct BasicAdamW {
  static constexpr const char* name = "AdamW";
  static constexpr int moments = 2;
  static constexpr std::array<const char*, 2> moment_names{"m", "v"};
  using Coefficients = AdamCoefficients;

  S learning_rate = detail::default_learning_rate<S>();  ///< 1e-3
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  bool maximize = false;

  /// Requires: t >= 1.
  HALFSTEP_HOST_DEVICE Coefficients coefficients(float rate, std::int64_t t) const {
    const double decay = static_cast<double>(rate) * weight_decay;
    return detail::adam_coefficients({beta1, beta2, epsilon, decay, maximize}, rate, t);
  }

  HALFSTEP_HOST_DEVICE static void update(float& weight, float gradient, float& m, float& v,
                                          const Coefficients& c, const ParameterOptions& options) {
    weight *= 1.0f - c.weight_decay * (options.learning_rate_factor * options.weight_decay_factor);
    detail::adam_step(weight, c.sign * gradient, m, v, c, options.learning_rate_factor);
  }

  constexpr detail::OptionFault fault() const {
    return detail::adam_fault({beta1, beta2, epsilon, weight_decay, maximize});
  }

  void validate() const {
    detail::validate_schedule(name, learning_rate);
    detail::throw_if_fault(name, fault());
  }
};

/// BasicAdamW{my_schedule}, and with g++ or clang 17 BasicAdamW{.learning_rate = my_schedule, ...}; elsewhere
/// name the type of the schedule: BasicAdamW<MySchedule>{.learning_rate = my_schedule, ...}.
template <class Rate, class... Rest>
BasicAdamW(Rate, Rest...) -> BasicAdamW<detail::ScheduleFor<Rate, Schedule>>;

using AdamW = BasicAdamW<>;

}  // namespace halfstep
