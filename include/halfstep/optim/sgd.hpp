#pragma once

#include <array>
#include <cstdint>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/option_fault.hpp>
#include <halfstep/optim/optimizer.hpp>
#include <halfstep/optim/schedule.hpp>

namespace halfstep {

/// Stochastic gradient descent with momentum: formulas and defaults of torch.optim.SGD.
///
///     d = g + weight_decay * w                              (g negated first if maximize)
///     b = d at the first update, momentum * b + (1 - dampening) * d after it
///     w = w - rate * (b, or d + momentum * b with nesterov, or d without momentum)
///
/// The first update is the run's first, for every parameter: one that is unfrozen later starts from a buffer
/// of zeros. Without momentum the buffer keeps its zeros.
template <LearningRateSchedule S = Schedule>
struct BasicSGD {
  static constexpr const char* name = "SGD";
  static constexpr int moments = 1;
  static constexpr std::array<const char*, 1> moment_names{"momentum_buffer"};

  S learning_rate = detail::default_learning_rate<S>();  ///< 1e-3
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  ///< added to the gradient, not decoupled
  bool nesterov = false;
  bool maximize = false;

  /// Momentum, Nesterov and the first update are told by factors, not by branches: a loop over elements
  /// vectorises.
  struct Coefficients {
    float learning_rate;
    float weight_decay;
    float sign;                   // -1 to climb
    float buffer_decay;           // momentum; 0 at the first update; 1 without momentum
    float gradient_into_buffer;   // 1 - dampening; 1 at the first update; 0 without momentum
    float gradient_in_direction;  // 1 without momentum and with nesterov, else 0
    float buffer_in_direction;    // 1; momentum with nesterov; 0 without momentum
  };

  HALFSTEP_HOST_DEVICE constexpr Coefficients coefficients(float rate, std::int64_t t) const {
    const float decay = static_cast<float>(momentum);
    const float share = static_cast<float>(1.0 - dampening);
    const float climb = maximize ? -1.0f : 1.0f;
    const float l2 = static_cast<float>(weight_decay);
    if (momentum == 0) return {rate, l2, climb, 1.0f, 0.0f, 1.0f, 0.0f};
    const bool first = t <= 1;
    return {rate,
            l2,
            climb,
            first ? 0.0f : decay,
            first ? 1.0f : share,
            nesterov ? 1.0f : 0.0f,
            nesterov ? decay : 1.0f};
  }

  HALFSTEP_HOST_DEVICE static constexpr void update(float& weight, float gradient, float& momentum_buffer,
                                                    const Coefficients& c, const ParameterOptions& options) {
    const float slope = c.sign * gradient + (c.weight_decay * options.weight_decay_factor) * weight;
    momentum_buffer = c.buffer_decay * momentum_buffer + c.gradient_into_buffer * slope;
    const float direction = c.gradient_in_direction * slope + c.buffer_in_direction * momentum_buffer;
    weight -= (c.learning_rate * options.learning_rate_factor) * direction;
  }

  constexpr detail::OptionFault fault() const {
    if (!detail::is_rate(momentum)) return {"momentum", momentum, "it must be finite and not negative"};
    if (!detail::is_finite_as_float(dampening)) return {"dampening", dampening, "it must be finite"};
    if (!detail::is_rate(weight_decay)) {
      return {"weight_decay", weight_decay, "it must be finite and not negative"};
    }
    if (nesterov && momentum == 0) return {"momentum", momentum, "nesterov needs a momentum greater than 0"};
    if (nesterov && dampening != 0) return {"dampening", dampening, "nesterov needs a dampening of 0"};
    return {};
  }

  void validate() const {
    detail::validate_schedule(name, learning_rate);
    detail::throw_if_fault(name, fault());
  }
};

/// BasicSGD{my_schedule}, and with g++ or clang 17 BasicSGD{.learning_rate = my_schedule, ...}; elsewhere
/// name the type of the schedule: BasicSGD<MySchedule>{.learning_rate = my_schedule, ...}.
template <class Rate, class... Rest>
BasicSGD(Rate, Rest...) -> BasicSGD<detail::ScheduleFor<Rate, Schedule>>;

using SGD = BasicSGD<>;

}  // namespace halfstep
