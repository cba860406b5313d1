#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/evidence/comparison_table.hpp>
#include <halfstep/evidence/detail/svg_chart.hpp>
#include <halfstep/state/publish.hpp>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace halfstep {

namespace detail {

inline constexpr const char* page_style = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 1180px; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
h2 { font-size: 1.05rem; margin: 0 0 .4rem; }
.wide { overflow-x: auto; margin: 1rem 0 2rem; }
table { border-collapse: collapse; }
th, td { padding: .25rem .9rem; text-align: right; border-bottom: 1px solid #ddd; }
td { font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 1.6rem; }
svg { width: 100%; height: auto; }
.legend svg { width: 1.9rem; height: .8rem; margin-right: .4rem; vertical-align: -1px; }
svg text { font: 11px system-ui, sans-serif; fill: #444; }
.grid { stroke: #e5e5e5; }
.legend span { margin-right: 1.2rem; white-space: nowrap; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; border-radius: 2px;
            vertical-align: -1px; }
div > div > section + section { margin-top: 1.6rem; }
.note { color: #555; margin-top: .2rem; }
.pass { color: #00692e; }
.fail { color: #a4161a; }
)";

template <class Value, class Marked, class MarkAt>
Chart chart_of(const Comparison& comparison, std::string title, std::string mark_name, const Value& value,
               const Marked& marked, const MarkAt& mark_at) {
  Chart chart{std::move(title), std::move(mark_name), false, false, {}};
  for (const PolicyRun& run : comparison.runs) {
    ChartSeries series{run.policy, {}, {}};
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      const StepReport& step = run.steps[i];
      const auto x = static_cast<double>(step.attempts);
      series.line.push_back({x, value(run, i)});
      if (marked(step)) series.marks.push_back({x, mark_at(step)});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

inline bool is_skipped(const StepReport& step) { return step.outcome == Outcome::skipped; }
inline double top_of_chart(const StepReport&) { return std::numeric_limits<double>::infinity(); }

inline Chart loss_chart(const Comparison& comparison) {
  const auto loss = [](const PolicyRun& run, std::size_t i) {
    return run.steps[i].applied() ? run.steps[i].loss : std::numeric_limits<double>::quiet_NaN();
  };
  Chart chart = chart_of(comparison, "Loss of applied windows", "skipped", loss, is_skipped, top_of_chart);
  chart.logarithmic = true;
  return chart;
}

inline Chart scale_chart(const Comparison& comparison) {
  const auto scale = [](const PolicyRun& run, std::size_t i) {
    return static_cast<double>(run.steps[i].scale);
  };
  const auto here = [](const StepReport& step) { return static_cast<double>(step.scale); };
  Chart chart = chart_of(comparison, "Loss scale", "skipped", scale, is_skipped, here);
  chart.logarithmic = chart.powers_of_two = true;
  return chart;
}

inline Chart norm_chart(const Comparison& comparison) {
  const auto norm = [](const PolicyRun& run, std::size_t i) { return run.steps[i].gradient_norm; };
  const auto here = [](const StepReport& step) { return step.gradient_norm; };
  const auto clipped = [](const StepReport& step) { return step.applied() && step.clip_coefficient < 1; };
  return chart_of(comparison, "Gradient norm before clipping", "clipped", norm, clipped, here);
}

inline Bars throughput_bars(const Comparison& comparison) {
  Bars bars{{"samples/s"}, {}};
  for (const PolicyRun& run : comparison.runs) {
    bars.bars.push_back(
        {run.policy, {run.samples_per_second}, samples_per_second_text(run) + "/s"});
  }
  return bars;
}

inline Bars memory_bars(const Comparison& comparison) {
  Bars bars{{"parameters", "gradients", "optimizer", "activations, peak", "workspace"}, {}};
  for (const PolicyRun& run : comparison.runs) {
    const MemoryUse& use = run.memory;
    Bars::Bar bar{run.policy, {}, ""};
    std::int64_t total = 0;
    for (const std::int64_t part :
         {use.parameters(), use.gradients, use.moments, use.activations, use.workspace}) {
      bar.parts.push_back(static_cast<double>(part));
      total += part;
    }
    bar.label = kibibytes(total);
    bars.bars.push_back(std::move(bar));
  }
  return bars;
}

inline std::string html_table(const Comparison& comparison) {
  std::string text = "<div class=\"wide\"><table>\n<tr><th></th>";
  for (const PolicyRun& run : comparison.runs) text += "<th>" + html_text(run.policy) + "</th>";
  text += "</tr>\n";
  for (const ComparisonRow& row : comparison_rows(comparison)) {
    text += "<tr><td>" + html_text(row.name) + "</td>";
    for (const std::string& cell : row.cells) text += "<td>" + html_text(cell) + "</td>";
    text += "</tr>\n";
  }
  text += "</table></div>\n";
  for (const PolicyDifference& difference : comparison.differences) {
    if (difference.near_flips == 0) continue;
    return text + fmt::format("<p class=\"note\">Near flips: of samples whose label {} itself prefers by a "
                              "margin of at most {:g}.</p>\n",
                              html_text(comparison.runs[static_cast<std::size_t>(comparison.reference)].policy),
                              comparison.margin_tolerance);
  }
  return text;
}

inline std::string html_legend(const Comparison& comparison) {
  std::string text = "<p class=\"legend\">";
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    text += fmt::format("<span><svg viewBox=\"0 0 28 12\"><line x1=\"0\" x2=\"28\" y1=\"6\" y2=\"6\" stroke=\"{}\" "
                        "stroke-width=\"4\"{}/></svg>{}</span> ",
                        color_of(i), dashes_of(i), html_text(comparison.runs[i].policy));
  }
  return text + "</p>\n<p class=\"note\">Lines that agree lie on each other. A point of a long line is the mean of "
                "several windows.</p>\n";
}

inline std::string section(const std::string& title, const std::string& note, const std::string& figure) {
  return "<section><h2>" + html_text(title) + "</h2>\n" + figure +
         (note.empty() ? "" : "<p class=\"note\">" + html_text(note) + "</p>") + "</section>\n";
}

}  // namespace detail

/// A comparison as one HTML page that needs nothing besides itself: no script, no network. `faults`, if
/// given, is what a gate said; see comparison_gate.hpp.
inline std::string comparison_page(const Comparison& comparison,
                                   const std::vector<std::string>* faults = nullptr) {
  using namespace detail;
  std::string text =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>Policies compared</title><style>";
  text += page_style;
  text += "</style></head><body>\n<h1>Policies compared</h1>\n";
  text += fmt::format(
      "<p class=\"note\">Seed {}, {} epochs in batches of {}; the same order of samples, the same "
      "validation set of {} samples.</p>\n",
      comparison.seed, comparison.epochs, comparison.batch_size,
      comparison.runs.empty() ? 0 : comparison.runs.front().predictions.size());
  if (faults != nullptr && faults->empty()) text += "<p class=\"pass\">Every limit is kept.</p>\n";
  if (faults != nullptr) {
    for (const std::string& fault : *faults) text += "<p class=\"fail\">" + html_text(fault) + "</p>\n";
  }
  text += html_table(comparison);
  text += html_legend(comparison) + "<div class=\"charts\">\n";
  const auto add = [&](const Chart& chart, const std::string& note) {
    text += section(chart.title, note, SvgChart(chart).text());
  };
  add(loss_chart(comparison),
      "A circle at the top: a window that was skipped, whose loss is no part of the line.");
  add(scale_chart(comparison), "A circle: a window that was skipped at this scale.");
  add(norm_chart(comparison),
      "A circle: a norm that was clipped. The line is broken where a norm is not finite.");
  text += "<div>" + section("Throughput", "Samples of all timed steps, skipped ones too, over their time.",
                  svg_bars(throughput_bars(comparison), "Throughput"));
  text += section("Memory", "", svg_bars(memory_bars(comparison), "Memory")) + "</div>";
  return text + "</div>\n</body></html>\n";
}

/// Writes text to a file, all or nothing. Throws CheckpointError, as `publish` does.
inline void write_text(const std::filesystem::path& path, const std::string& text) {
  publish(system_files(), path, [&](const ByteSink& sink) { sink(std::as_bytes(std::span(text))); });
}

}  // namespace halfstep
