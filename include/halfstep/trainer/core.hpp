#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <halfstep/nn/tape.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/scaling/gradients.hpp>
#include <halfstep/trainer/memory.hpp>
#include <halfstep/trainer/options.hpp>
#include <halfstep/trainer/report_of.hpp>
#include <halfstep/trainer/skip_findings.hpp>
#include <halfstep/trainer/step_passes.hpp>
#include <halfstep/trainer/step_record.hpp>
#include <halfstep/trainer/step_ticket.hpp>
#include <halfstep/trainer/window_facts.hpp>
#if HALFSTEP_WITH_CUDA
#include <halfstep/trainer/cuda_reports.hpp>
#endif

namespace halfstep::detail {

/// Where reports are while the device works: nowhere, where it works when it is called.
struct NoReports {
  template <class D>
  explicit NoReports(D&) {}
};
template <class Record, Device D>
struct ReportsOf {
  using type = NoReports;
};
#if HALFSTEP_WITH_CUDA
template <class Record>
struct ReportsOf<Record, Cuda> {
  using type = CudaReports<Record>;
};
#endif

/// Devices that can write work down and give it later.
template <class D>
concept RecordsWork = requires(D& device) {
  device.begin_recording();
  device.end_recording();
};

/// One unscaled gradient, clipped, over the scaled one.
struct UnscaleElement {
  float* values;
  float inverse_scale;
  float clip_coefficient;
  float limit;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    values[i] = halfstep::clip_value(values[i] * inverse_scale * clip_coefficient, limit);
  }
};

/// What a trainer owns, and the passes of a step in their one order: add micro-batches, close, measure, decide,
/// update, clear. Sits at a fixed address; gradient handles share it.
template <class Model, class Optimizer, class Policy, Device D>
class TrainerCore final : public ClosedWindow,
                          public ReportSource,
                          public std::enable_shared_from_this<TrainerCore<Model, Optimizer, Policy, D>> {
 public:
  using Compute = typename Policy::compute_type;
  using Record = StepRecord<typename Optimizer::Coefficients>;
  using TapeType = Tape<Policy, D>;
  using Store = ParameterStore<Compute, D>;
  using DeviceType = D;
  static constexpr bool scales = std::remove_cvref_t<decltype(Policy::scaler)>::scales;

  TrainerCore(Model model, Optimizer optimizer, BasicTrainerOptions<D> options)
      : options_(checked(std::move(options), optimizer)),
        device_(options_.device),
        model_(std::move(model)),
        optimizer_(optimizer),
        store_(device_, model_, options_.seed),
        tape_(device_, store_),
        passes_(device_, store_, options_.parameters),
        record_(device_, 1),
        reports_(device_) {
    Record first{};
    first.state = initial_step_state(Policy::scaler);
    device_.upload(record_.data(), &first, sizeof first);
  }

  Model& model() { return model_; }
  const Optimizer& optimizer() const { return optimizer_; }
  TapeType& tape() { return tape_; }
  Store& store() { return store_; }
  const Store& store() const { return store_; }
  D& device() { return device_; }
  Buffer<float, D>& moment(std::size_t position) { return passes_.moment(position); }

  MemoryUse memory() const {
    const auto bytes = [](std::size_t size) { return static_cast<std::int64_t>(size); };
    MemoryUse use;
    use.masters = bytes(store_.master_bytes());
    use.working_copy = bytes(store_.working_copy_bytes());
    use.gradients = bytes(store_.gradient_bytes());
    use.moments = bytes(passes_.moment_bytes());
    use.activations = bytes(tape_.peak_bytes());
    use.reserve = bytes(tape_.value_bytes()) - use.activations;
    if constexpr (requires { device_.service_bytes(); }) use.workspace = bytes(device_.service_bytes());
    use.bookkeeping = bytes(record_.bytes() + tape_.node_bytes() + passes_.bookkeeping_bytes());
    return use;
  }

  /// What a checkpoint holds besides masters and moments, and takes over again.
  bool window_in_hand() const { return closed_; }
  std::uint64_t seed() const { return options_.seed; }
  std::uint64_t random_passes() const { return random_passes_; }
  void resume(Record record, std::uint64_t seed, std::uint64_t random_passes) {
    hear_all();
    stopped_ = nullptr;  // a step of the run that ends here
    record.window.inverse_scale = inverse_scale_of(record.window, record.state.scaler.scale);
    device_.upload(record_.data(), &record, sizeof record);
    micro_batches_ = record.window.micro_batches;
    heard_position_ = record.state.schedule_position;
    options_.seed = seed;
    random_passes_ = random_passes;
    findings_.forget_last_window();
    findings_.forget();
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
    if constexpr (RecordsWork<D>) {
      if (captures_) device_.begin_recording();
    }
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
    compute::for_each(device_, 1, AddMicroBatch<Record>{record_.data(), loss.sum.data(), loss.count});
    is_measured_ = false;
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

  /// From the next micro-batch on a device that can records a window's work and does it at once. No effect on others.
  void capture(bool on) { captures_ = on; }

  /// How skipped windows are explained; null, as at first, if they are not.
  void explain_with(const SkipExplainer<TrainerCore>* explainer) {
    hear_all();
    findings_.explain_with(explainer);
  }
  /// Explains the micro-batch that was just added, if the window is not finite from here on: while the batch is there.
  template <class Batch>
  void look(const Batch& batch) {
    if (!findings_.wants(micro_batches_)) return;
    measure();
    const Record now = record();
    findings_.look(*this, batch, now.facts,
                   {.attempt = now.state.attempts + 1,
                    .scale = now.state.scaler.scale,
                    .normalizer = now.window.normalizer,
                    .first_random_pass = random_passes_ - static_cast<std::uint64_t>(micro_batches_),
                    .micro_batches = micro_batches_});
  }

  /// The window that was just skipped; else the one that a batch of now would belong to.
  WindowFacts window_to_diagnose() {
    hear_all();
    if (findings_.last_window().attempt > 0) return findings_.last_window();
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
    closed_ = true;
  }

  void measure() override {
    passes_.measure(record_.data());
    is_measured_ = true;
  }

  /// Throws ConfigurationError where the schedule has no rate for the next update. A Schedule was checked as a whole
  /// when the trainer was built; a callable of the user's is known only as far as it was called. Where steps are still
  /// under way the next position is one of several: it is waited for only if one of them has no rate.
  void require_learning_rate() {
    if constexpr (D::shares_host_memory) {
      require_rate_at(record_.data()->state.schedule_position);
    } else if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(optimizer_.learning_rate)>, Schedule>) {
      hear_what_has_arrived();
      const std::int64_t last = heard_position_ + reports_.on_the_way();
      for (std::int64_t position = heard_position_; position <= last; ++position) {
        if (is_rate(rate_at(position))) continue;
        hear_all();
        require_rate_at(heard_position_);
        return;
      }
    }
  }

  /// Decides and carries out the step of the closed window, clears the window, and reports. Requires that
  /// require_learning_rate has just passed.
  StepTicket finish(float max_norm, float max_value) {
    const ClearedAtTheEnd window{*this};
    passes_.decide(record_.data(), optimizer_,
                   {.is_measured = is_measured_, .max_norm = max_norm, .max_value = max_value});
    passes_.update(record_.data());
    end_recording();
    const std::uint64_t first_random_pass = random_passes_ - static_cast<std::uint64_t>(micro_batches_);
    if constexpr (D::shares_host_memory) {
      std::string stop;
      StepReport report = describe(*record_.data(), first_random_pass, stop);
      if (!stop.empty()) throw TrainingStopped(stop, std::move(report));
      return StepTicket(std::move(report));
    } else {
      if (reports_.full()) hear_next();
      auto pending = reports_.send(record_.data(), first_random_pass);
      // What was found about this window is gone when this call returns.
      findings_.explains() ? hear_all() : hear_what_has_arrived();
      return StepTicket(this->shared_from_this(), std::move(pending));
    }
  }

  void wait_for(const PendingReport& pending) override {
    while (!pending.is_here) {
      if constexpr (!D::shares_host_memory) {
        if (reports_.empty()) throw DeviceError("this step's report was lost when there was no memory to write it");
      }
      hear_next();
    }
  }
  /// Throws TrainingStopped if a step that was heard of since stopped training and nobody was told.
  void require_not_stopped() {
    if (stopped_ == nullptr) return;
    const auto stopped = std::exchange(stopped_, nullptr);
    if (std::exchange(stopped->is_told, true)) return;
    throw TrainingStopped(stopped->stop_message, stopped->report);
  }

  /// Whatever is thrown: there may be no memory left for a report.
  struct ClearedAtTheEnd {
    TrainerCore& core;
    int exceptions = std::uncaught_exceptions();
    ~ClearedAtTheEnd() { std::uncaught_exceptions() > exceptions ? core.clear_window() : core.forget_window(); }
  };

  void abandon() {
    require_open("abandon");
    clear_window();
  }
  void clear_window() noexcept {
    forget_window();
    try {
      compute::for_each(device_, 1, ClearWindow<Record>{record_.data()});
      end_recording();
    } catch (...) {  // a device that fails here fails every call that comes, and is reported there
    }
  }

  // A closed window, as its gradient handle sees it.

  float loss_scale() const override { return record().state.scaler.scale; }
  double norm() const override { return std::sqrt(record().facts.sum_of_squares); }
  bool is_finite() const override { return record().facts.gradients_finite; }
  void clip_norm(float max_norm) override {
    validate_clip(max_norm, std::numeric_limits<float>::infinity());
    edit_window([max_norm](WindowTotals& window, const GradientFacts& facts) {
      window.clip_norm = (std::min)(window.clip_norm, max_norm);
      if (facts.gradients_finite) clip_to_norm(window, facts);
    });
  }
  void clip_value(float max_value) override {
    validate_clip(std::numeric_limits<float>::infinity(), max_value);
    edit_window([max_value](WindowTotals& window, const GradientFacts&) {
      window.clip_value = (std::min)(window.clip_value, max_value);
    });
  }
  void for_each(const std::function<void(std::string_view, Tensor<float>)>& function) override {
    unscale_in_place();
    end_recording();  // the function may read and write them by other means
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

  void end_recording() {
    if constexpr (RecordsWork<D>) device_.end_recording();
  }
  void forget_window() noexcept {
    store_.clear_gradients();
    micro_batches_ = 0;
    findings_.forget();
    closed_ = false;
    is_measured_ = false;
  }

  double rate_at(std::int64_t position) const {
    return static_cast<double>(static_cast<float>(optimizer_.learning_rate(position)));
  }
  void require_rate_at(std::int64_t position) const {
    const double rate = rate_at(position);
    if (is_rate(rate)) return;
    throw_if_fault(Optimizer::name, {("learning_rate(" + std::to_string(position) + ")").c_str(), rate,
                                     "a learning rate must be finite and not negative"});
  }

  /// Takes in the reports that are on their way: all of them, the next one, or those that need no waiting.
  void hear_all() {
    if constexpr (!D::shares_host_memory) {
      while (!reports_.empty()) hear_next();
    }
  }
  void hear_what_has_arrived() {
    if constexpr (!D::shares_host_memory) {
      while (!reports_.empty() && reports_.has_arrived()) hear_next();
    }
  }
  void hear_next() {
    if constexpr (!D::shares_host_memory) {
      const auto [record, pending] = reports_.take();
      pending->report = describe(record, pending->first_random_pass, pending->stop_message);
      pending->is_here = true;
      if (!pending->stop_message.empty()) stopped_ = pending;
    }
  }

  void require_open(const char* call) const {
    if (closed_) {
      throw ConfigurationError(std::string(call) +
                               ": the window is closed and its gradients are in your hands; apply them or let them go "
                               "before the next micro-batch");
    }
  }

  /// Calls `edit(window, facts)` on the totals of the window, wherever they are.
  template <class Edit>
  void edit_window(const Edit& edit) {
    Record copy = record();
    edit(copy.window, copy.facts);
    device_.upload(&record_.data()->window, &copy.window, sizeof copy.window);
  }

  /// Turns the norm that was asked for into a coefficient. Requires gradients that are finite.
  static void clip_to_norm(WindowTotals& window, const GradientFacts& facts) {
    const double clipped = std::sqrt(facts.sum_of_squares) * static_cast<double>(window.clip_coefficient);
    window.clip_coefficient *= clip_coefficient(clipped, window.clip_norm);
    window.clip_norm = WindowTotals{}.clip_norm;
  }

  /// Writes what the update would use over the scaled gradients; from here on the window's scale is one. Limits wait
  /// while a gradient is not finite: they would make an ordinary number of an infinite one.
  void unscale_in_place() {
    UnscaleElement pass{};
    edit_window([&pass](WindowTotals& window, const GradientFacts& facts) {
      const WindowTotals none;
      const bool clips = facts.gradients_finite;
      if (clips) clip_to_norm(window, facts);
      pass = {nullptr, window.inverse_scale, clips ? window.clip_coefficient : none.clip_coefficient,
              clips ? window.clip_value : none.clip_value};
      window.inverse_scale = 1;
      if (!clips) return;
      window.clip_coefficient = none.clip_coefficient;
      window.clip_value = none.clip_value;
    });
    for (std::size_t i = 0; i < store_.infos().size(); ++i) {
      if (store_.has_gradient()[i] == 0) continue;
      const Tensor<float> gradient = store_.gradient(static_cast<int>(i));
      pass.values = gradient.data();
      compute::for_each(device_, gradient.size(), pass);
    }
  }

  /// Takes a step's record in: for a diagnosis, as a report, and as what stops training, or an empty text.
  StepReport describe(const Record& record, std::uint64_t first_random_pass, std::string& stop) {
    StepReport report = report_of(record.decision, record.decided, record.facts, store_.infos());
    heard_position_ = report.schedule_position;
    findings_.remember(record, first_random_pass);
    const std::string explanation = findings_.explain(report);
    if (Policy::stop_after_skips > 0 && report.outcome == Outcome::skipped &&
        report.skipped_in_a_row >= Policy::stop_after_skips) {
      stop = stop_message(report) + explanation;
    }
    return report;
  }

  BasicTrainerOptions<D> options_;
  mutable D device_;
  Model model_;
  Optimizer optimizer_;
  Store store_;
  TapeType tape_;
  StepPasses<Record, Optimizer, Policy, D> passes_;
  Buffer<Record, D> record_;
  std::int64_t micro_batches_ = 0;
  /// Training passes so far: with the seed, all that random operations depend on.
  std::uint64_t random_passes_ = 0;
  SkipFindings<TrainerCore> findings_;
  bool closed_ = false;
  bool captures_ = false;
  /// Are the facts those of the window as it is now?
  bool is_measured_ = false;
  typename ReportsOf<Record, D>::type reports_;
  /// As of the last report heard: where the schedule stands; and the step that stopped training, until that is told.
  std::int64_t heard_position_ = 0;
  std::shared_ptr<PendingReport> stopped_;
};

}  // namespace halfstep::detail
