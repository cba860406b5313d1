#pragma once

#include <halfstep/evidence/comparison_page.hpp>
#include <string>

#include "run.hpp"
#include "tokenizer_files.hpp"
#include "training.hpp"

namespace gpt {

template <class Policy>
void run(const Settings& settings) {
  const Tokenizer tokenizer = settings.tokenizer.empty() ? Tokenizer::bytes()
                              : settings.pattern.empty() ? read_tokenizer(settings.tokenizer)
                                                         : read_tokenizer(settings.tokenizer, settings.pattern);
  Training<Policy> training(settings, tokenizer);
  training.train();
  if (!settings.json.empty()) halfstep::write_text(settings.json, training.json().dump(1) + '\n');
  if (!settings.prompt.empty()) training.go_on_from_prompt();
}

}  // namespace gpt
