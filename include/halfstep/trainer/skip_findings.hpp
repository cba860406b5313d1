#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <halfstep/scaling/step_state.hpp>
#include <halfstep/trainer/step_record.hpp>
#include <halfstep/trainer/window_facts.hpp>

namespace halfstep::detail {

/// How a trainer's skipped windows are explained, if they are, what was found about the window that is being filled, and
/// what is known of the one before.
template <class Core>
class SkipFindings {
 public:
  void explain_with(const SkipExplainer<Core>* explainer) {
    explainer_ = explainer;
    forget();
  }
  bool explains() const { return explainer_ != nullptr; }

  /// Whether the micro-batch that was just added, the last of so many, is to be looked at: not where one before it was
  /// missed, for the window may not be finite since then.
  bool wants(std::int64_t micro_batches) const { return explains() && looked_at_ + 1 == micro_batches; }

  /// Explains it, if the window is not finite from here on: while the batch is there. Requires that it is wanted.
  template <class Batch>
  void look(Core& core, const Batch& batch, const GradientFacts& facts, const WindowFacts& window) {
    ++looked_at_;
    if (finding_ != nullptr || (facts.loss_finite && facts.gradients_finite)) return;
    try {
      finding_ = explainer_->look(core, BatchView<Core>::of(batch), window);
    } catch (...) {  // no memory for it: the micro-batch was added all the same
    }
  }

  /// Takes in the record of a step, which is the window before from now on.
  template <class Record>
  void remember(const Record& record, std::uint64_t first_random_pass) {
    last_window_ = {};
    if (record.decision.outcome != Outcome::skipped) return;
    last_window_ = {.attempt = record.decision.next.attempts,
                    .skip_cause = record.decision.skip_cause,
                    .scale = record.decision.scale_used,
                    .normalizer = record.decided.normalizer,
                    .first_random_pass = first_random_pass,
                    .micro_batches = record.decided.micro_batches};
  }
  /// The window before, if it was skipped; else an attempt of 0.
  const WindowFacts& last_window() const { return last_window_; }
  void forget_last_window() { last_window_ = {}; }

  /// Puts what was found into the report of the window before, and gives it as text; empty if nothing was.
  std::string explain(StepReport& report) const noexcept {
    if (report.outcome != Outcome::skipped || finding_ == nullptr) return {};
    try {
      const std::string text = explainer_->tell(*finding_, last_window_, report.loss);
      report.diagnosis = finding_;
      return "\n" + text;
    } catch (...) {  // no memory for it: the step was taken all the same
      return {};
    }
  }

  /// What was found belongs to a window that is no more.
  void forget() noexcept {
    finding_.reset();
    looked_at_ = 0;
  }

 private:
  const SkipExplainer<Core>* explainer_ = nullptr;
  /// Micro-batches of the window in hand that were looked at, and what was found.
  std::int64_t looked_at_ = 0;
  std::shared_ptr<Diagnosis> finding_;
  WindowFacts last_window_;
};

}  // namespace halfstep::detail
