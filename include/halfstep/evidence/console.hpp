#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <halfstep/error.hpp>
#include <halfstep/evidence/detail/terminal.hpp>
#include <halfstep/evidence/report_totals.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace halfstep {

struct ConsoleOptions {
  /// Windows to a line. Their means are over the applied ones.
  std::int64_t every = 1;
  /// Windows of the whole run, 0 where nobody knows: how far a progress bar has to go.
  std::int64_t total = 0;
  /// What every line begins with.
  std::string label = {};
  std::FILE* stream = stdout;
  /// A progress bar under the lines. `automatic`: where the stream is a terminal that can redraw a line.
  enum class Bar { automatic, always, never };
  Bar bar = Bar::automatic;
};

/// Prints a line every `every` windows, a second one if some of them were skipped, and, on a terminal, a
/// progress bar below. Where the output is no terminal there are plain lines and no control characters. A
/// last, shorter line tells of what was left at the end. A stream that cannot be written stops nothing: lines
/// are lost, which standard error is told once.
class ConsoleSink {
 public:
  /// Throws ConfigurationError unless `every` is 1 or more and `total` 0 or more.
  explicit ConsoleSink(ConsoleOptions options = {})
      : options_(std::move(options)), stream_(options_.stream), start_(Clock::now()) {
    if (options_.every < 1 || options_.total < 0 || options_.stream == nullptr) {
      throw ConfigurationError(
          fmt::format("console: every is {} and total is {}; a line tells of 1 window or more, a run "
                      "has 0 or more, and there must be a stream",
                      options_.every, options_.total));
    }
    bar_ = options_.bar == ConsoleOptions::Bar::always ||
           (options_.bar == ConsoleOptions::Bar::automatic && detail::can_redraw(options_.stream));
  }
  ConsoleSink(ConsoleSink&&) noexcept = default;
  ConsoleSink& operator=(ConsoleSink&&) = delete;
  ~ConsoleSink() {
    if (stream_ == nullptr) return;
    try {
      finish();
    } catch (...) {
      // No memory for a line: the run is over, and the line is lost.
    }
  }

  void write(const StepReport& report) {
    last_ = report;
    totals_.add(report);
    ++windows_;
    samples_ += report.valid_count;
    if (totals_.windows() >= options_.every) print_line();
    if (bar_) draw_bar();
  }

  /// Prints what has no line yet and takes the bar away. More may follow.
  void finish() {
    if (totals_.windows() > 0) print_line();
    if (std::exchange(drawn_, false)) print(detail::erase_line);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds between_bars{100};

  void print_line() {
    std::string line = std::exchange(drawn_, false) ? std::string(detail::erase_line) : std::string();
    auto out = std::back_inserter(line);
    if (!options_.label.empty()) fmt::format_to(out, "{}  ", options_.label);
    fmt::format_to(out, "step {:>5}", last_.attempts);
    if (options_.total > 0) fmt::format_to(out, " of {}", options_.total);
    if (totals_.applied() > 0) {
      fmt::format_to(out, "   loss {:.5f}   gradient norm {:.4f}", totals_.mean_loss(),
                     totals_.mean_gradient_norm());
    } else if (totals_.windows() == 1) {
      fmt::format_to(out, "   {}: loss {:.5f}   gradient norm {:.4f}", name_of(last_.outcome), last_.loss,
                     last_.gradient_norm);
    } else {
      line += "   no window applied";
    }
    fmt::format_to(out, "   scale {:g}   rate {:.3g}   updates {}   skipped {}", last_.next_scale,
                   last_.learning_rate, last_.update_number, last_.skipped);
    if (totals_.empty() > 0) fmt::format_to(out, "   {} without gradients", totals_.empty());
    line += '\n';
    if (totals_.skipped() > 0) add_skips(line);
    print(line);
    totals_ = {};
  }

  void add_skips(std::string& line) const {
    auto out = std::back_inserter(line);
    fmt::format_to(
        out, "    {} of {} skipped: {} for a gradient, {} for the loss; not finite: {} losses, {} norms",
        totals_.skipped(), totals_.windows(), totals_.skipped_for_gradient(), totals_.skipped_for_loss(),
        totals_.non_finite_losses(), totals_.non_finite_norms());
    const FirstNonFinite& first = totals_.first_non_finite();
    if (!first.tensor.empty()) fmt::format_to(out, "; first {}[{}]", first.tensor, first.index);
    line += '\n';
  }

  void draw_bar() {
    const auto now = Clock::now();
    if (drawn_ && now - last_bar_ < between_bars) return;
    last_bar_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const int width = detail::columns_of(options_.stream);
    std::string text(detail::erase_line);
    text += detail::progress_bar(windows_, options_.total, samples_, seconds, width);
    print(text);
    drawn_ = true;
  }

  void print(std::string_view text) noexcept {
    const bool written = std::fwrite(text.data(), 1, text.size(), stream_.get()) == text.size() &&
                         std::fflush(stream_.get()) == 0;
    if (written) return;
    std::clearerr(stream_.get());
    if (!std::exchange(noticed_, true)) {
      std::fputs("halfstep: the console log cannot be written; training goes on, and its lines are lost\n",
                 stderr);
    }
  }

  struct NotOurs {
    void operator()(std::FILE*) const noexcept {}
  };

  ConsoleOptions options_;
  std::unique_ptr<std::FILE, NotOurs> stream_;
  Clock::time_point start_, last_bar_;
  bool bar_ = false, drawn_ = false, noticed_ = false;
  ReportTotals totals_;
  StepReport last_;
  std::int64_t windows_ = 0, samples_ = 0;
};

}  // namespace halfstep
