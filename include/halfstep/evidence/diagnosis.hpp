#pragma once

#include <cstdint>
#include <halfstep/evidence/tensor_statistics.hpp>
#include <halfstep/nn/observer.hpp>
#include <halfstep/scaling/outcome.hpp>
#include <optional>
#include <string>
#include <vector>

namespace halfstep {

/// What a diagnosis says of one tensor.
struct TensorEvidence {
  Place place = Place::activation;
  /// Of an activation or its gradient: the layer, by the name that the model gives it, whose parameters the
  /// operation computes with; where it has none, the layer before it (`follows_layer`). Of a parameter or its
  /// gradient: the parameter's name. Empty where no layer has computed yet.
  std::string layer = {};
  bool follows_layer = false;
  /// Of an activation, the loss or their gradient: the operation that computed it ("Matmul", "Gelu"), and
  /// which of several of the same name at the same layer, from 1.
  std::string operation = {};
  std::int64_t use = 1;
  /// Of a gradient: the operation whose backward pass wrote it last; empty for the loss's own.
  std::string written_by = {};
  /// Of input data: which of the tensors that the model gave to operations, from 0.
  std::int64_t input = -1;
  /// The micro-batch of the window, from 0, and the place in the order of its computation, from 0.
  std::int64_t micro_batch = 0;
  std::int64_t position = 0;
  DType dtype = DType::f32;
  Shape shape{0};
  TensorStatistics statistics = {};
  /// Of input data, and of copies of it in another type, the statistics say only what is not finite, unless
  /// more was asked for: the rest is what samples hold.
  bool values_hidden = false;

  bool is_gradient() const {
    return place == Place::activation_gradient || place == Place::parameter_gradient;
  }
  /// `gradient of Gelu after "hidden"`
  std::string name() const;
};

/// Why a window was skipped, or what its numbers look like. After Trainer::diagnose_skips, `first` and what follows
/// it is of the first micro-batch that was not finite, computed again alone.
struct Diagnosis {
  /// The attempt that was computed again; 0 where no window had been skipped and the present state was used.
  std::int64_t attempt = 0;
  /// Why that attempt was skipped.
  SkipCause skip_cause = SkipCause::none;
  std::int64_t micro_batches = 0;
  float scale = 1;
  /// Mean over the valid samples of what was computed again; NaN where there was none.
  double loss = 0;
  /// The first tensor, in the order of the computation, that is not finite.
  std::optional<TensorEvidence> first = {};
  /// The first gradient that is not finite. It is another than `first` where activations that are not finite,
  /// as masks of -inf are, leave the loss finite.
  std::optional<TensorEvidence> first_gradient = {};
  /// The largest power of two for which no gradient of the batch comes within one binade of overflow, proved
  /// by computing with it; empty where the policy has no scale, the loss is not finite or no scale helps.
  std::optional<float> fitting_scale = {};
  /// All tensors in the order in which they came to be, on request. A gradient that was added to is listed
  /// once, where it was complete, with the numbers it then had.
  ///
  /// `statistics.rounded_to_zero` is known for gradients of a policy that scales its loss, and only there: it
  /// counts the elements that are zero at `scale` and finite and not zero when the same batch is computed at
  /// 4096 times the scale. Elements that are zero there too, or lie behind an overflow that the larger scale
  /// causes, are not counted: the true number is this or more.
  std::vector<TensorEvidence> table = {};
  /// What to do, in sentences.
  std::string advice = {};

  bool finite() const { return !first.has_value(); }
  /// All of it but the table, in lines.
  std::string text() const;
  /// The table, one tensor a line under a line of headings.
  std::string table_text() const;
};

}  // namespace halfstep

#include <halfstep/evidence/detail/diagnosis_text.hpp>
