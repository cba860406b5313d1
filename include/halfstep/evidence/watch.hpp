#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <halfstep/evidence/diagnosis.hpp>
#include <halfstep/evidence/step_report.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep {

/// What a run shows that asks for somebody's attention.
enum class Sign {
  data_not_finite,
  loss_not_finite,
  repeated_skips,
  scale_at_minimum,
  falling_scale,
  unusual_norm,
};

constexpr std::string_view name_of(Sign sign) {
  constexpr std::string_view names[] = {"data not finite",  "loss not finite", "repeated skips",
                                        "scale at minimum", "falling scale",   "unusual norm"};
  return names[static_cast<std::size_t>(sign)];
}

struct Advice {
  Sign sign;
  /// What was seen, with its numbers, and what to do.
  std::string text;
};

struct WatchOptions {
  /// So many skips in a row are no longer an overflow now and then; the second number is for a run that has
  /// made no update yet, in which a dynamic scaler looks for its scale.
  std::int64_t skips_in_a_row = 4;
  std::int64_t first_skips_in_a_row = 20;
  /// A scale is falling when it is this factor under its highest of the last `windows` windows.
  double scale_factor = 16;
  std::int64_t windows = 200;
  /// A norm is unusual when it is this factor, and four standard deviations, away from the geometric mean of
  /// the applied windows before. Nothing is unusual before there were `norm_windows` of them.
  double norm_factor = 10;
  std::int64_t norm_windows = 20;
};

/// Reads reports and says what they mean. Each sign is told when it appears, and again only after it had
/// gone. What it says depends on the reports alone.
///
///     Watch watch;
///     ...
///     for (const Advice& advice : watch.see(report)) std::puts(advice.text.c_str());
class Watch {
 public:
  /// Throws ConfigurationError for counts under 1 and factors that are not over 1.
  explicit Watch(WatchOptions options = {}) : options_(options) {
    const auto at_least_one = [](const char* name, std::int64_t value) {
      if (value < 1) {
        throw ConfigurationError(std::string("Watch: ") + name + " is " + std::to_string(value) +
                                 "; it must be 1 or more");
      }
    };
    const auto over_one = [](const char* name, double value) {
      if (!(value > 1)) {
        throw ConfigurationError(std::string("Watch: ") + name + " is " + std::to_string(value) +
                                 "; it must be greater than 1");
      }
    };
    at_least_one("skips_in_a_row", options.skips_in_a_row);
    at_least_one("first_skips_in_a_row", options.first_skips_in_a_row);
    at_least_one("windows", options.windows);
    at_least_one("norm_windows", options.norm_windows);
    over_one("scale_factor", options.scale_factor);
    over_one("norm_factor", options.norm_factor);
  }

  std::vector<Advice> see(const StepReport& report) {
    std::vector<Advice> news;
    const auto tell = [&](Sign sign, bool shows, auto text) {
      bool& told = told_[static_cast<std::size_t>(sign)];
      if (shows && !told) news.push_back({sign, text()});
      told = shows;
    };
    if (report.outcome == Outcome::no_gradients) return news;
    const bool skipped = report.outcome == Outcome::skipped;
    const bool data = skipped && report.diagnosis != nullptr && report.diagnosis->first &&
                      report.diagnosis->first->place == Place::input;
    tell(Sign::data_not_finite, data, [&] { return start(report) + report.diagnosis->advice; });
    tell(Sign::loss_not_finite, report.skip_cause == SkipCause::loss && !data,
         [&] { return loss_text(report); });
    tell(Sign::scale_at_minimum, skipped && report.scale_change == ScaleChange::at_minimum,
         [&] { return minimum_text(report); });
    const std::int64_t many =
        report.update_number > 0 ? options_.skips_in_a_row : options_.first_skips_in_a_row;
    tell(Sign::repeated_skips, report.skipped_in_a_row >= many, [&] { return skips_text(report); });
    const double fall = watch_scale(report);
    tell(Sign::falling_scale, fall >= options_.scale_factor, [&] { return scale_text(report, fall); });
    if (!skipped) {
      const double usual = std::exp2(mean_);
      tell(Sign::unusual_norm, watch_norm(report.gradient_norm), [&] { return norm_text(report, usual); });
    }
    return news;
  }

 private:
  static std::string start(const StepReport& report) {
    return "attempt " + std::to_string(report.attempts) + ": ";
  }
  static std::string look(const StepReport& report) {
    if (report.diagnosis == nullptr) return ". trainer.diagnose(batch) names the tensor";
    return report.diagnosis->first
               ? ". First: " + report.diagnosis->first->name() + ". " + report.diagnosis->advice
               : ". " + report.diagnosis->advice;
  }
  static std::string tensor(const StepReport& report) {
    if (report.first_non_finite.tensor.empty()) return {};
    return ", first in the gradient of \"" + report.first_non_finite.tensor + "\"[" +
           std::to_string(report.first_non_finite.index) + "]";
  }

  static std::string loss_text(const StepReport& report) {
    return start(report) + "the loss is " + detail::number(report.loss) +
           ". It is computed before it is scaled, so no loss scale can cure it and the scale stays: look at "
           "the data, "
           "the labels, and whether the learning rate let the weights grow" +
           look(report);
  }
  static std::string minimum_text(const StepReport& report) {
    return start(report) + "a gradient is not finite at the smallest loss scale allowed, " +
           detail::scale_number(report.scale) + tensor(report) +
           ". Going lower is no cure for this: look at data and model, or lower minimum_scale if the true "
           "gradients "
           "pass float16's 65504" +
           look(report);
  }
  static std::string skips_text(const StepReport& report) {
    const std::string counted =
        std::to_string(report.skipped_in_a_row) + " windows in a row were skipped" + tensor(report) + ". ";
    if (report.update_number == 0) {
      return start(report) + counted +
             "A few at the start are normal, while the loss scale is looked for; so many before the first "
             "update mean "
             "that the model or its data give no finite gradient" +
             look(report);
    }
    return start(report) + counted +
           "A single one is normal; a row of them means that something in the batches or the weights has "
           "changed, "
           "not that the scale was a little high" +
           look(report);
  }
  static std::string scale_text(const StepReport& report, double fall) {
    return start(report) + "the loss scale fell to " + detail::scale_number(report.next_scale) + ", " +
           detail::number(fall) +
           " times less than it was: the gradients grow. Lower the learning rate or set clip_norm before "
           "small "
           "gradients are lost; if the run is sound, BFloat16Policy needs no scale" +
           look(report);
  }
  static std::string norm_text(const StepReport& report, double usual) {
    const std::string seen = start(report) + "the gradient norm is " + detail::number(report.gradient_norm) +
                             " where " + detail::number(usual) + " is usual. ";
    if (report.gradient_norm < usual) {
      return seen +
             "Gradients vanish: look for samples that are all masked, units that are off for every input, "
             "and a "
             "loss scale so low that they round to zero (the table of trainer.diagnose shows it)";
    }
    return seen +
           "The update was applied: set clip_norm near the usual norm, or lower the learning rate; look at "
           "what is odd about this batch";
  }

  /// How many times the scale is less than its highest in the last windows, from the first update on.
  double watch_scale(const StepReport& report) {
    if (report.update_number == 0) return 1;
    scales_.push_back(report.scale);
    if (static_cast<std::int64_t>(scales_.size()) > options_.windows) scales_.pop_front();
    const float highest = *std::max_element(scales_.begin(), scales_.end());
    return static_cast<double>(highest) / static_cast<double>(report.next_scale);
  }

  /// Whether the norm of an applied window is out of the usual range; takes it in, no further than the
  /// range's edge.
  bool watch_norm(double norm) {
    constexpr double lowest = 0x1p-1000;
    const double value = std::log2((std::max)(norm, lowest));
    const double room = (std::max)(std::log2(options_.norm_factor), 4 * std::sqrt(variance_));
    const bool known = norms_ >= options_.norm_windows;
    const double offset = known ? (std::clamp)(value - mean_, -room, room) : value - mean_;
    const bool unusual = known && (value - mean_ > room || mean_ - value > room);
    norms_ = (std::min)(norms_ + 1, 5 * options_.norm_windows);
    const double weight = 1.0 / static_cast<double>(norms_);
    mean_ += weight * offset;
    variance_ += weight * (offset * offset * (1 - weight) - variance_);
    return unusual;
  }

  WatchOptions options_;
  std::array<bool, 6> told_{};
  std::deque<float> scales_;
  /// Of log2 of the norms, over the last 5 * norm_windows of them or so.
  double mean_ = 0;
  double variance_ = 0;
  std::int64_t norms_ = 0;
};

}  // namespace halfstep
