#pragma once

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace halfstep::detail {

/// To the line's beginning, and what stands there is gone (ECMA-48: CR, EL).
inline constexpr std::string_view erase_line = "\r\x1b[K";

/// A terminal, and not one that says it is dumb.
inline bool can_redraw(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(stream)) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

inline int columns_of(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

inline std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// One line shorter than the terminal is wide. A `total` of 0, or one that was passed, leaves the bar and the
/// time that is left out.
inline std::string progress_bar(std::int64_t done, std::int64_t total, std::int64_t samples, double seconds,
                                int columns) {
  const double rate = seconds > 0 ? static_cast<double>(samples) / seconds : 0;
  std::string facts = fmt::format(" {}", done);
  if (total > 0) facts += fmt::format("/{}", total);
  facts += fmt::format("  {:.0f} samples/s  {}", rate, clock_text(seconds));
  const auto room = static_cast<std::size_t>((std::max)(columns - 1, 0));
  if (total > 0 && done <= total) {
    const double share = static_cast<double>(done) / static_cast<double>(total);
    if (done > 0) facts += fmt::format(", {} left", clock_text(seconds / share * (1 - share)));
    constexpr std::size_t widest = 40, narrowest = 8;
    if (room >= facts.size() + narrowest + 2) {
      const std::size_t width = (std::min)(widest, room - facts.size() - 2);
      const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
      facts = "[" + std::string(full, '=') + std::string(width - full, ' ') + "]" + facts;
    }
  }
  return facts.substr(0, room);
}

}  // namespace halfstep::detail
