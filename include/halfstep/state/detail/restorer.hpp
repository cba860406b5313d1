#pragma once

#include <algorithm>
#include <array>
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
#include <halfstep/state/detail/staged_tensors.hpp>
#include <halfstep/state/restored.hpp>

namespace halfstep::detail {

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
    // By pointers, as elsewhere: the JSON library makes a parser for each kind of iterator.
    const std::string& text = found->second;
    return training_state(nlohmann::json::parse(text.data(), text.data() + text.size()));
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

/// Brings a file into a trainer: one that was read already, or its outline, whose bytes are read when all is known to
/// fit.
template <class Trainer>
class Restorer {
 public:
  using Optimizer = typename TrainerTraits<Trainer>::Optimizer;
  using Policy = typename TrainerTraits<Trainer>::Policy;

  Restorer(Trainer& trainer, const StateFile& file, OutlineReader* reader)
      : core_(TrainerAccess::core(trainer)), file_(file), reader_(reader), state_(parse_training_state(file)) {
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
      take(infos[i].name, infos[i].shape, masters, i);
      for (std::size_t m = 0; m < static_cast<std::size_t>(Optimizer::moments); ++m) {
        const std::string name = moment_name(Optimizer::moment_names[m], infos[i].name);
        known.insert(name);
        if (with_moments) take(name, infos[i].shape, first_moment + m, i);
      }
      const std::string gradient = gradient_name(infos[i].name);
      known.insert(gradient);
      if (state_.window && file_.find(gradient) != nullptr) {
        take(gradient, infos[i].shape, gradients, i);
        with_gradient_.push_back(static_cast<int>(i));
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
    if (reader_ != nullptr) read_staged();
    Restored restored{state_.data, state_.user, user_tensors(), std::move(notes)};
    reader_ != nullptr ? put_staged() : upload();
    core_.clear_window();
    if (!with_moments) {
      for (std::size_t m = 0; m < static_cast<std::size_t>(Optimizer::moments); ++m) core_.moment(m).clear();
    }
    for (std::size_t i = 0; i < core_.store().infos().size(); ++i) core_.store().refresh_working_copy(static_cast<int>(i));
    for (const int index : with_gradient_) {
      // Which parameters are frozen is the program's choice, not the file's.
      if (!core_.store().infos()[static_cast<std::size_t>(index)].frozen) core_.store().mark_gradient(index);
    }
    core_.resume(record(with_scaler, with_moments), state_.random_seed, state_.random_passes);
    return restored;
  }

  const TrainingState& state() const { return state_; }

 private:
  using Device = typename TrainerTraits<Trainer>::Device;

  /// The trainer's flat buffers, and where in one a tensor of the file belongs.
  static constexpr std::size_t masters = 0, gradients = 1, first_moment = 2;
  static constexpr std::size_t flat_buffers = first_moment + static_cast<std::size_t>(Optimizer::moments);
  struct Copy {
    std::size_t buffer;
    std::size_t parameter;
    const TensorData* tensor;
  };
  float* flat(std::size_t buffer) {
    if (buffer == masters) return core_.store().masters();
    return buffer == gradients ? core_.store().gradients() : core_.moment(buffer - first_moment).data();
  }

  void upload() {
    std::int64_t bytes = 0;
    for (const Copy& copy : copies_) bytes += static_cast<std::int64_t>(copy.tensor->bytes.size());
    const auto one = [&](std::size_t i) {
      const Copy& copy = copies_[i];
      float* to = flat(copy.buffer) + core_.store().segments()[copy.parameter].offset;
      core_.device().upload(to, copy.tensor->bytes.data(), copy.tensor->bytes.size());
    };
    if constexpr (Device::shares_host_memory) {
      in_threads(copies_.size(), bytes, one);
    } else {
      for (std::size_t i = 0; i < copies_.size(); ++i) one(i);
    }
  }

  /// Reads the file to where nothing is believed yet: into new buffers and, while there are no gradients, their place.
  void read_staged() {
    if constexpr (Device::shares_host_memory) {
      auto& store = core_.store();
      const auto has_gradient = store.has_gradient();
      const bool no_gradient = std::find(has_gradient.begin(), has_gradient.end(), 1) == has_gradient.end();
      masters_for_gradients_ = no_gradient && !state_.window;
      std::vector<float*> places(file_.tensors.size(), nullptr);
      for (const Copy& copy : copies_) {
        float* place = store.gradients();
        if (copy.buffer != masters || !masters_for_gradients_) {
          StagedBuffer<Device>& staged = staged_[copy.buffer];
          if (staged.data() == nullptr) staged = StagedBuffer<Device>(core_.device(), store.size(), store.segments());
          place = staged.data();
        }
        const auto position = static_cast<std::size_t>(copy.tensor - file_.tensors.data());
        places[position] = place + store.segments()[copy.parameter].offset;
      }
      reader_->read(places);
    }
  }
  /// What was staged becomes the trainer's.
  void put_staged() noexcept {
    if constexpr (Device::shares_host_memory) {
      if (masters_for_gradients_) core_.store().swap_masters_with_gradients();
      for (std::size_t buffer = 0; buffer < flat_buffers; ++buffer) {
        if (staged_[buffer].data() == nullptr) continue;
        if (buffer == masters) core_.store().swap_masters(staged_[buffer].get());
        else if (buffer == gradients) core_.store().swap_gradients(staged_[buffer].get());
        else std::swap(core_.moment(buffer - first_moment), staged_[buffer].get());
      }
    }
  }

  void take(const std::string& name, const Shape& shape, std::size_t buffer, std::size_t parameter) {
    const TensorData* tensor = fitting(file_, name, shape, differences_);
    if (tensor != nullptr) copies_.push_back({buffer, parameter, tensor});
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
  OutlineReader* reader_;
  TrainingState state_;
  Differences differences_;
  std::vector<Copy> copies_;
  std::array<StagedBuffer<Device>, flat_buffers> staged_;
  bool masters_for_gradients_ = false;
  std::vector<int> with_gradient_;
};

}  // namespace halfstep::detail
