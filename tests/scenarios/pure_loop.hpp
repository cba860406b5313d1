#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <halfstep/optim/optimizer.hpp>
#include <halfstep/scaling/decide.hpp>
#include <halfstep/scaling/unscale.hpp>
#include <vector>

/// The law of a step with plain loops around it, on scaled gradients that the scenario dictates: measure,
/// decide, clip, update. What it proves holds without a tape, a device or a trainer.
template <class Optimizer, class Scaler, class OnSkip = halfstep::HoldSchedule>
struct PureLoop {
  Optimizer optimizer;
  Scaler scaler;
  std::vector<float> weights;
  float max_norm = INFINITY;
  halfstep::StepState state = halfstep::initial_step_state(scaler);
  std::vector<float> first_moments = std::vector<float>(weights.size(), 0.0f);
  std::vector<float> second_moments = std::vector<float>(weights.size(), 0.0f);

  float scale() const { return state.scaler.scale; }

  /// One window of one sample. An empty vector: no parameter has a gradient.
  halfstep::StepDecision window(const std::vector<float>& scaled, bool loss_finite = true) {
    std::vector<float> gradients(scaled);
    halfstep::GradientFacts facts{.has_gradients = !scaled.empty(), .loss_finite = loss_finite};
    const float inverse = halfstep::inverse_scale(scale(), 1.0, 1);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] *= inverse;
      facts.sum_of_squares += static_cast<double>(gradients[i]) * static_cast<double>(gradients[i]);
      if (!halfstep::detail::has_finite_bits(gradients[i]) && facts.gradients_finite) {
        facts.gradients_finite = false;
        facts.first_bad_index = static_cast<std::int64_t>(i);
      }
    }
    halfstep::StepDecision decision = halfstep::decide<OnSkip>(scaler, state, facts, max_norm);
    decision.learning_rate = static_cast<float>(optimizer.learning_rate(state.schedule_position));
    if (decision.outcome == halfstep::Outcome::applied) update(gradients, decision);
    state = decision.next;
    return decision;
  }

  /// One window whose true gradients are these, scaled without loss.
  halfstep::StepDecision window_of_true(std::vector<float> gradients) {
    for (float& gradient : gradients) gradient *= scale();
    return window(gradients);
  }

 private:
  void update(const std::vector<float>& gradients, const halfstep::StepDecision& decision) {
    const auto coefficients = optimizer.coefficients(decision.learning_rate, decision.next.update_number);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float gradient = gradients[i] * decision.clip_coefficient;
      if constexpr (Optimizer::moments == 1) {
        Optimizer::update(weights[i], gradient, first_moments[i], coefficients, {});
      } else {
        Optimizer::update(weights[i], gradient, first_moments[i], second_moments[i], coefficients, {});
      }
    }
  }
};
