#pragma once

// What Adam and AdamW share.

#include <cmath>
#include <cstdint>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/option_fault.hpp>
#include <halfstep/optim/optimizer.hpp>

namespace halfstep {

/// The numbers that are the same for every element of one update of Adam or AdamW.
struct AdamCoefficients {
  float sign;                // -1 to climb
  float anchor_at_moment;    // 1 if beta1 > 1/2, else 0
  float anchor_at_gradient;  // the other way round
  float first_lerp;          // 1 - beta1, or -beta1 from the gradient
  float second_decay;        // beta2
  float second_share;        // 1 - beta2
  float step_size;           // rate / (1 - beta1^t)
  float root_of_correction;  // sqrt(1 - beta2^t)
  float epsilon;
  float weight_decay;  // Adam: weight_decay; AdamW: rate * weight_decay
};

namespace detail {

struct AdamOptions {
  double beta1, beta2, epsilon, weight_decay;
  bool maximize;
};

HALFSTEP_HOST_DEVICE inline AdamCoefficients adam_coefficients(const AdamOptions& options, double rate,
                                                               std::int64_t t) {
  const double updates = static_cast<double>(t);
  AdamCoefficients c{};
  c.sign = options.maximize ? -1.0f : 1.0f;
  c.anchor_at_moment = options.beta1 <= 0.5 ? 0.0f : 1.0f;
  c.anchor_at_gradient = 1.0f - c.anchor_at_moment;
  c.first_lerp = static_cast<float>(options.beta1 <= 0.5 ? -options.beta1 : 1.0 - options.beta1);
  c.second_decay = static_cast<float>(options.beta2);
  c.second_share = static_cast<float>(1.0 - options.beta2);
  c.step_size = static_cast<float>(rate / (1.0 - std::pow(options.beta1, updates)));
  c.root_of_correction = static_cast<float>(std::sqrt(1.0 - std::pow(options.beta2, updates)));
  c.epsilon = static_cast<float>(options.epsilon);
  c.weight_decay = static_cast<float>(options.weight_decay);
  return c;
}

/// One element's moments and step, from a gradient that is ready. The order of operations is that of
/// PyTorch's _single_tensor_adam: lerp_, mul_.addcmul_, sqrt / correction + eps, addcdiv_.
HALFSTEP_HOST_DEVICE inline void adam_step(float& weight, float gradient, float& m, float& v,
                                           const AdamCoefficients& c, float learning_rate_factor) {
  // As torch.lerp, from whichever end is nearer: m + (1 - beta1) * (g - m), or g - beta1 * (g - m) where
  // beta1 is 1/2 or less, so that beta1 = 0 gives the gradient itself. By factors 0 and 1, not by ?:, which
  // keeps g++ from vectorising.
  const float anchor = c.anchor_at_moment * m + c.anchor_at_gradient * gradient;
  m = anchor + c.first_lerp * (gradient - m);
  v = v * c.second_decay + (c.second_share * gradient) * gradient;
  const float denominator = sqrtf(v) / c.root_of_correction + c.epsilon;
  weight -= ((c.step_size * learning_rate_factor) * m) / denominator;
}

constexpr OptionFault adam_fault(const AdamOptions& options) {
  constexpr const char* beta_rule = "it must be at least 0 and less than 1";
  constexpr double smallest_normal_float = 0x1p-126;
  // 1 as a float would freeze the moment; hence the test after rounding.
  const auto is_beta = [](double beta) { return is_rate(beta) && static_cast<float>(beta) < 1.0f; };
  if (!is_beta(options.beta1)) return {"beta1", options.beta1, beta_rule};
  if (!is_beta(options.beta2)) return {"beta2", options.beta2, beta_rule};
  if (!is_rate(options.epsilon) || options.epsilon < smallest_normal_float) {
    return {"epsilon", options.epsilon,
            "it must be finite and at least 2^-126, or a gradient of zero would give 0 / 0"};
  }
  if (!is_rate(options.weight_decay)) {
    return {"weight_decay", options.weight_decay, "it must be finite and not negative"};
  }
  return {};
}

}  // namespace detail

}  // namespace halfstep
