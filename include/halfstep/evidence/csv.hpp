#pragma once

#include <cstdint>
#include <filesystem>
#include <halfstep/evidence/log_file.hpp>
#include <halfstep/evidence/number_text.hpp>
#include <halfstep/evidence/report_fields.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace halfstep {

namespace detail {

/// A field of a CSV file, quoted where it must be (RFC 4180).
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

/// The names of all fields (`names`), or their values.
inline std::string csv_line(const StepReport& report, bool names) {
  std::string line;
  for_each_field(report, [&](const char* name, const auto& value) {
    if (!line.empty()) line += ',';
    if (names) {
      line += name;
    } else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::string_view>) {
      line += csv_field(value);
    } else if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(value)>>) {
      line += halfstep::number_text(value);
    } else {
      line += std::to_string(value);
    }
  });
  return line + '\n';
}

}  // namespace detail

/// A log of comma-separated values: a line of names, then a line a window. Numbers that are not finite are
/// NaN, Infinity and -Infinity. An existing file is continued. Constructing it throws Error for a path that
/// cannot be opened; writing never throws, see LogFile.
class CsvSink {
 public:
  explicit CsvSink(std::filesystem::path path, LogNotice notice = notify_on_standard_error)
      : file_(std::move(path), {.header = detail::csv_line({}, true), .lines = true, .notice = std::move(notice)}) {}

  void write(const StepReport& report) { file_.write(detail::csv_line(report, false)); }
  std::int64_t lost() const { return file_.lost(); }

 private:
  LogFile file_;
};

}  // namespace halfstep
