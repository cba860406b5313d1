#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <halfstep/state/safetensors.hpp>
#include <halfstep/state/training_state.hpp>
#include <halfstep/trainer.hpp>
#include <halfstep/version.hpp>

namespace halfstep {

/// What to do with a window that is open when a checkpoint is taken. Both are exact.
enum class OpenWindow {
  carry,   ///< its gradients, still scaled, and its totals go into the checkpoint
  refuse,  ///< CheckpointError: save after update()
};

/// What goes into a checkpoint besides the trainer.
struct CaptureOptions {
  OpenWindow open_window = OpenWindow::carry;
  /// Where the loader stands: loader.position().
  std::optional<LoaderPosition> data = std::nullopt;
  /// Anything of the program's own that JSON text can hold: UTF-8, finite numbers, no binary values.
  nlohmann::json user = nullptr;
  std::vector<TensorData> user_tensors = {};
  /// Take a checkpoint although a master weight is not finite.
  bool even_if_not_finite = false;
};

namespace detail {

/// Where a trainer's tensors stand in a file. Master weights have the names that the model gave them, so that any
/// reader of the format finds them.
inline std::string moment_name(std::string_view moment, const std::string& parameter) {
  return "optimizer/" + std::string(moment) + "/" + parameter;
}
inline std::string gradient_name(const std::string& parameter) { return "window/gradient/" + parameter; }
inline std::string user_name(const std::string& name) { return "user/" + name; }

/// Throws CheckpointError where JSON text could not give this value back: bytes that are no UTF-8 it cannot hold, and
/// of a number that is not finite it would make null without a word.
inline void require_writable(const nlohmann::json& value, const std::string& path) {
  const std::string where = "the user's JSON cannot be saved: " + (path.empty() ? std::string("its root") : path);
  if (value.is_object() || value.is_array()) {
    for (const auto& [key, element] : value.items()) {
      if (value.is_object()) require_writable(nlohmann::json(key), path + " has a key that");
      require_writable(element, path + "/" + key);
    }
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    if (is_finite(number)) return;
    throw CheckpointError(where + " is " + exact_text(number) +
                          ", for which JSON has no word; save it as a string, or leave it out");
  } else if (value.is_string()) {
    try {
      (void)value.dump();
    } catch (const nlohmann::json::exception& error) {
      throw CheckpointError(where + " is no UTF-8 (" + error.what() + "); save bytes as a user tensor");
    }
  } else if (value.is_binary() || value.is_discarded()) {
    throw CheckpointError(where + " is " + value.type_name() +
                          ", which JSON text cannot hold; save bytes as a user tensor");
  }
}

/// The state as text. Names of tensors and data sets are no UTF-8 only where the program made them so.
inline std::string training_state_text(const TrainingState& state) {
  require_writable(state.user, "");
  try {
    return to_json(state).dump();
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(std::string("the training state cannot be saved: ") + error.what() +
                          "; names of parameters and data sets must be UTF-8");
  }
}

/// A trainer's tensors where they lie, with what else goes into a checkpoint: valid until the trainer goes on. What lies
/// in device memory that the program cannot touch was brought here.
struct CapturedParts {
  std::vector<TensorView> tensors;
  Metadata metadata;
  std::deque<std::vector<std::byte>> brought;
};

/// Adds one parameter's part of a flat buffer.
template <class Core>
void add_part(CapturedParts& parts, Core& core, std::string name, const float* flat, int index) {
  const auto segment = core.store().segments()[static_cast<std::size_t>(index)];
  const Shape& shape = core.store().infos()[static_cast<std::size_t>(index)].shape;
  const std::span elements(flat + segment.offset, static_cast<std::size_t>(segment.size));
  std::span<const std::byte> bytes = std::as_bytes(elements);
  if constexpr (!std::remove_cvref_t<decltype(core.device())>::shares_host_memory) {
    auto& copy = parts.brought.emplace_back(bytes.size());
    core.device().download(copy.data(), bytes.data(), bytes.size());
    bytes = copy;
  }
  parts.tensors.emplace_back(std::move(name), DType::f32, std::vector<std::int64_t>(shape.begin(), shape.end()), bytes);
}

inline void require_finite(const TensorView& tensor) {
  for (std::size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) {
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(float), sizeof value);
    if (is_finite(value)) continue;
    throw CheckpointError("master weight \"" + tensor.name + "\"[" + std::to_string(i) +
                          "] is not finite; a run cannot go on from there. Resume from an earlier checkpoint, or set "
                          "even_if_not_finite to save it all the same");
  }
}

template <class Policy>
constexpr const char* scaler_name() {
  return std::remove_cvref_t<decltype(Policy::scaler)>::name;
}

template <class Trainer>
struct TrainerTraits;
template <class M, class O, class P, class D>
struct TrainerTraits<Trainer<M, O, P, D>> {
  using Optimizer = O;
  using Policy = P;
  using Device = D;
};

template <class Trainer>
TrainingState training_state_of(const Trainer& trainer, const CaptureOptions& options) {
  using Policy = typename TrainerTraits<Trainer>::Policy;
  auto& core = TrainerAccess::core(trainer);
  const auto record = core.record();
  TrainingState state;
  state.library = version;
  state.policy = Policy::name;
  state.compute_type = numeric_traits<typename Policy::compute_type>::name;
  state.scaler = scaler_name<Policy>();
  state.optimizer = TrainerTraits<Trainer>::Optimizer::name;
  state.step = record.state;
  if (record.last_overflow.attempt > 0) {
    const LastOverflow& last = record.last_overflow;
    state.last_overflow = {last.attempt, core.store().infos()[static_cast<std::size_t>(last.parameter)].name,
                           last.index, last.scale};
  }
  state.random_seed = core.seed();
  state.random_passes = core.random_passes();
  if (record.window.micro_batches > 0) {
    state.window = {record.window.loss_sum, record.window.valid_count, record.window.micro_batches,
                    record.window.normalizer, record.window.seed};
  }
  state.data = options.data;
  state.user = options.user;
  return state;
}

/// What `capture` copies.
template <class Trainer>
CapturedParts capture_parts(const Trainer& trainer, const CaptureOptions& options) {
  using Optimizer = typename TrainerTraits<Trainer>::Optimizer;
  auto& core = TrainerAccess::core(trainer);
  if (core.window_in_hand()) {
    throw CheckpointError("the window is closed and its gradients are in your hands; apply them or let them go, then save");
  }
  const TrainingState state = training_state_of(trainer, options);
  if (state.window && options.open_window == OpenWindow::refuse) {
    throw CheckpointError("a window is open, with " + std::to_string(state.window->micro_batches) +
                          " micro-batches in it; save after update(), or let the checkpoint carry the window");
  }

  CapturedParts parts;
  const auto infos = core.store().infos();
  const auto count = static_cast<int>(infos.size());
  for (int i = 0; i < count; ++i) {
    add_part(parts, core, infos[static_cast<std::size_t>(i)].name, core.store().masters(), i);
    if (!options.even_if_not_finite) require_finite(parts.tensors.back());
  }
  for (std::size_t m = 0; m < static_cast<std::size_t>(Optimizer::moments); ++m) {
    for (int i = 0; i < count; ++i) {
      const std::string name = moment_name(Optimizer::moment_names[m], infos[static_cast<std::size_t>(i)].name);
      add_part(parts, core, name, core.moment(m).data(), i);
    }
  }
  if (state.window) {
    for (int i = 0; i < count; ++i) {
      if (core.store().has_gradient()[static_cast<std::size_t>(i)] == 0) continue;
      add_part(parts, core, gradient_name(infos[static_cast<std::size_t>(i)].name), core.store().gradients(), i);
    }
  }
  for (const TensorData& tensor : options.user_tensors) {
    const std::string name = user_name(tensor.name);
    for (const TensorView& other : parts.tensors) {
      if (other.name == name) throw CheckpointError("two user tensors are named \"" + tensor.name + "\"");
    }
    parts.tensors.emplace_back(name, tensor.dtype, tensor.shape, tensor.bytes);
  }
  parts.metadata[TrainingState::key] = training_state_text(state);
  return parts;
}

}  // namespace detail

/// A copy of everything that a run needs to go on: the trainer may train on while it is written. Throws
/// CheckpointError where a window is open and `open_window` refuses it, where one is in the caller's hands
/// (close_window), where a master weight is not finite, for user tensors of one name, and for user JSON that its text
/// could not give back.
template <class Trainer>
StateFile capture(const Trainer& trainer, const CaptureOptions& options = {}) {
  detail::CapturedParts parts = detail::capture_parts(trainer, options);
  StateFile file;
  file.tensors.reserve(parts.tensors.size());
  for (TensorView& part : parts.tensors) {
    TensorData& tensor = file.tensors.emplace_back(TensorData{std::move(part.name), part.dtype, std::move(part.shape), {}});
    tensor.bytes.assign(part.bytes.begin(), part.bytes.end());
  }
  file.metadata = std::move(parts.metadata);
  return file;
}

}  // namespace halfstep
