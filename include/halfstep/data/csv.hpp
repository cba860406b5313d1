#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/data/array_dataset.hpp>
#include <halfstep/data/detail/csv_reader.hpp>
#include <halfstep/data/file.hpp>
#include <halfstep/error.hpp>
#include <halfstep/tensor/shape.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfstep {

struct CsvOptions {
  /// Whether the first line that is not empty names the columns.
  bool header = false;
  char separator = ',';
};

/// The numbers of a CSV file: rows of as many fields each.
class CsvTable {
 public:
  std::int64_t rows() const { return static_cast<std::int64_t>(content_.values.size()) / content_.columns; }
  std::int64_t columns() const { return content_.columns; }
  /// [rows, columns]
  Tensor<const float> values() const { return {content_.values.data(), {rows(), content_.columns}}; }

  /// The columns' names; empty without a header.
  std::vector<std::string> names() const;
  /// The place of the column of that name. Throws ConfigurationError unless there is one, and only one.
  std::int64_t column(std::string_view name) const;

  /// All columns as features.
  ArrayDataset<float> dataset(const Normalization& normalization = {}) const {
    return {Shape{content_.columns}, features(content_.columns, normalization)};
  }
  /// One column as labels, whole numbers unless Label is a floating type, and the others as features. A
  /// negative number counts columns from the end: -1 is the last. Throws ConfigurationError for a column that
  /// is not there, Error with the row for a label that Label does not hold or that a float does not hold
  /// exactly.
  template <NumberType Label = std::int32_t>
  ArrayDataset<float, Label> dataset(std::int64_t label_column,
                                     const Normalization& normalization = {}) const;
  template <NumberType Label = std::int32_t>
  ArrayDataset<float, Label> dataset(std::string_view label_column,
                                     const Normalization& normalization = {}) const {
    return dataset<Label>(column(label_column), normalization);
  }

 private:
  friend CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options);
  CsvTable(std::string name, char separator, detail::CsvContent content)
      : name_(std::move(name)), separator_(separator), content_(std::move(content)) {}

  std::vector<float> features(std::int64_t without_column, const Normalization& normalization) const;

  std::string name_;
  char separator_;
  detail::CsvContent content_;
};

/// Reads a file of numbers: one row a line, ended by LF or CR LF, empty lines left out; fields apart by the
/// separator, spaces around them left out; decimal numbers with or without an exponent, finite, rounded to
/// the nearest float. Throws Error, with the line, for anything else: text, missing values, quotation marks,
/// a row of another length.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

/// The same for text in memory; `name` stands for the file in messages.
CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options = {});

inline CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options) {
  return {name, options.separator, detail::CsvReader(text, name, options.separator, options.header).read()};
}

inline CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const std::vector<std::byte> bytes = detail::read_file(path);
  return parse_csv(detail::text_of(bytes), path.string(), options);
}

inline std::vector<std::string> CsvTable::names() const {
  std::vector<std::string> names;
  if (content_.header.empty()) return names;
  detail::for_each_csv_field(content_.header, separator_,
                             [&](std::int64_t, std::string_view text) { names.emplace_back(text); });
  return names;
}

inline std::int64_t CsvTable::column(std::string_view name) const {
  std::int64_t found = -1, count = 0;
  if (!content_.header.empty()) {
    detail::for_each_csv_field(content_.header, separator_, [&](std::int64_t field, std::string_view text) {
      if (text != name) return;
      found = field;
      ++count;
    });
  }
  if (count != 1) {
    throw ConfigurationError(
        name_ + ": " + (count == 0 ? "no column is" : std::to_string(count) + " columns are") + " called " +
        detail::quoted(name) +
        (content_.header.empty() ? "; the file was read without .header = true"
                                 : "; the header is " + detail::quoted(content_.header)));
  }
  return found;
}

inline std::vector<float> CsvTable::features(std::int64_t without_column,
                                             const Normalization& normalization) const {
  std::vector<float> features;
  features.reserve(content_.values.size());
  for (std::size_t i = 0; i < content_.values.size(); ++i) {
    if (static_cast<std::int64_t>(i) % content_.columns != without_column)
      features.push_back(content_.values[i]);
  }
  normalization.apply(features);
  return features;
}

template <NumberType Label>
ArrayDataset<float, Label> CsvTable::dataset(std::int64_t label_column,
                                             const Normalization& normalization) const {
  const std::int64_t column = label_column < 0 ? label_column + content_.columns : label_column;
  if (column < 0 || column >= content_.columns || content_.columns == 1) {
    throw ConfigurationError(name_ + ": column " + std::to_string(label_column) +
                             " cannot be the label of features in " + std::to_string(content_.columns) +
                             " columns");
  }
  // From there on neighbouring whole numbers are the same float.
  constexpr float largest_whole = 16777216.0f;
  std::vector<Label> labels;
  labels.reserve(static_cast<std::size_t>(rows()));
  for (std::int64_t row = 0; row < rows(); ++row) {
    const float value = content_.values[static_cast<std::size_t>(row * content_.columns + column)];
    if (std::integral<Label> && (!detail::holds_value<Label>(value) || std::fabs(value) >= largest_whole)) {
      throw Error(name_ + ": row " + std::to_string(row) + " has the label " +
                  detail::number_in_message(value) + "; a label must be a whole number that fits its type");
    }
    labels.push_back(static_cast<Label>(value));
  }
  return ArrayDataset<float, Label>(Shape{content_.columns - 1}, features(column, normalization),
                                    std::move(labels));
}

}  // namespace halfstep
