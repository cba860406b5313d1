#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <halfstep/data/file.hpp>
#include <halfstep/error.hpp>
#include <halfstep/numeric/traits.hpp>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace halfstep::detail {

struct CsvContent {
  std::string header;
  std::int64_t columns = 0;
  std::vector<float> values;
};

inline std::string_view without_blanks(std::string_view text, char separator) {
  const auto blank = [separator](char c) { return (c == ' ' || c == '\t') && c != separator; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Calls function(place from 0, text) for every field of a line.
template <class Function>
void for_each_csv_field(std::string_view line, char separator, const Function& function) {
  for (std::int64_t field = 0;; ++field) {
    const std::size_t end = line.find(separator);
    function(field, without_blanks(line.substr(0, end), separator));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

/// Reads CSV text in two passes: the first holds the rows against each other, so that the second knows how
/// many numbers come.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name, char separator, bool header)
      : name_(name), separator_(separator), has_header_(header), text_(text) {
    if (std::string_view("0123456789+-.eE\"\r\n").find(separator) != std::string_view::npos) {
      throw ConfigurationError("csv: the separator is " + quoted({&separator, 1}) +
                               ", which is part of a number or of a line; use a comma, a semicolon, a tab");
    }
    // What spreadsheets put before UTF-8.
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  CsvContent read() {
    CsvContent content;
    std::string_view line;
    if (has_header_ && next_line(line)) {
      content.header = line;
      content.columns = count_fields(line);
      for_each_csv_field(line, separator_,
                         [this](std::int64_t field, std::string_view text) { refuse_quotes(field, text); });
    }
    const std::string_view body = text_;
    const std::int64_t lines_before = line_;
    const std::int64_t rows = count_rows(content.columns);
    // A field and what separates it are two characters at least, so this is no more than twice the text's
    // size.
    content.values.reserve((std::min)(static_cast<std::size_t>(rows * content.columns), body.size() / 2 + 1));
    text_ = body;
    line_ = lines_before;
    while (next_line(line)) {
      for_each_csv_field(line, separator_, [&](std::int64_t field, std::string_view text) {
        content.values.push_back(number(field, text));
      });
    }
    return content;
  }

 private:
  std::int64_t count_rows(std::int64_t& columns) {
    std::int64_t rows = 0;
    for (std::string_view line; next_line(line); ++rows) {
      const std::int64_t fields = count_fields(line);
      if (columns == 0) columns = fields;
      if (fields != columns) {
        fail(std::to_string(fields) + " fields, but the first line has " + std::to_string(columns));
      }
    }
    if (rows == 0) throw Error(name_ + ": holds no row of numbers");
    return rows;
  }

  /// The next line that is not empty; false at the end.
  bool next_line(std::string_view& line) {
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!without_blanks(line, separator_).empty()) return true;
    }
    return false;
  }

  std::int64_t count_fields(std::string_view line) const {
    return static_cast<std::int64_t>(std::count(line.begin(), line.end(), separator_)) + 1;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(name_ + ":" + std::to_string(line_) + ": " + what);
  }
  [[noreturn]] void fail(std::int64_t field, std::string_view text, const std::string& what) const {
    fail("field " + std::to_string(field + 1) + " is " + quoted(text) + ", " + what);
  }

  void refuse_quotes(std::int64_t field, std::string_view text) const {
    if (text.find('"') != std::string_view::npos) {
      fail(field, text, "but quotation marks are not read; write the fields without them");
    }
  }

  float number(std::int64_t field, std::string_view text) const {
    if (text.empty())
      fail("field " + std::to_string(field + 1) + " is empty; every field must hold a number");
    refuse_quotes(field, text);
    const std::string_view digits = text.starts_with('+') && !text.starts_with("+-") ? text.substr(1) : text;
    const char* const last = digits.data() + digits.size();
    float value = 0;
    const auto [end, problem] = std::from_chars(digits.data(), last, value);
    if (problem == std::errc::invalid_argument || end != last) {
      const bool may_be_header = line_ == 1 && !has_header_;
      fail(field, text,
           std::string("not a number") +
               (may_be_header ? "; if the first line names the columns, set .header = true" : ""));
    }
    if (problem == std::errc::result_out_of_range) {
      // Too large, or too small: a stream tells them apart, and rounds the small ones to a subnormal or zero.
      std::istringstream stream{std::string(digits)};
      stream.imbue(std::locale::classic());
      if (!(stream >> value)) fail(field, text, "more than a float holds");
      return value;
    }
    if (!is_finite(value)) fail(field, text, "not a finite number");
    return value;
  }

  const std::string& name_;
  char separator_;
  bool has_header_;
  std::string_view text_;
  std::int64_t line_ = 0;
};

}  // namespace halfstep::detail
