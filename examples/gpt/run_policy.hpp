#pragma once

#include "run.hpp"
#include "training.hpp"

namespace gpt {

template <class Policy>
Results run(const Settings& settings, const Tokenizer& tokenizer) {
  Training<Policy> training(settings, tokenizer);
  training.train();
  if (!settings.prompt.empty()) training.go_on_from_prompt();
  return training.results();
}

}  // namespace gpt
