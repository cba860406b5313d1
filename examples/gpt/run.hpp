#pragma once

#include "settings.hpp"

namespace gpt {

/// Trains, evaluates, samples and saves under a policy, as the settings say; throws halfstep::Error.
template <class Policy>
void run(const Settings& settings);

}  // namespace gpt
