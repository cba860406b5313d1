#pragma once

#include <optional>
#include <string>
#include <vector>

#include <halfstep/state/state_file.hpp>
#include <halfstep/state/training_state.hpp>

namespace halfstep {

/// What a checkpoint gives back besides the trainer's state.
struct Restored {
  /// Where the loader stood: loader.seek(*data).
  std::optional<LoaderPosition> data;
  nlohmann::json user;
  std::vector<TensorData> user_tensors;
  /// What was converted or started anew; empty where the checkpoint was the trainer's own kind.
  std::vector<std::string> notes;
};

}  // namespace halfstep
