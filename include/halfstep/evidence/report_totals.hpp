#pragma once

#include <cstdint>
#include <halfstep/evidence/step_report.hpp>
#include <halfstep/numeric/traits.hpp>
#include <limits>

namespace halfstep {

/// What several windows come to. Means are over applied windows alone: a skipped window taught the model
/// nothing. Numbers that are not finite are counted beside the means and never part of them.
class ReportTotals {
 public:
  void add(const StepReport& report) {
    ++windows_;
    if (report.outcome == Outcome::no_gradients) ++empty_;
    if (report.skip_cause == SkipCause::gradient) ++skipped_for_gradient_;
    if (report.skip_cause == SkipCause::loss) ++skipped_for_loss_;
    const bool loss_finite = is_finite(report.loss), norm_finite = is_finite(report.gradient_norm);
    if (!loss_finite && report.valid_count > 0) ++non_finite_losses_;
    if (!norm_finite) ++non_finite_norms_;
    if (first_.tensor.empty()) first_ = report.first_non_finite;
    if (!report.applied()) return;
    ++applied_;
    if (report.clip_coefficient < 1) ++clipped_;
    if (loss_finite) {
      loss_sum_ += report.loss * static_cast<double>(report.valid_count);
      loss_count_ += report.valid_count;
    }
    if (norm_finite) {
      norm_sum_ += report.gradient_norm;
      ++norm_count_;
    }
  }

  std::int64_t windows() const { return windows_; }
  std::int64_t applied() const { return applied_; }
  std::int64_t clipped() const { return clipped_; }
  std::int64_t skipped() const { return skipped_for_gradient_ + skipped_for_loss_; }
  std::int64_t skipped_for_gradient() const { return skipped_for_gradient_; }
  std::int64_t skipped_for_loss() const { return skipped_for_loss_; }
  std::int64_t empty() const { return empty_; }
  /// Windows whose loss or gradient norm was infinite or NaN. A window without a valid sample has no loss.
  std::int64_t non_finite_losses() const { return non_finite_losses_; }
  std::int64_t non_finite_norms() const { return non_finite_norms_; }
  /// The first tensor that a skipped window named; an empty name where none was.
  const FirstNonFinite& first_non_finite() const { return first_; }

  /// Over the valid samples of applied windows; NaN where there were none.
  double mean_loss() const { return ratio(loss_sum_, loss_count_); }
  /// Over applied windows; NaN where there were none.
  double mean_gradient_norm() const { return ratio(norm_sum_, norm_count_); }

 private:
  static double ratio(double sum, std::int64_t count) {
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
  }

  std::int64_t windows_ = 0, applied_ = 0, clipped_ = 0, empty_ = 0;
  std::int64_t skipped_for_gradient_ = 0, skipped_for_loss_ = 0;
  std::int64_t non_finite_losses_ = 0, non_finite_norms_ = 0;
  FirstNonFinite first_;
  double loss_sum_ = 0, norm_sum_ = 0;
  std::int64_t loss_count_ = 0, norm_count_ = 0;
};

}  // namespace halfstep
