#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <halfstep/evidence/comparison.hpp>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace halfstep {

/// A line of the table of a comparison: what it is about, and a cell for each run.
struct ComparisonRow {
  std::string name;
  std::vector<std::string> cells;
};

namespace detail {

inline std::string milliseconds(double seconds) {
  return is_finite(seconds) ? fmt::format("{:.3f} ms", 1000 * seconds) : "-";
}
inline std::string samples_per_second_text(const PolicyRun& run) {
  return is_finite(run.samples_per_second) ? fmt::format("{:.0f}", run.samples_per_second) : "-";
}
inline std::string kibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
}

inline std::string flips_text(const PolicyDifference& difference, std::size_t samples) {
  std::string text = fmt::format("{} of {}", difference.flips, samples);
  if (difference.near_flips > 0) text += fmt::format(", {} near", difference.near_flips);
  return text;
}

}  // namespace detail

/// The figures of a comparison as text, for table and page.
inline std::vector<ComparisonRow> comparison_rows(const Comparison& comparison) {
  std::vector<ComparisonRow> rows;
  const auto row = [&](std::string name, const auto& cell) {
    ComparisonRow added{std::move(name), {}};
    for (std::size_t i = 0; i < comparison.runs.size(); ++i)
      added.cells.push_back(cell(comparison.runs[i], i));
    rows.push_back(std::move(added));
  };
  const auto difference_row = [&](std::string name, const auto& cell) {
    if (comparison.reference < 0) return;
    row(std::move(name), [&](const PolicyRun& run, std::size_t i) {
      if (static_cast<std::int64_t>(i) == comparison.reference) return std::string("-");
      return cell(run, comparison.differences[i]);
    });
  };
  row("validation loss",
      [](const PolicyRun& run, auto) { return fmt::format("{:.5f}", run.validation_loss); });
  row("validation accuracy",
      [](const PolicyRun& run, auto) { return fmt::format("{:.2f} %", 100 * run.validation_accuracy); });
  row("last epoch's loss", [](const PolicyRun& run, auto) { return fmt::format("{:.5f}", run.final_loss); });
  difference_row("label flips", [](const PolicyRun& run, const PolicyDifference& difference) {
    return detail::flips_text(difference, run.predictions.size());
  });
  difference_row("largest margin of a flip", [](const PolicyRun&, const PolicyDifference& difference) {
    return difference.margins.empty() ? std::string("-") : fmt::format("{:.4f}", difference.margins.back());
  });
  difference_row("largest logit difference", [](const PolicyRun&, const PolicyDifference& difference) {
    return fmt::format("{:.4f}", difference.largest_logit_difference);
  });
  difference_row("mean logit difference", [](const PolicyRun&, const PolicyDifference& difference) {
    return fmt::format("{:.5f}", difference.mean_logit_difference);
  });
  row("updates", [](const PolicyRun& run, auto) { return fmt::format("{}", run.state.update_number); });
  row("skipped", [](const PolicyRun& run, auto) { return fmt::format("{}", run.state.skipped); });
  row("final loss scale",
      [](const PolicyRun& run, auto) { return fmt::format("{:g}", run.state.scaler.scale); });
  row("samples/s", [](const PolicyRun& run, auto) { return detail::samples_per_second_text(run); });
  row(fmt::format("step of {} samples", comparison.batch_size),
      [](const PolicyRun& run, auto) { return detail::milliseconds(run.step_seconds); });
  if (!comparison.runs.empty() && comparison.runs.front().short_batch > 0) {
    row(fmt::format("last step of an epoch, {} samples", comparison.runs.front().short_batch),
        [](const PolicyRun& run, auto) { return detail::milliseconds(run.short_step_seconds); });
  }
  row("step of the long tail",
      [](const PolicyRun& run, auto) { return detail::milliseconds(run.long_tail_seconds); });
  row("parameters", [](const PolicyRun& run, auto) { return detail::kibibytes(run.memory.parameters()); });
  row("gradients", [](const PolicyRun& run, auto) { return detail::kibibytes(run.memory.gradients); });
  row("optimizer", [](const PolicyRun& run, auto) { return detail::kibibytes(run.memory.moments); });
  row("activations, peak",
      [](const PolicyRun& run, auto) { return detail::kibibytes(run.memory.activations); });
  row("workspace", [](const PolicyRun& run, auto) { return detail::kibibytes(run.memory.workspace); });
  const bool any_stopped = std::any_of(comparison.runs.begin(), comparison.runs.end(),
                                       [](const PolicyRun& run) { return !run.stopped.empty(); });
  if (any_stopped)
    row("stopped early", [](const PolicyRun& run, auto) { return run.stopped.empty() ? "no" : "yes"; });
  return rows;
}

/// A table for a terminal, one column a policy.
inline std::string comparison_table(const Comparison& comparison) {
  constexpr std::size_t narrowest = 12;
  const auto rows = comparison_rows(comparison);
  std::size_t first = 0;
  std::vector<std::size_t> widths;
  for (const PolicyRun& run : comparison.runs) widths.push_back((std::max)(narrowest, run.policy.size()));
  for (const ComparisonRow& row : rows) {
    first = (std::max)(first, row.name.size());
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = (std::max)(widths[i], row.cells[i].size());
  }
  std::string text = fmt::format("{:<{}}", "", first);
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    fmt::format_to(out, "  {:>{}}", comparison.runs[i].policy, widths[i]);
  }
  text += '\n';
  for (const ComparisonRow& row : rows) {
    fmt::format_to(out, "{:<{}}", row.name, first);
    for (std::size_t i = 0; i < widths.size(); ++i) fmt::format_to(out, "  {:>{}}", row.cells[i], widths[i]);
    text += '\n';
  }
  return text;
}

}  // namespace halfstep
