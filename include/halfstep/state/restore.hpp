#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <halfstep/state/capture.hpp>
#include <halfstep/state/detail/in_threads.hpp>

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

namespace detail {

inline std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// All the ways in which a file does not fit, so that one message can list them.
class Differences {
 public:
  void add(std::string difference) { list_.push_back(std::move(difference)); }
  template <class A, class B>
  void compare(const std::string& what, const A& in_file, const B& in_trainer) {
    if (std::string(in_file) != std::string(in_trainer)) {
      add(what + " is " + std::string(in_file) + " in the checkpoint, " + std::string(in_trainer) + " in the trainer");
    }
  }
  void throw_if_any(const std::string& advice) const {
    if (list_.empty()) return;
    std::string message = "the checkpoint does not fit the trainer:";
    for (const std::string& difference : list_) message += "\n  - " + difference;
    throw CheckpointError(message + "\n" + advice);
  }

 private:
  std::vector<std::string> list_;
};

/// The tensor of a file that is to become one of the trainer's; null and noted where it does not fit.
inline const TensorData* fitting(const StateFile& file, const std::string& name, const Shape& shape,
                                 Differences& differences) {
  const TensorData* tensor = file.find(name);
  if (tensor == nullptr) {
    differences.add("tensor \"" + name + "\" is missing");
    return nullptr;
  }
  const std::vector<std::int64_t> expected(shape.begin(), shape.end());
  if (tensor->dtype != DType::f32) {
    differences.add("tensor \"" + name + "\" is " + std::string(name_of(tensor->dtype)) +
                    ", the trainer's is F32; nothing is cast on load");
    return nullptr;
  }
  if (tensor->shape != expected) {
    differences.add("tensor \"" + name + "\" has shape " + shape_text(tensor->shape) + ", the trainer's has " +
                    shape.text());
    return nullptr;
  }
  return tensor;
}

inline TrainingState parse_training_state(const StateFile& file) {
  const auto found = file.metadata.find(TrainingState::key);
  if (found == file.metadata.end()) {
    throw CheckpointError("the file holds weights, but no training state; load_weights reads such files");
  }
  try {
    return training_state(nlohmann::json::parse(found->second));
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(std::string("the checkpoint's training state cannot be read: ") + error.what());
  }
}

inline bool is_power_of_two(double value) {
  constexpr std::uint64_t mantissa = 0x000f'ffff'ffff'ffffu;
  const auto bits = __builtin_bit_cast(std::uint64_t, value);
  return is_finite(value) && value > 0 && bits > mantissa && (bits & mantissa) == 0;
}

/// Whether four counts are each at least 0 and the first three sum up to the last.
inline bool adds_up(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t sum) {
  return a >= 0 && b >= 0 && c >= 0 && a <= sum && b <= sum - a && c == sum - a - b;
}

/// What the trackers of a scaler can be. They may come from other options: an interval that was longer, a hysteresis
/// that was higher; so the bounds are those of all options.
inline void check_possible(const ScalerState& scaler, Differences& differences) {
  constexpr std::int32_t largest = (std::numeric_limits<std::int32_t>::max)();
  if (!is_finite(scaler.scale) || !(scaler.scale > 0)) {
    differences.add("the loss scale is " + exact_text(static_cast<double>(scaler.scale)));
  }
  if (scaler.growth_tracker < 0 || scaler.growth_tracker == largest) {
    differences.add("the growth tracker is " + std::to_string(scaler.growth_tracker));
  }
  if (scaler.hysteresis_left < 1) {
    differences.add("the hysteresis left is " + std::to_string(scaler.hysteresis_left) + ", it is at least 1");
  }
}

/// What an open window can be: before its first valid sample it has neither normalizer nor seed nor loss.
inline void check_possible(const TrainingState::Window& window, const ScalerState& scaler, Differences& differences) {
  const bool counts = window.micro_batches > 0 && window.valid_count >= 0;
  const bool begun = window.valid_count > 0 && is_power_of_two(window.normalizer) &&
                     window.normalizer <= static_cast<double>(window.valid_count) &&
                     window.seed == loss_seed(scaler.scale, window.normalizer) && is_finite(window.seed);
  const bool waiting = window.valid_count == 0 && window.normalizer == 0 && window.seed == 0;
  if (counts && (begun || waiting)) return;
  differences.add("the open window contradicts itself: " + std::to_string(window.micro_batches) + " micro-batches, " +
                  std::to_string(window.valid_count) + " valid samples, normalizer " + exact_text(window.normalizer) +
                  ", seed " + exact_text(static_cast<double>(window.seed)));
}

/// A state that no run can have come to is not resumed.
inline void check_possible(const TrainingState& state, Differences& differences) {
  const StepState& s = state.step;
  if (!adds_up(s.update_number, s.skipped, s.empty, s.attempts) || s.skipped_in_a_row < 0 ||
      s.skipped_in_a_row > s.skipped || s.schedule_position < 0) {
    differences.add("the counters contradict each other: " + std::to_string(s.update_number) + " updates, " +
                    std::to_string(s.skipped) + " skipped (" + std::to_string(s.skipped_in_a_row) +
                    " in a row) and " + std::to_string(s.empty) + " empty of " + std::to_string(s.attempts) +
                    " attempts, schedule position " + std::to_string(s.schedule_position));
  }
  check_possible(s.scaler, differences);
  if (state.window) check_possible(*state.window, s.scaler, differences);
}

template <class Trainer>
class Restorer {
 public:
  using Optimizer = typename TrainerTraits<Trainer>::Optimizer;
  using Policy = typename TrainerTraits<Trainer>::Policy;

  Restorer(Trainer& trainer, const StateFile& file)
      : core_(TrainerAccess::core(trainer)), file_(file), state_(parse_training_state(file)) {
    if (core_.window_in_hand()) {
      throw CheckpointError(
          "the trainer's window is closed and its gradients are in your hands; apply them or let them go, then load");
    }
  }

  void compare_kind() {
    differences_.compare("the policy", state_.policy, Policy::name);
    differences_.compare("the compute type", state_.compute_type, numeric_traits<typename Policy::compute_type>::name);
    differences_.compare("the scaler", state_.scaler, scaler_name<Policy>());
  }
  void compare_optimizer() { differences_.compare("the optimizer", state_.optimizer, Optimizer::name); }

  /// Looks at every tensor before any is touched.
  void match(bool with_moments) {
    check_possible(state_, differences_);
    std::set<std::string> known;
    const auto infos = core_.store().infos();
    for (std::size_t i = 0; i < infos.size(); ++i) {
      known.insert(infos[i].name);
      take(infos[i].name, infos[i].shape, core_.store().masters(), i);
      for (std::size_t m = 0; m < static_cast<std::size_t>(Optimizer::moments); ++m) {
        const std::string name = moment_name(Optimizer::moment_names[m], infos[i].name);
        known.insert(name);
        if (with_moments) take(name, infos[i].shape, core_.moment(m).data(), i);
      }
      const std::string gradient = gradient_name(infos[i].name);
      known.insert(gradient);
      if (state_.window && file_.find(gradient) != nullptr) {
        take(gradient, infos[i].shape, core_.store().gradients(), i);
        gradients_.push_back(static_cast<int>(i));
      }
    }
    for (const TensorData& tensor : file_.tensors) {
      const bool of_the_user = tensor.name.starts_with("user/");
      const bool unused_moment = !with_moments && tensor.name.starts_with("optimizer/");
      if (!known.contains(tensor.name) && !of_the_user && !unused_moment) {
        differences_.add("tensor \"" + tensor.name + "\" is not the trainer's");
      }
    }
  }

  /// All that throws (differences, no memory for what is handed out) comes before the trainer is touched: it is the old
  /// one or the new one.
  Restored finish(const std::string& advice, bool with_scaler, bool with_moments, std::vector<std::string> notes) {
    differences_.throw_if_any(advice);
    Restored restored{state_.data, state_.user, user_tensors(), std::move(notes)};
    upload();
    core_.clear_window();
    if (!with_moments) {
      for (std::size_t m = 0; m < static_cast<std::size_t>(Optimizer::moments); ++m) core_.moment(m).clear();
    }
    for (std::size_t i = 0; i < core_.store().infos().size(); ++i) core_.store().refresh_working_copy(static_cast<int>(i));
    for (const int index : gradients_) {
      // Which parameters are frozen is the program's choice, not the file's.
      if (!core_.store().infos()[static_cast<std::size_t>(index)].frozen) core_.store().mark_gradient(index);
    }
    core_.resume(record(with_scaler, with_moments), state_.random_seed, state_.random_passes);
    return restored;
  }

  const TrainingState& state() const { return state_; }

 private:
  struct Copy {
    float* to;
    const TensorData* tensor;
  };

  void upload() {
    const auto one = [&](std::size_t i) {
      const auto& bytes = copies_[i].tensor->bytes;
      core_.device().upload(copies_[i].to, bytes.data(), bytes.size());
    };
    if constexpr (std::remove_reference_t<decltype(core_.device())>::shares_host_memory) {
      std::int64_t bytes = 0;
      for (const Copy& copy : copies_) bytes += static_cast<std::int64_t>(copy.tensor->bytes.size());
      in_threads(copies_.size(), bytes, one);
    } else {
      for (std::size_t i = 0; i < copies_.size(); ++i) one(i);
    }
  }

  void take(const std::string& name, const Shape& shape, float* flat, std::size_t index) {
    if (const TensorData* tensor = fitting(file_, name, shape, differences_)) {
      copies_.push_back({flat + core_.store().segments()[index].offset, tensor});
    }
  }

  std::vector<TensorData> user_tensors() const {
    std::vector<TensorData> tensors;
    for (const TensorData& tensor : file_.tensors) {
      if (!tensor.name.starts_with("user/")) continue;
      tensors.push_back({tensor.name.substr(5), tensor.dtype, tensor.shape, tensor.bytes});
    }
    return tensors;
  }

  auto record(bool with_scaler, bool with_moments) const {
    auto record = core_.record();
    record = {};
    record.state = state_.step;
    if (!with_scaler) record.state.scaler = initial_state(Policy::scaler);
    if (!with_moments) {
      // Adam's t is the update number: with moments of zero it must begin at one again.
      const std::int64_t position = record.state.schedule_position;
      const ScalerState scaler = record.state.scaler;
      record.state = StepState{};
      record.state.schedule_position = position;
      record.state.scaler = scaler;
    }
    if (state_.window) {
      record.window.loss_sum = state_.window->loss_sum;
      record.window.valid_count = state_.window->valid_count;
      record.window.micro_batches = state_.window->micro_batches;
      record.window.normalizer = state_.window->normalizer;
      record.window.seed = state_.window->seed;
    }
    // Without the attempts that it is counted in, the last overflow says nothing.
    if (state_.last_overflow && with_moments) {
      record.last_overflow.attempt = state_.last_overflow->attempt;
      record.last_overflow.index = state_.last_overflow->index;
      record.last_overflow.scale = state_.last_overflow->scale;
      const auto infos = core_.store().infos();
      for (std::size_t i = 0; i < infos.size(); ++i) {
        if (infos[i].name == state_.last_overflow->tensor) record.last_overflow.parameter = static_cast<std::int64_t>(i);
      }
    }
    return record;
  }

  typename std::remove_reference_t<decltype(TrainerAccess::core(std::declval<Trainer&>()))>& core_;
  const StateFile& file_;
  TrainingState state_;
  Differences differences_;
  std::vector<Copy> copies_;
  std::vector<int> gradients_;
};

}  // namespace detail

/// Puts a trainer where another of its kind was when `file` was captured: every later bit is the same. The trainer is
/// built already, with the same model, optimizer and options; schedules, clipping and rules are the program's and not
/// the file's. Names, shapes, types, policy and optimizer are compared first; where anything differs, CheckpointError
/// lists all of it and the trainer is as it was. An open window of the trainer is dropped.
template <class Trainer>
Restored restore(Trainer& trainer, const StateFile& file) {
  detail::Restorer<Trainer> restorer(trainer, file);
  restorer.compare_kind();
  restorer.compare_optimizer();
  restorer.match(true);
  return restorer.finish("Build the trainer as it was when it was saved; restore_as takes over another policy's run.",
                         true, true, {});
}

/// What `restore_as` may leave behind.
struct RestoreAs {
  /// Start the optimizer's moments, and with them the update number that Adam counts by, anew; needed where the
  /// optimizer is another one. The schedule goes on from its position.
  bool reset_optimizer = false;
};

/// Goes on with a run of another policy (a float16 run in bfloat16, say). Masters and counters are taken over as they
/// are, the working copy is rounded from the masters; the scaler's state only where both policies have a scaler of
/// one kind, else it starts anew. `notes` of the result says all of this. A checkpoint in the middle of a window is
/// refused where the scaler starts anew: its gradients hold the old scale. Throws CheckpointError as restore.
template <class Trainer>
Restored restore_as(Trainer& trainer, const StateFile& file, RestoreAs options = {}) {
  using Policy = typename detail::TrainerTraits<Trainer>::Policy;
  detail::Restorer<Trainer> restorer(trainer, file);
  const TrainingState& state = restorer.state();
  std::vector<std::string> notes;
  const bool same_scaler = state.scaler == detail::scaler_name<Policy>();
  if (state.policy != Policy::name) {
    notes.push_back("policy " + state.policy + " became " + std::string(Policy::name) +
                    "; the working copy was rounded anew from the float32 masters");
  }
  if (!same_scaler) {
    notes.push_back("scaler " + state.scaler + " became " + std::string(detail::scaler_name<Policy>()) +
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

}  // namespace halfstep
