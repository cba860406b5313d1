#pragma once

#include <halfstep/evidence/diagnosis.hpp>
#include <string>

namespace halfstep::detail {

inline std::string scale_advice(const Diagnosis& diagnosis, bool policy_scales) {
  const TensorEvidence& tensor = *diagnosis.first_gradient;
  if (!policy_scales) {
    return "a gradient is too large for " + type_text(tensor.dtype) +
           " although nothing is scaled: lower the learning rate, set clip_norm, and look at the initial "
           "values";
  }
  if (!diagnosis.fitting_scale) {
    return "the gradients are not finite at any loss scale, so this is no matter of the scale: look at "
           "what " +
           tensor.name() + " is computed from, and for a division, logarithm or root near zero";
  }
  const std::string fitting = scale_number(*diagnosis.fitting_scale);
  return "the loss scale is too high for this batch and " + fitting +
         " fits. A dynamic scaler goes down by itself: a few skips at the start, or one now and then, are "
         "normal. If "
         "they come often, give the policy's scaler .initial_scale = " +
         fitting +
         "; if the fitting scale keeps falling, the gradients grow: lower the learning rate or set clip_norm";
}

/// Of micro-batches with finite gradients.
inline std::string advice_on_sum(bool policy_scales) {
  return std::string("each micro-batch's gradient is finite, their sum is beyond float's largest number: lower the ") +
         (policy_scales ? "loss scale, the " : "") + "learning rate, set clip_norm, and look at the initial values";
}

inline std::string activation_advice(const TensorEvidence& tensor) {
  if (tensor.operation == "Cast" && tensor.layer.empty()) {
    return "the data are finite but too large for " + type_text(tensor.dtype) +
           "; neither scale nor learning rate can cure that. Bring the inputs to the order of one, by their "
           "mean and "
           "standard deviation say, or compute the first layer in float (ComputeIn<float, Layer>)";
  }
  if (tensor.dtype == DType::f16) {
    return "a value of the forward pass is beyond float16's largest number, 65504; no loss scale can cure "
           "that, it "
           "only acts backward. If it came after updates that went well, the weights have grown: lower the "
           "learning "
           "rate or lengthen the warm-up. If it comes at the first steps, bring inputs and initial values to "
           "the order "
           "of one. Else let this operation compute in float (in_float in the policy, or ComputeIn<float, "
           "Layer>), or "
           "train under BFloat16Policy, which has float's range";
  }
  return "a value of the forward pass leaves the range of " + type_text(tensor.dtype) +
         ", or is undefined (a difference or quotient of infinities): the run diverges. Lower the learning "
         "rate, and "
         "look for a division, logarithm or root near zero in " +
         operation_text(tensor);
}

/// What to do about a diagnosis.
inline std::string advice_for(const Diagnosis& diagnosis, bool policy_scales) {
  if (!diagnosis.first) {
    if (diagnosis.attempt == 0) return {};
    return "nothing is amiss when this is computed again: is it the batch that was skipped, unchanged? A "
           "model whose "
           "results depend on more than batch, weights and the tape's random numbers cannot be computed "
           "again; a "
           "gradient may also have overflowed float when it was unscaled, under a loss scale below one";
  }
  const TensorEvidence& tensor = *diagnosis.first;
  const bool harmless = diagnosis.first_gradient && is_finite(diagnosis.loss) && !tensor.is_gradient();
  if (harmless) {
    return tensor.name() +
           " is not finite, yet the loss is: if that is a mask, look at the gradient. There, " +
           scale_advice(diagnosis, policy_scales);
  }
  const bool mask = tensor.statistics.kind == NonFinite::negative_infinity && !diagnosis.first_gradient &&
                    !is_finite(diagnosis.loss);
  if (mask) {
    return tensor.name() +
           " holds -inf, the loss is not finite and every gradient is: so it is where classes are masked and "
           "a "
           "label, or label smoothing, asks for one of them. Leave such rows out (ignore_index), smooth "
           "less, or "
           "mask by a large finite number. No loss scale can cure it";
  }
  switch (tensor.place) {
    case Place::input:
      return "the data holds a number that is not finite; neither scale nor learning rate can cure that. "
             "Element " +
             std::to_string(tensor.statistics.first_non_finite) + " of " + tensor.shape.text() +
             " says which sample: clean it or leave it out, and check how the data was read and normalised";
    case Place::parameter:
      return "the weights themselves are not finite in " + type_text(tensor.dtype) +
             ". Skipped updates never wrote them: they grew too large for the type, or were set so. Lower "
             "the learning "
             "rate or use weight decay, and go back to a checkpoint before they grew";
    case Place::activation:
      return activation_advice(tensor);
    case Place::loss:
      return "the loss is not finite though all that it is computed from is; no loss scale can cure that. "
             "Look for a "
             "label that a mask of -inf forbids, targets of absurd size, a logarithm or division in a loss "
             "of your "
             "own";
    case Place::activation_gradient:
    case Place::parameter_gradient:
      return scale_advice(diagnosis, policy_scales);
  }
  return {};
}

}  // namespace halfstep::detail
