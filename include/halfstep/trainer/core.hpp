#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <halfstep/evidence/step_report.hpp>
#include <halfstep/nn/tape.hpp>
#include <halfstep/optim/update_pass.hpp>
#include <halfstep/scaling/gradients.hpp>
#include <halfstep/scaling/measure.hpp>
#include <halfstep/trainer/memory.hpp>
#include <halfstep/trainer/options.hpp>
#include <halfstep/trainer/step_record.hpp>
#include <halfstep/trainer/window_facts.hpp>

namespace halfstep::detail {

/// What a trainer owns, and the passes of a step in their one order: add micro-batches, close, measure, decide,
/// update, clear. Sits at a fixed address; gradient handles share it.
template <class Model, class Optimizer, class Policy, Device D>
class TrainerCore final : public ClosedWindow {
 public:
  using Compute = typename Policy::compute_type;
  using Record = StepRecord<typename Optimizer::Coefficients>;
  using TapeType = Tape<Policy, D>;
  using Store = ParameterStore<Compute, D>;
  using DeviceType = D;
  static constexpr bool scales = std::remove_cvref_t<decltype(Policy::scaler)>::scales;
  static constexpr std::size_t moment_count = Optimizer::moments;

  TrainerCore(Model model, Optimizer optimizer, BasicTrainerOptions<D> options)
      : options_(checked(std::move(options), optimizer)),
        device_(options_.device),
        model_(std::move(model)),
        optimizer_(optimizer),
        store_(device_, model_, options_.seed),
        tape_(device_, store_),
        partials_(device_, static_cast<std::int64_t>(store_.chunks().size())),
        record_(device_, 1) {
    Record first{};
    first.state = initial_step_state(Policy::scaler);
    device_.upload(record_.data(), &first, sizeof first);
    for (auto& moment : moments_) moment = Buffer<float, D>(device_, store_.size());
    apply_rules();
  }

  Model& model() { return model_; }
  const Optimizer& optimizer() const { return optimizer_; }
  TapeType& tape() { return tape_; }
  Store& store() { return store_; }
  const Store& store() const { return store_; }
  D& device() { return device_; }
  Buffer<float, D>& moment(std::size_t position) { return moments_[position]; }

  MemoryUse memory() const {
    const auto bytes = [](std::size_t size) { return static_cast<std::int64_t>(size); };
    MemoryUse use;
    use.masters = bytes(store_.master_bytes());
    use.working_copy = bytes(store_.working_copy_bytes());
    use.gradients = bytes(store_.gradient_bytes());
    for (const auto& moment : moments_) use.moments += bytes(moment.bytes());
    use.activations = bytes(tape_.peak_bytes());
    use.reserve = bytes(tape_.value_bytes()) - use.activations;
    if constexpr (requires { device_.service_bytes(); }) use.workspace = bytes(device_.service_bytes());
    use.bookkeeping = bytes(record_.bytes() + partials_.bytes() + tape_.node_bytes());
    return use;
  }

  /// What a checkpoint holds besides masters and moments, and takes over again.
  bool window_in_hand() const { return closed_; }
  std::uint64_t seed() const { return options_.seed; }
  std::uint64_t random_passes() const { return random_passes_; }
  void resume(const Record& record, std::uint64_t seed, std::uint64_t random_passes) noexcept {
    device_.upload(record_.data(), &record, sizeof record);
    micro_batches_ = record.window.micro_batches;
    options_.seed = seed;
    random_passes_ = random_passes;
    last_window_ = {};
    forget_findings();
  }

  Record record() const {
    Record copy;
    device_.download(&copy, record_.data(), sizeof copy);
    return copy;
  }

  /// The loss of one micro-batch, with all that its backward pass needs on the tape. What throws here leaves the
  /// window as it was.
  template <class Batch>
  Loss forward(const Batch& batch) {
    require_open("accumulate");
    return loss(batch, Pass::training);
  }

  /// Throws ConfigurationError where the model returns what cannot be a loss.
  template <class Batch>
  Loss loss(const Batch& batch, Pass pass) {
    return loss(batch, pass, random_passes_);
  }
  template <class Batch>
  Loss loss(const Batch& batch, Pass pass, std::uint64_t random_pass) {
    tape_.begin(pass, {options_.seed, random_pass});
    const Loss result = model_.loss(tape_, batch);
    constexpr std::int64_t most_samples = std::int64_t{1} << 53;
    if (result.sum.data() == nullptr || result.sum.size() != 1 || result.count < 0 || result.count > most_samples) {
      throw ConfigurationError("the model's loss has a sum of shape " + result.sum.shape().text() + " over " +
                               std::to_string(result.count) +
                               " samples; it must be a scalar that an operation computed, and a number from 0 to 2^53");
    }
    return result;
  }

  /// Adds the micro-batch whose loss was just computed to the window. What throws here (there is no memory left, say)
  /// abandons the window, whose gradients are half added.
  void backward(const Loss& loss) {
    run(AddMicroBatch<Record>{record_.data(), loss.sum.data(), loss.count});
    ++micro_batches_;
    ++random_passes_;
    if (loss.count == 0) return;
    try {
      tape_.backward(loss.sum, &record_.data()->window.seed);
    } catch (...) {
      clear_window();
      throw;
    }
  }

  /// How skipped windows are explained; null, as at first, if they are not.
  void explain_with(const SkipExplainer<TrainerCore>* explainer) noexcept {
    explainer_ = explainer;
    forget_findings();
  }
  /// Explains the micro-batch that was just added, if the window is not finite from here on: while the batch is there.
  template <class Batch>
  void look(const Batch& batch) {
    if (explainer_ == nullptr || looked_at_ + 1 != micro_batches_) return;
    run(CloseWindow<Record>{record_.data()});
    measure();
    ++looked_at_;
    const Record now = record();
    if (finding_ != nullptr || (now.facts.loss_finite && now.facts.gradients_finite)) return;
    try {
      finding_ = explainer_->look(*this, BatchView<TrainerCore>::of(batch),
                                  {.attempt = now.state.attempts + 1,
                                   .skip_cause = now.facts.loss_finite ? SkipCause::gradient : SkipCause::loss,
                                   .scale = now.state.scaler.scale,
                                   .normalizer = now.window.normalizer,
                                   .first_random_pass = random_passes_ - static_cast<std::uint64_t>(micro_batches_),
                                   .micro_batches = micro_batches_});
    } catch (...) {  // no memory for it: the micro-batch was added all the same
    }
  }

  /// The window that was just skipped; else the one that a batch of now would belong to.
  WindowFacts window_to_diagnose() const {
    if (last_window_.attempt > 0) return last_window_;
    const Record now = record();
    return {.scale = now.state.scaler.scale,
            .normalizer = now.window.normalizer,
            .first_random_pass = random_passes_};
  }

  void close(const char* call) {
    require_open(call);
    if (micro_batches_ == 0) {
      throw ConfigurationError(
          std::string(call) +
          " of an empty window: no micro-batch was accumulated since the last update; call accumulate(batch) first, or "
          "step(batch) for both");
    }
    run(CloseWindow<Record>{record_.data()});
    closed_ = true;
  }

  /// Measures the closed window, unless its last look has just done so.
  void measure_closed() noexcept {
    if (looked_at_ != micro_batches_) measure();
  }
  void measure() noexcept override {
    const auto chunks = store_.chunks();
    const auto count = static_cast<std::int64_t>(chunks.size());
    compute::for_each_chunk(
        device_, count,
        MeasureChunk{chunks.data(), store_.segments().data(), store_.has_gradient().data(), store_.gradients(),
                     &record_.data()->window.inverse_scale, partials_.data()});
    run(JoinMeasurements<Record>{record_.data(), partials_.data(), chunks.data(), count, any_gradient()});
  }

  /// Throws ConfigurationError where the schedule has no rate for the next update. A Schedule was checked as a whole
  /// when the trainer was built; a callable of the user's is known only as far as it was called.
  void require_learning_rate() const {
    const std::int64_t position = record().state.schedule_position;
    const float rate = static_cast<float>(optimizer_.learning_rate(position));
    if (is_rate(static_cast<double>(rate))) return;
    throw_if_fault(Optimizer::name, {("learning_rate(" + std::to_string(position) + ")").c_str(),
                                     static_cast<double>(rate), "a learning rate must be finite and not negative"});
  }

  /// Decides and carries out the step on the measured window, clears the window, and reports. Requires that
  /// require_learning_rate has just passed.
  StepReport finish(float max_norm, float max_value) {
    const ClearedAtTheEnd window{*this};
    run(DecideStep<Record, Policy, Optimizer>{record_.data(), optimizer_, max_norm, max_value});
    update();
    const Record after = record();
    StepReport report = describe(after);
    remember(after);
    const std::string explanation = explain(report);
    if (Policy::stop_after_skips > 0 && report.outcome == Outcome::skipped &&
        report.skipped_in_a_row >= Policy::stop_after_skips) {
      throw TrainingStopped(stop_message(report) + explanation, report);
    }
    return report;
  }

  /// Whatever is thrown: there may be no memory left for a report.
  struct ClearedAtTheEnd {
    TrainerCore& core;
    ~ClearedAtTheEnd() { core.clear_window(); }
  };

  void abandon() {
    require_open("abandon");
    clear_window();
  }
  void clear_window() noexcept {
    store_.clear_gradients();
    run(ClearWindow<Record>{record_.data()});
    micro_batches_ = 0;
    forget_findings();
    closed_ = false;
  }

  // A closed window, as its gradient handle sees it.

  float loss_scale() const override { return record().state.scaler.scale; }
  double norm() const override { return std::sqrt(record().facts.sum_of_squares); }
  bool is_finite() const override { return record().facts.gradients_finite; }
  void clip_norm(float max_norm) override {
    validate_clip(max_norm, std::numeric_limits<float>::infinity());
    WindowTotals& window = record_.data()->window;
    window.clip_norm = (std::min)(window.clip_norm, max_norm);
    if (is_finite()) clip_to_norm();
  }
  void clip_value(float max_value) override {
    validate_clip(std::numeric_limits<float>::infinity(), max_value);
    WindowTotals& window = record_.data()->window;
    window.clip_value = (std::min)(window.clip_value, max_value);
  }
  void for_each(const std::function<void(std::string_view, Tensor<float>)>& function) override {
    unscale_in_place();
    try {
      for (std::size_t i = 0; i < store_.infos().size(); ++i) {
        if (store_.has_gradient()[i] != 0) function(store_.infos()[i].name, store_.gradient(static_cast<int>(i)));
      }
    } catch (...) {
      measure();
      throw;
    }
    measure();
  }
  void discard() noexcept override {
    if (closed_) clear_window();
  }

 private:
  static BasicTrainerOptions<D> checked(BasicTrainerOptions<D> options, const Optimizer& optimizer) {
    validate_clip(options.clip_norm, options.clip_value);
    optimizer.validate();
    return options;
  }

  template <class Task>
  void run(const Task& task) {
    compute::for_each_task(device_, 1, task);
  }

  void require_open(const char* call) const {
    if (closed_) {
      throw ConfigurationError(std::string(call) +
                               ": the window is closed and its gradients are in your hands; apply them or let them go "
                               "before the next micro-batch");
    }
  }

  void apply_rules() {
    parameter_options_.assign(store_.infos().size(), ParameterOptions{});
    for (const ParameterRule& rule : options_.parameters) {
      bool matched = false;
      for (std::size_t i = 0; i < store_.infos().size(); ++i) {
        if (!rule.matches(store_.infos()[i])) continue;
        matched = true;
        ParameterOptions& options = parameter_options_[i];
        options.weight_decay_factor = rule.weight_decay_factor().value_or(options.weight_decay_factor);
        options.learning_rate_factor = rule.learning_rate_factor().value_or(options.learning_rate_factor);
        if (rule.freezes()) store_.freeze(static_cast<int>(i));
      }
      if (!matched) {
        throw ConfigurationError("a rule for " + rule.description() + " matches none; the model has" + store_.names());
      }
    }
    for (std::size_t i = 0; i < parameter_options_.size(); ++i) {
      validate(parameter_options_[i], store_.infos()[i].name.c_str());
    }
  }

  bool any_gradient() const {
    for (const std::uint8_t has : store_.has_gradient()) {
      if (has != 0) return true;
    }
    return false;
  }

  void update() {
    UpdateChunk<Optimizer, Compute> pass{store_.chunks().data(),
                                         store_.has_gradient().data(),
                                         parameter_options_.data(),
                                         store_.gradients(),
                                         store_.masters(),
                                         Store::has_working_copy ? store_.working() : nullptr,
                                         {},
                                         &record_.data()->update};
    for (std::size_t m = 0; m < moment_count; ++m) pass.moments[m] = moments_[m].data();
    compute::for_each_chunk(device_, static_cast<std::int64_t>(store_.chunks().size()), pass);
  }

  /// Turns the norm that was asked for into a coefficient. Requires gradients that are finite.
  void clip_to_norm() {
    WindowTotals& window = record_.data()->window;
    const double clipped = norm() * static_cast<double>(window.clip_coefficient);
    window.clip_coefficient *= clip_coefficient(clipped, window.clip_norm);
    window.clip_norm = WindowTotals{}.clip_norm;
  }

  /// Writes what the update would use over the scaled gradients; from here on the window's scale is one. Limits wait
  /// while a gradient is not finite: they would make an ordinary number of an infinite one.
  void unscale_in_place() {
    WindowTotals& window = record_.data()->window;
    const WindowTotals none;
    const bool clips = is_finite();
    if (clips) clip_to_norm();
    const float inverse = window.inverse_scale;
    const float coefficient = clips ? window.clip_coefficient : none.clip_coefficient;
    const float limit = clips ? window.clip_value : none.clip_value;
    for (std::size_t i = 0; i < store_.infos().size(); ++i) {
      if (store_.has_gradient()[i] == 0) continue;
      const Tensor<float> gradient = store_.gradient(static_cast<int>(i));
      float* values = gradient.data();
      compute::for_each(device_, gradient.size(), [=](std::int64_t k) {
        values[k] = halfstep::clip_value(values[k] * inverse * coefficient, limit);
      });
    }
    window.inverse_scale = 1;
    if (!clips) return;
    window.clip_coefficient = none.clip_coefficient;
    window.clip_value = none.clip_value;
  }

  void remember(const Record& record) {
    last_window_ = {};
    if (record.decision.outcome != Outcome::skipped) return;
    last_window_ = {.attempt = record.decision.next.attempts,
                    .skip_cause = record.decision.skip_cause,
                    .scale = record.decision.scale_used,
                    .normalizer = record.window.normalizer,
                    .first_random_pass = random_passes_ - static_cast<std::uint64_t>(record.window.micro_batches),
                    .micro_batches = record.window.micro_batches};
  }

  std::string explain(StepReport& report) noexcept {
    if (report.outcome != Outcome::skipped || finding_ == nullptr) return {};
    try {
      const std::string text = explainer_->tell(*finding_, last_window_, report.loss);
      report.diagnosis = finding_;
      return "\n" + text;
    } catch (...) {  // no memory for it: the step was taken all the same
      return {};
    }
  }
  void forget_findings() noexcept {
    finding_.reset();
    looked_at_ = 0;
  }

  StepReport describe(const Record& record) const {
    StepReport report;
    const StepDecision& decision = record.decision;
    report.outcome = decision.outcome;
    report.skip_cause = decision.skip_cause;
    report.loss = record.window.valid_count == 0
                      ? std::numeric_limits<double>::quiet_NaN()
                      : record.window.loss_sum / static_cast<double>(record.window.valid_count);
    report.gradient_norm = decision.gradient_norm;
    report.clip_coefficient = decision.clip_coefficient;
    report.scale = decision.scale_used;
    report.next_scale = decision.next.scaler.scale;
    report.scale_change = decision.scale_change;
    report.learning_rate = decision.learning_rate;
    report.update_number = decision.next.update_number;
    report.attempts = decision.next.attempts;
    report.skipped = decision.next.skipped;
    report.skipped_in_a_row = decision.next.skipped_in_a_row;
    report.empty = decision.next.empty;
    report.schedule_position = decision.next.schedule_position;
    report.micro_batches = record.window.micro_batches;
    report.valid_count = record.window.valid_count;
    if (record.facts.first_bad_parameter >= 0) {
      report.first_non_finite = {store_.infos()[static_cast<std::size_t>(record.facts.first_bad_parameter)].name,
                                 record.facts.first_bad_index};
    }
    return report;
  }

  static std::string stop_message(const StepReport& report) {
    std::string message = "training stopped: " + std::to_string(report.skipped_in_a_row) +
                          " windows in a row were skipped, as many as the policy's stop_after_skips allows; ";
    if (report.skip_cause == SkipCause::loss) {
      message += "the loss is not finite, which no loss scale can cure: look at the data, the model, the learning rate";
    } else {
      message += "the first gradient that is not finite is \"" + report.first_non_finite.tensor + "\"[" +
                 std::to_string(report.first_non_finite.index) + "] at loss scale " + std::to_string(report.scale);
      if (report.scale_change == ScaleChange::at_minimum) {
        message += ", the smallest allowed: look at the data and the model, not at the scale";
      }
    }
    return message;
  }

  BasicTrainerOptions<D> options_;
  mutable D device_;
  Model model_;
  Optimizer optimizer_;
  Store store_;
  TapeType tape_;
  Buffer<MeasurePartial, D> partials_;
  Buffer<Record, D> record_;
  std::array<Buffer<float, D>, moment_count> moments_;
  std::vector<ParameterOptions> parameter_options_;
  std::int64_t micro_batches_ = 0;
  /// Training passes so far: with the seed, all that random operations depend on.
  std::uint64_t random_passes_ = 0;
  /// The window before this one, if it was skipped.
  WindowFacts last_window_;
  /// If skips are explained: how, how many micro-batches of this window were looked at, and what was found.
  const SkipExplainer<TrainerCore>* explainer_ = nullptr;
  std::int64_t looked_at_ = 0;
  std::shared_ptr<Diagnosis> finding_;
  bool closed_ = false;
};

}  // namespace halfstep::detail
