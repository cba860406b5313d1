#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <halfstep/trainer/core.hpp>

namespace halfstep {

/// The mean loss over what was evaluated, and over how many samples (or tokens, or elements) it was taken.
struct Evaluation {
  double loss_sum = 0;
  std::int64_t valid_count = 0;
  /// NaN where there was no valid sample.
  double loss() const { return loss_sum / static_cast<double>(valid_count); }
};

namespace detail {
/// Whether state/checkpoints.hpp is included, and this is a folder for it.
template <class Trainer, class Folder>
concept HasCheckpoints = requires(const Trainer& trainer, const Folder& folder) { save_checkpoint(trainer, folder); };

/// Lets the floors around the trainer (state, evidence) at what it owns.
struct TrainerAccess {
  template <class Trainer>
  static auto& core(const Trainer& trainer) {
    return trainer.core();
  }
};
}  // namespace detail

/// Trains a model under a precision policy. A model is a struct with
///
///   template <class Visitor> void parameters(Visitor&& visit);      // names its layers
///   template <class Tape> auto forward(Tape& tape, inputs...);      // for predict
///   template <class Tape> Loss loss(Tape& tape, const Batch& batch);
///
/// A *window* is the micro-batches between two updates. At its end the trainer measures the gradients, decides,
/// clips, updates if they are finite, moves the loss scale and the schedule, and clears, in this order and once.
/// What a call throws leaves parameters, optimizer and counters as they were before it, except TrainingStopped,
/// which comes after the skip that it reports. One trainer serves one thread at a time. Move-only; a trainer that
/// was moved from throws ConfigurationError at every use.
template <class Model, class Optimizer, class Policy, Device D = DefaultDevice>
class Trainer {
  static_assert(rule::Explain<Policy>::holds);
  static_assert(PrecisionPolicy<Policy>);
  static_assert(halfstep::Optimizer<Optimizer>,
                "halfstep: the second argument of Trainer must be an optimizer: SGD, Adam, AdamW, or a type of yours "
                "with the members that the concept in halfstep/optim/optimizer.hpp names");
  using Core = detail::TrainerCore<Model, Optimizer, Policy, D>;

 public:
  using Options = BasicTrainerOptions<D>;
  using TapeType = Tape<Policy, D>;

  /// Takes the model in and gives its parameters their first values. Throws ConfigurationError for options that
  /// cannot be right, a model without parameters, two parameters of one name, a rule that matches nothing.
  explicit Trainer(Model model, Optimizer optimizer = {}, Options options = {})
      : core_(std::make_shared<Core>(std::move(model), std::move(optimizer), options)), options_(std::move(options)) {}

  Trainer(Trainer&&) noexcept = default;
  Trainer& operator=(Trainer&&) noexcept = default;

  /// One window of one micro-batch. Micro-batches accumulated before belong to it.
  template <class Batch>
  StepTicket step(const Batch& batch) {
    core().require_learning_rate();
    core().require_not_stopped();
    accumulate(batch);
    return update();
  }

  /// Computes the loss and the gradients of a micro-batch and adds them to the window. What the forward pass throws
  /// leaves the window as it was; what the backward pass throws (there is no memory left, say) abandons it.
  template <class Batch>
  void accumulate(const Batch& batch) {
    Core& self = core();
    self.backward(self.forward(batch));
    self.look(batch);
  }

  /// Ends the window with one update attempt. Throws ConfigurationError for an empty window, TrainingStopped where
  /// as many windows in a row were skipped as the policy allows.
  StepTicket update() {
    core().require_not_stopped();
    core().require_learning_rate();
    core().close("update");
    return core().finish(options_.clip_norm, options_.clip_value);
  }

  /// Drops the window: its gradients are forgotten, nothing else changes, no attempt is counted. Throws
  /// ConfigurationError for a window that close_window gave away: let its gradients go instead.
  void abandon() { core().abandon(); }

  /// Ends the window and gives its gradients, still scaled, into the caller's hands: unscale, look, clip, apply.
  /// The clipping of the options is not done on this way. Dropping the object abandons the window.
  /// Throws as update for an empty window.
  Gradients<Scaled> close_window() {
    core().close("close_window");
    return Gradients<Scaled>(detail::WindowHandle(core_));
  }

  /// The update attempt for a window taken by close_window. Throws ConfigurationError for another trainer's.
  StepTicket apply(Gradients<Unscaled>&& gradients) {
    if (gradients.window() != &core()) {
      throw ConfigurationError("apply: these gradients belong to another trainer; apply them there");
    }
    core().require_learning_rate();
    core().require_not_stopped();
    const auto window = std::move(gradients).release();
    constexpr float unlimited = std::numeric_limits<float>::infinity();
    return core().finish(unlimited, unlimited);
  }
  template <class Window>
    requires std::same_as<std::remove_cvref_t<Window>, Gradients<Unscaled>>
  StepTicket apply(Window&) {
    static_assert(detail::never<Window>,
                  "halfstep: a window is applied once, and its gradients are given up by it; write "
                  "`trainer.apply(std::move(unscaled))`");
    return update();
  }
  template <class Window>
    requires std::same_as<std::remove_cvref_t<Window>, Gradients<Scaled>>
  StepTicket apply(Window&&) {
    static_assert(detail::never<Window>,
                  "halfstep: apply needs unscaled gradients; write `trainer.apply(std::move(scaled).unscale())`");
    return update();
  }

  /// Computes a batch again and looks at every tensor: which was the first that was not finite, and what to do. If
  /// the window before was skipped, this is its batch, and what is computed has that window's bits: its loss scale,
  /// its random numbers, the weights that the skip left alone. Else loss scale and random numbers are those of now.
  /// Changes nothing: no weight, moment, counter or random number, nor the gradients of an open window. Takes memory
  /// for one more buffer of gradients. Throws ConfigurationError where the options name a micro-batch that the
  /// skipped window did not have; what the model throws comes through. Returns a Diagnosis; this and the next two are
  /// of evidence/diagnose.hpp, which halfstep.hpp includes.
  template <class Batch>
  auto diagnose(const Batch& batch, const DiagnoseOptions& options = {}) {
    return diagnose_batch(core(), batch, options);
  }
  /// The same for all micro-batches of a window, in their order: a range of batches that lie in memory. Throws
  /// ConfigurationError for an empty range, and for another number of batches than the skipped window had.
  template <std::ranges::forward_range Batches>
  auto diagnose_window(const Batches& batches, const DiagnoseOptions& options = {}) {
    return diagnose_batches(core(), batches, options);
  }
  /// From the next window on, puts the diagnosis of each skipped one into its report, and into the message of
  /// TrainingStopped. What makes a window not finite is looked at by `accumulate` itself, while the batch is there: it
  /// may go, or be filled anew, as a Loader does, before the next. The diagnosis is that of the first such micro-batch.
  /// Costs a read of the gradients for each micro-batch of a window but one. What is done to gradients in hand, after
  /// close_window, is not diagnosed.
  void diagnose_skips(bool on = true) { explain_skips(core(), on); }

  /// From the next micro-batch on, does the work of a window, from its first micro-batch to its update, as one CUDA graph.
  /// The work is written down while the model runs, and given to the GPU when the window ends or something waits for
  /// it: the first time one by one, the second time a graph is made, and from then on the graph is launched again with
  /// the arguments of now, so that nothing of the first time stays behind in it. Windows of other shapes get graphs of
  /// their own. Same bits as without. On a device without graphs (Host) it changes nothing.
  void capture(bool on = true) { core().capture(on); }
  /// What became of the windows so far: see GraphUse. Only of devices that have graphs.
  auto graph_use() const
    requires detail::RecordsWork<D>
  {
    return core().device().graph_use();
  }

  /// The model's output for these inputs, in float. No tape, no gradients; an open window stays as it is. The
  /// numbers are valid until the next predict.
  template <class... Inputs>
  Tensor<const float> predict(const Inputs&... inputs) {
    Core& self = core();
    self.tape().begin(Pass::inference);
    const auto output = self.model().forward(self.tape(), inputs...);
    const auto in_float = self.tape().template allocate<float>(output.shape());
    compute::convert(self.device(), output.data(), in_float.data(), output.size());
    prediction_.resize(static_cast<std::size_t>(output.size()));
    self.device().download(prediction_.data(), in_float.data(), prediction_.size() * sizeof(float));
    return {prediction_.data(), output.shape()};
  }

  /// The loss of one batch, without gradients. An open window stays as it is.
  template <class Batch>
  Evaluation evaluate(const Batch& batch) {
    Core& self = core();
    const Loss loss = self.loss(batch, Pass::inference);
    float sum = 0;
    if (loss.count > 0) self.device().download(&sum, loss.sum.data(), sizeof sum);
    return {static_cast<double>(sum), loss.count};
  }

  /// The loss over all batches of a range: the mean over their samples, whatever the batches' sizes.
  template <std::ranges::input_range Batches>
  Evaluation evaluate_all(Batches&& batches) {
    Evaluation total;
    for (const auto& batch : batches) {
      const Evaluation one = evaluate(batch);
      total.loss_sum += one.loss_sum;
      total.valid_count += one.valid_count;
    }
    return total;
  }

  /// Scale, tracker, counters and schedule position as they are between two windows.
  StepState state() const { return core().record().state; }

  /// Bytes that this trainer holds now, by kind.
  MemoryUse memory() const { return core().memory(); }

  std::span<const ParameterInfo> parameters() const { return core().store().infos(); }
  /// A copy of a parameter's master weights. Throws ConfigurationError for an unknown name.
  std::vector<float> read_parameter(std::string_view name) const {
    const Tensor<float> master = core().store().master(core().store().find(name));
    std::vector<float> values(static_cast<std::size_t>(master.size()));
    core().device().download(values.data(), master.data(), values.size() * sizeof(float));
    return values;
  }
  /// Sets a parameter's master weights, and with them the working copy. Throws ShapeError unless there are as many
  /// values as the parameter has elements.
  void write_parameter(std::string_view name, std::span<const float> values) {
    auto& store = core().store();
    const int index = store.find(name);
    const Tensor<float> master = store.master(index);
    if (static_cast<std::int64_t>(values.size()) != master.size()) {
      throw ShapeError("parameter \"" + std::string(name) + "\" of shape " + master.shape().text() + " has " +
                       std::to_string(master.size()) + " elements, " + std::to_string(values.size()) + " were given");
    }
    core().device().upload(master.data(), values.data(), values.size() * sizeof(float));
    store.refresh_working_copy(index);
  }

  Model& model() { return core().model(); }

  /// Writes a checkpoint into a folder, and goes on from the newest one there: see state/checkpoints.hpp, which a
  /// program that calls these includes.
  template <class Folder, class... CaptureOptions>
  void save(const Folder& folder, const CaptureOptions&... options) const {
    if constexpr (detail::HasCheckpoints<Trainer, Folder>) {
      save_checkpoint(*this, folder, options...);
    } else {
      static_assert(detail::never<Folder>,
                    "halfstep: save takes the path of a folder, and needs `#include <halfstep/state/checkpoints.hpp>`");
    }
  }
  template <class Folder>
  auto load(const Folder& folder) {
    if constexpr (detail::HasCheckpoints<Trainer, Folder>) {
      return load_checkpoint(*this, folder);
    } else {
      static_assert(detail::never<Folder>,
                    "halfstep: load takes the path of a folder, and needs `#include <halfstep/state/checkpoints.hpp>`");
    }
  }

 private:
  friend struct detail::TrainerAccess;
  Core& core() const {
    if (core_ == nullptr) {
      throw ConfigurationError("this trainer was moved from; use the one it was moved to");
    }
    return *core_;
  }

  std::shared_ptr<Core> core_;
  Options options_;
  std::vector<float> prediction_;
};

}  // namespace halfstep
