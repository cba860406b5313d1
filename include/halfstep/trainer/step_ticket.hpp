#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <halfstep/evidence/step_report.hpp>

namespace halfstep {

namespace detail {

/// The report of a step that a device is still at.
struct PendingReport {
  StepReport report;
  /// What TrainingStopped says where this step ends training; else empty.
  std::string stop_message;
  bool is_here = false;
  /// Training was stopped on account of this step, and the program knows.
  bool is_told = false;
  /// Of the step's window.
  std::uint64_t first_random_pass = 0;
};

/// Who can wait for a report.
class ReportSource {
 public:
  virtual ~ReportSource() = default;
  /// Returns when it is here.
  virtual void wait_for(const PendingReport& pending) = 0;
};

}  // namespace detail

/// A step that was asked for. What it did is told by `report`, which waits for that step, and for no later one, where
/// the device works on its own.
class StepTicket {
 public:
  explicit StepTicket(StepReport report) : report_(std::move(report)) {}
  StepTicket(std::shared_ptr<detail::ReportSource> source, std::shared_ptr<detail::PendingReport> pending)
      : source_(std::move(source)), pending_(std::move(pending)) {}

  /// Throws TrainingStopped where this step was skipped and as many in a row were as the policy allows (on the host
  /// `step` itself throws), and DeviceError where the device failed.
  const StepReport& report() const& {
    arrive();
    return report_;
  }
  StepReport report() && {
    arrive();
    return std::move(report_);
  }

 private:
  void arrive() const {
    if (pending_ == nullptr) return;
    source_->wait_for(*pending_);
    if (!pending_->stop_message.empty()) {
      pending_->is_told = true;
      throw TrainingStopped(pending_->stop_message, pending_->report);
    }
    report_ = pending_->report;
    pending_ = nullptr;
    source_ = nullptr;
  }

  mutable StepReport report_;
  mutable std::shared_ptr<detail::ReportSource> source_;
  mutable std::shared_ptr<detail::PendingReport> pending_;
};

}  // namespace halfstep
