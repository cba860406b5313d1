#pragma once

#include <halfstep/halfstep.hpp>

#include "digits.hpp"

/// One hidden layer, GELU, ten logits.
struct DigitsMlp {
  halfstep::Linear hidden{Digits::pixels, 256};
  halfstep::Linear output{256, Digits::classes};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("hidden", hidden);
    visit("output", output);
  }

  template <class Tape>
  auto forward(Tape& tape, auto images) {
    return output(tape, gelu(tape, hidden(tape, images)));
  }

  template <class Tape>
  halfstep::Loss loss(Tape& tape, const Digits::Batch& batch) {
    return cross_entropy(tape, forward(tape, batch.features), batch.labels);
  }
};
