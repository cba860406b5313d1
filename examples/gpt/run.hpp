#pragma once

#include "results.hpp"
#include "settings.hpp"
#include "tokenizer.hpp"

namespace gpt {

/// Trains, evaluates, samples and saves under a policy, as the settings say, and goes on from their prompt.
/// Throws halfstep::Error. Each policy's is in a file of its own, and so compiled apart.
template <class Policy>
Results run(const Settings& settings, const Tokenizer& tokenizer);

}  // namespace gpt
