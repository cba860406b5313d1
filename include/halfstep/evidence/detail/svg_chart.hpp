#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <halfstep/numeric/traits.hpp>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep::detail {

/// Text between tags or in an attribute.
inline std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

/// A run's colour: one of six that people with any kind of colour vision tell apart (Okabe and Ito, 2008).
inline const char* color_of(std::size_t run) {
  constexpr const char* colors[] = {"#0072b2", "#e69f00", "#cc79a7", "#009e73", "#d55e00", "#56b4e9"};
  return colors[run % std::size(colors)];
}

/// How a run's line is drawn, so that those below it are seen where lines lie on each other.
inline const char* dashes_of(std::size_t run) {
  return run == 0 ? "" : run == 1 ? " stroke-dasharray=\"6 3\"" : " stroke-dasharray=\"2 3\"";
}

struct ChartPoint {
  double x = 0;
  double y = 0;
};

/// A line with marks on it. Points that are not finite are left out: the line is broken there.
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> line;
  std::vector<ChartPoint> marks;
};

struct Chart {
  std::string title;
  std::string mark_name;  ///< what a mark means; empty if there are none
  bool logarithmic = false;
  bool powers_of_two = false;  ///< ticks of a logarithmic axis
  std::vector<ChartSeries> series;
  std::string x_name = "window";
};

/// Positions of the ticks of an axis from `low` to `high`: about five, at 1, 2 or 5 times a power of ten.
inline std::vector<double> nice_ticks(double low, double high) {
  constexpr int most_ticks = 11;
  const double raw = (high - low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double step = power * (raw / power < 1.5 ? 1 : raw / power < 3.5 ? 2 : raw / power < 7.5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::ceil(low / step) * step;
  // Counted, not added up: beside a large value a small step would change nothing and have no end.
  for (int i = 0; i < most_ticks; ++i) {
    const double tick = first + i * step;
    if (tick <= high + step * 1e-9) ticks.push_back(std::fabs(tick) < step * 1e-9 ? 0 : tick);
  }
  return ticks;
}

/// The same for an axis of decimal logarithms: powers of ten and, over a short range, twice and five times
/// those.
inline std::vector<double> decade_ticks(double low, double high) {
  std::vector<double> ticks;
  for (double decade = std::floor(low); decade <= high; decade += 1) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = decade + std::log10(factor);
      if (tick >= low && tick <= high && (factor == 1.0 || high - low < 2)) ticks.push_back(tick);
    }
  }
  return ticks;
}

/// Lines are thinned to this many points, each the mean of its stretch.
inline std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<ChartPoint> result;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t begin = i * points.size() / most, end = (i + 1) * points.size() / most;
    ChartPoint sum;
    for (std::size_t k = begin; k < end; ++k) sum = {sum.x + points[k].x, sum.y + points[k].y};
    const auto count = static_cast<double>(end - begin);
    result.push_back({sum.x / count, sum.y / count});
  }
  return result;
}

/// Draws a chart as an SVG element.
class SvgChart {
 public:
  explicit SvgChart(const Chart& chart) : chart_(chart) {
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.line) take(point);
      for (const ChartPoint& point : series.marks) take(point);
    }
    if (left_ > right_) {
      left_ = low_ = 0;
      right_ = high_ = 1;
    }
    if (left_ == right_) right_ = left_ + 1;
    if (low_ == high_) {
      low_ -= 1;
      high_ += 1;
    }
    const double room = (high_ - low_) * 0.05;
    low_ -= room;
    high_ += room;
  }

  std::string text() {
    out_ = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", width, height,
                       html_text(chart_.title));
    axes();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw(chart_.series[i], i);
    return out_ + "</svg>\n";
  }

 private:
  static constexpr double width = 560, height = 260;
  static constexpr double margin_left = 64, margin_right = 12, margin_top = 12, margin_bottom = 34;
  /// Two units apart: nearer ones of a restless line would hide its dashes.
  static constexpr std::size_t most_points = 240;

  double value(double y) const {
    if (!chart_.logarithmic) return y;
    return chart_.powers_of_two ? std::log2(y) : std::log10(y);
  }
  bool can_show(const ChartPoint& point) const {
    return is_finite(point.y) && (!chart_.logarithmic || point.y > 0);
  }
  void take(const ChartPoint& point) {
    if (!can_show(point)) return;
    left_ = (std::min)(left_, point.x);
    right_ = (std::max)(right_, point.x);
    low_ = (std::min)(low_, value(point.y));
    high_ = (std::max)(high_, value(point.y));
  }
  double x_of(double x) const {
    return margin_left + (x - left_) / (right_ - left_) * (width - margin_left - margin_right);
  }
  double y_of(double v) const {
    return height - margin_bottom - (v - low_) / (high_ - low_) * (height - margin_top - margin_bottom);
  }

  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }

  std::string label(double v) const {
    if (!chart_.logarithmic) return fmt::format("{:g}", v);
    if (chart_.powers_of_two) return fmt::format("2<tspan dy=\"-5\" font-size=\"9\">{:g}</tspan>", v);
    return fmt::format("{:.3g}", std::pow(10.0, v));
  }

  void axes() {
    const bool decades = chart_.logarithmic && !chart_.powers_of_two;
    for (const double tick : decades ? decade_ticks(low_, high_) : nice_ticks(low_, high_)) {
      if (chart_.powers_of_two && tick != std::floor(tick)) continue;
      const double y = y_of(tick);
      add("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", margin_left,
          width - margin_right, y, y);
      add("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", margin_left - 6, y + 4, label(tick));
    }
    for (const double tick : nice_ticks(left_, right_)) {
      add("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", x_of(tick),
          height - margin_bottom + 16, tick);
    }
    add("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", width - margin_right, height - 4,
        html_text(chart_.x_name));
  }

  void draw(const ChartSeries& series, std::size_t number) {
    std::vector<ChartPoint> stretch;
    const auto flush = [&] {
      if (stretch.empty()) return;
      add("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{} points=\"", color_of(number),
          dashes_of(number));
      for (const ChartPoint& point : thinned(stretch, most_points))
        add("{:.1f},{:.1f} ", x_of(point.x), y_of(value(point.y)));
      out_ += "\"/>\n";
      stretch.clear();
    };
    for (const ChartPoint& point : series.line) {
      if (can_show(point))
        stretch.push_back(point);
      else
        flush();
    }
    flush();
    for (const ChartPoint& mark : series.marks) {
      const double y = can_show(mark) ? y_of(value(mark.y)) : margin_top;
      add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\">"
          "<title>{}: {} at {} {:g}</title></circle>\n",
          x_of(mark.x), y, color_of(number), html_text(series.name), html_text(chart_.mark_name),
          html_text(chart_.x_name), mark.x);
    }
  }

  const Chart& chart_;
  std::string out_;
  double left_ = 1e300, right_ = -1e300, low_ = 1e300, high_ = -1e300;
};

/// One horizontal bar a run, cut into named parts.
struct Bars {
  struct Bar {
    std::string name;
    std::vector<double> parts;
    std::string label;
  };
  std::vector<std::string> part_names;  ///< one or more
  std::vector<Bar> bars;
};

inline std::string svg_bars(const Bars& chart, std::string_view title) {
  constexpr double width = 560, bar_height = 26, gap = 10, name_width = 96, label_width = 96;
  constexpr const char* shades[] = {"#33658a", "#86bbd8", "#f6ae2d", "#b5c99a", "#8d6a9f"};
  double most = 0;
  for (const Bars::Bar& bar : chart.bars) {
    double total = 0;
    for (const double part : bar.parts) total += is_finite(part) ? part : 0;
    most = (std::max)(most, total);
  }
  const double height = (bar_height + gap) * static_cast<double>(chart.bars.size()) + gap;
  std::string text = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", width,
                                 height, html_text(title));
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    const Bars::Bar& bar = chart.bars[i];
    const double y = gap + (bar_height + gap) * static_cast<double>(i);
    double x = name_width;
    fmt::format_to(out, "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", name_width - 8,
                   y + bar_height / 2 + 4, html_text(bar.name));
    for (std::size_t k = 0; k < bar.parts.size(); ++k) {
      if (!is_finite(bar.parts[k]) || most <= 0) continue;
      const double length = bar.parts[k] / most * (width - name_width - label_width);
      const char* fill = chart.part_names.size() == 1 ? color_of(i) : shades[k % std::size(shades)];
      fmt::format_to(out,
                     "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" "
                     "fill=\"{}\"><title>{}</title></rect>\n",
                     x, y, length, bar_height, fill, html_text(chart.part_names[k]));
      x += length;
    }
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 6, y + bar_height / 2 + 4,
                   html_text(bar.label));
  }
  text += "</svg>\n";
  if (chart.part_names.size() > 1) {
    text += "<p class=\"legend\">";
    for (std::size_t k = 0; k < chart.part_names.size(); ++k) {
      fmt::format_to(out, "<span><i style=\"background:{}\"></i>{}</span> ", shades[k % std::size(shades)],
                     html_text(chart.part_names[k]));
    }
    text += "</p>\n";
  }
  return text;
}

}  // namespace halfstep::detail
