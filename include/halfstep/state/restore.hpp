#pragma once

#include <string>
#include <utility>
#include <vector>

#include <halfstep/state/detail/restorer.hpp>

namespace halfstep {

/// What `restore_as` may leave behind.
struct RestoreAs {
  /// Start the optimizer's moments, and with them the update number that Adam counts by, anew; needed where the
  /// optimizer is another one. The schedule goes on from its position.
  bool reset_optimizer = false;
};

namespace detail {

template <class Trainer>
Restored restore_from(Trainer& trainer, const StateFile& file, OutlineReader* reader) {
  Restorer<Trainer> restorer(trainer, file, reader);
  restorer.compare_kind();
  restorer.compare_optimizer();
  restorer.match(true);
  return restorer.finish("Build the trainer as it was when it was saved; restore_as takes over another policy's run.",
                         true, true, {});
}

template <class Trainer>
Restored restore_as_from(Trainer& trainer, const StateFile& file, OutlineReader* reader, RestoreAs options) {
  using Policy = typename TrainerTraits<Trainer>::Policy;
  Restorer<Trainer> restorer(trainer, file, reader);
  const TrainingState& state = restorer.state();
  std::vector<std::string> notes;
  const bool same_scaler = state.scaler == scaler_name<Policy>();
  if (state.policy != Policy::name) {
    notes.push_back("policy " + state.policy + " became " + std::string(Policy::name) +
                    "; the working copy was rounded anew from the float32 masters");
  }
  if (!same_scaler) {
    notes.push_back("scaler " + state.scaler + " became " + std::string(scaler_name<Policy>()) +
                    " and starts anew");
    if (state.window) {
      throw CheckpointError(
          "the checkpoint lies in the middle of a window whose gradients hold another scaler's loss scale; go on from a "
          "checkpoint that was taken after update()");
    }
  }
  if (options.reset_optimizer) {
    notes.push_back("optimizer " + state.optimizer + " was left behind; moments and counters start at zero, the schedule goes on");
  } else {
    restorer.compare_optimizer();
  }
  restorer.match(!options.reset_optimizer);
  return restorer.finish("Model and optimizer must be as they were when saved; reset_optimizer leaves the optimizer behind.",
                         same_scaler, !options.reset_optimizer, std::move(notes));
}

}  // namespace detail

/// Puts a trainer where another of its kind was when `file` was captured: every later bit is the same. The trainer is
/// built already, with the same model, optimizer and options; schedules, clipping and rules are the program's and not
/// the file's. Names, shapes, types, policy and optimizer are compared first; where anything differs, CheckpointError
/// lists all of it and the trainer is as it was. An open window of the trainer is dropped.
template <class Trainer>
Restored restore(Trainer& trainer, const StateFile& file) {
  return detail::restore_from(trainer, file, nullptr);
}

/// Goes on with a run of another policy (a float16 run in bfloat16, say). Masters and counters are taken over as they
/// are, the working copy is rounded from the masters; the scaler's state only where both policies have a scaler of
/// one kind, else it starts anew. `notes` of the result says all of this. A checkpoint in the middle of a window is
/// refused where the scaler starts anew: its gradients hold the old scale. Throws CheckpointError as restore.
template <class Trainer>
Restored restore_as(Trainer& trainer, const StateFile& file, RestoreAs options = {}) {
  return detail::restore_as_from(trainer, file, nullptr, options);
}

}  // namespace halfstep
