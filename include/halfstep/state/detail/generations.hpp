#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <halfstep/state/generations.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace halfstep {
namespace detail {

inline constexpr std::string_view generation_prefix = "generation-";
inline constexpr std::string_view generation_suffix = ".safetensors";
inline constexpr std::size_t generation_digits = 12;
/// Any number up to this has a next one.
inline constexpr std::int64_t largest_generation = 999'999'999'999'999'999;
inline constexpr std::string_view series_key = "halfstep.series";

/// The number in a file's name; none for the name of anything else.
inline std::optional<std::int64_t> generation_number(std::string_view name) {
  if (!name.starts_with(generation_prefix) || !name.ends_with(generation_suffix)) return std::nullopt;
  name.remove_prefix(generation_prefix.size());
  if (name.size() < generation_digits + generation_suffix.size()) return std::nullopt;
  name.remove_suffix(generation_suffix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || name.front() == '-') return std::nullopt;
  // 12 digits, or more without a leading zero: one name for each number.
  if (name.size() > generation_digits && name.front() == '0') return std::nullopt;
  if (number > largest_generation) return std::nullopt;
  return number;
}

/// The number in a text; none where there is none, and for NaN.
inline std::optional<double> parse_metric(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  const auto magnitude = __builtin_bit_cast(std::uint64_t, value) & 0x7fff'ffff'ffff'ffffu;
  return magnitude > 0x7ff0'0000'0000'0000u ? std::nullopt : std::optional(value);
}

inline bool is_there(FileSystem& files, const std::filesystem::path& path) {
  try {
    OpenFile file(files, files.open(path));
    return true;
  } catch (const std::system_error& error) {
    return error.code().value() != ENOENT;
  }
}

}  // namespace detail

inline Generations::Generations(std::filesystem::path folder, GenerationsOptions options, FileSystem& files)
    : folder_(std::move(folder)), options_(std::move(options)), files_(&files) {
  if (folder_.empty()) {
    throw ConfigurationError("generations: the name of the folder is empty; \".\" is the current one");
  }
  if (options_.keep_last < 1) {
    throw ConfigurationError("generations: keep_last is " + std::to_string(options_.keep_last) +
                             "; it must be at least 1, or every save would remove itself");
  }
  if (options_.keep_best && options_.keep_best->metric.empty()) {
    throw ConfigurationError("generations: keep_best needs the name of a metric");
  }
}

inline std::filesystem::path Generations::path_of(std::int64_t number) const {
  const std::string digits = std::to_string(number);
  const std::size_t zeros = detail::generation_digits - (std::min)(digits.size(), detail::generation_digits);
  return folder_ / (std::string(detail::generation_prefix) + std::string(zeros, '0') + digits +
                    std::string(detail::generation_suffix));
}

inline std::filesystem::path Generations::save(std::int64_t number,
                                               const std::function<void(const ByteSink&)>& writer) {
  if (number < 0 || number > detail::largest_generation) {
    throw CheckpointError("generations: the number of a generation is " + std::to_string(number) +
                          "; it must be from 0 to " + std::to_string(detail::largest_generation));
  }
  const std::filesystem::path path = path_of(number);
  make_folder(*files_, folder_);
  publish(*files_, path, writer);
  std::erase(distrusted_, path);
  prune(number);
  return path;
}

inline std::filesystem::path Generations::save(std::int64_t number, std::span<const TensorView> tensors,
                                               const Metadata& metadata, std::optional<double> metric) {
  const Metadata complete = with_series(metric ? with_metric(metadata, *metric) : metadata);
  return save(number, [&](const ByteSink& sink) { safetensors::write(sink, tensors, complete); });
}

inline std::filesystem::path Generations::save(std::int64_t number, const StateFile& file,
                                               std::optional<double> metric) {
  return save(number, std::vector<TensorView>(file.tensors.begin(), file.tensors.end()), file.metadata,
              metric);
}

inline Metadata Generations::with_metric(Metadata metadata, double metric) const {
  if (!options_.keep_best) {
    throw ConfigurationError("generations: a metric is given, but keep_best does not say which one it is");
  }
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, metric).ptr;
  metadata["halfstep.metric." + options_.keep_best->metric] = std::string(digits, end);
  return metadata;
}

inline Metadata Generations::with_series(Metadata metadata) const {
  if (!options_.series.empty()) metadata[std::string(detail::series_key)] = options_.series;
  return metadata;
}

inline void Generations::distrust(const DamagedGeneration& generation) {
  distrusted_.push_back(generation.path);
}

inline std::vector<Generation> Generations::list() const {
  std::vector<Generation> generations;
  try {
    for (const std::string& name : files_->list(folder_)) {
      if (const auto number = detail::generation_number(name))
        generations.push_back({*number, folder_ / name});
    }
  } catch (const std::system_error& error) {
    if (error.code().value() == ENOENT) return {};
    throw CheckpointError("cannot list the generations in " + folder_.string() + ": " + error.what() +
                          "; see that it is a folder and that this process may read it");
  }
  std::sort(generations.begin(), generations.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return generations;
}

inline Generations::Comparison Generations::compare() const {
  Comparison comparison;
  if (!options_.keep_best) return comparison;
  const std::string key = "halfstep.metric." + options_.keep_best->metric;
  const bool smallest = options_.keep_best->direction == KeepBest::Direction::smallest;
  double best_value = 0.0;
  for (Generation& generation : list()) {
    try {
      const detail::OpenFile file(*files_, files_->open(generation.path));
      const Metadata metadata = safetensors::detail::read_header_of(*files_, file.get(), {}).metadata;
      const auto text = metadata.find(key);
      const auto value = text == metadata.end() ? std::nullopt : detail::parse_metric(text->second);
      // Of equals the oldest stays.
      const auto is_better = [&] { return smallest ? *value < best_value : *value > best_value; };
      if (!value || (comparison.best && !is_better())) continue;
      comparison.best = std::move(generation);
      best_value = *value;
    } catch (const safetensors::detail::Unsound&) {
    } catch (const std::system_error&) {
      comparison.unknown.push_back(generation.number);
    }
  }
  return comparison;
}

inline std::optional<Generation> Generations::best() const { return compare().best; }

inline Generations::Header Generations::header_of(const Generation& generation) const {
  try {
    const detail::OpenFile file(*files_, files_->open(generation.path));
    const Metadata metadata = safetensors::detail::read_header_of(*files_, file.get(), {}).metadata;
    const auto series = metadata.find(std::string(detail::series_key));
    const bool distrusted =
        std::find(distrusted_.begin(), distrusted_.end(), generation.path) != distrusted_.end();
    return {!distrusted, options_.series.empty() ||
                             (series != metadata.end() && series->second == options_.series)};
  } catch (const safetensors::detail::Unsound&) {
  } catch (const std::system_error&) {
  }
  // Nobody knows whose it is.
  return {false, options_.series.empty()};
}

/// Of all generations those that are older than the last keep_last sound ones.
inline std::vector<Generation> Generations::superfluous() const {
  std::vector<Generation> older = list();
  if (static_cast<std::int64_t>(older.size()) <= options_.keep_last) return {};
  for (std::int64_t newer = 0; newer < options_.keep_last && !older.empty(); older.pop_back()) {
    const Header header = header_of(older.back());
    if (header.sound && header.of_the_series) ++newer;
  }
  if (!options_.series.empty()) {
    std::erase_if(older, [&](const Generation& generation) { return !header_of(generation).of_the_series; });
  }
  return older;
}

inline void Generations::prune(std::int64_t just_saved) const {
  try {
    const std::vector<Generation> generations = superfluous();
    if (generations.empty()) return;
    const Comparison comparison = compare();
    std::vector<std::int64_t> kept = comparison.unknown;
    kept.push_back(just_saved);
    if (comparison.best) kept.push_back(comparison.best->number);
    for (const Generation& generation : generations) {
      if (std::find(kept.begin(), kept.end(), generation.number) != kept.end()) continue;
      try {
        files_->unlink(generation.path);
      } catch (const std::system_error&) {
        // It is tried again after the next save.
      }
    }
  } catch (const CheckpointError&) {
    // The folder could not be listed.
  }
}

namespace detail {

/// Tries `load` on one generation after the other, the newest first, until one does not throw
/// CheckpointError.
template <class Result, class Load>
std::optional<Result> newest_sound(const Generations& generations, FileSystem& files, const Load& load) {
  // One that another process has replaced by newer ones is not damaged: look again.
  constexpr int attempts = 100;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const std::vector<Generation> there = generations.list();
    Result result;
    bool vanished = false;
    for (auto generation = there.rbegin(); generation != there.rend(); ++generation) {
      try {
        result.number = generation->number;
        result.path = generation->path;
        load(result);
        return result;
      } catch (const CheckpointError& error) {
        vanished = vanished || !is_there(files, generation->path);
        result.skipped.push_back({generation->path, error.what()});
      }
    }
    if (there.empty()) return std::nullopt;
    if (!vanished) {
      std::string message = "no generation in " + generations.folder().string() + " can be loaded:";
      for (const DamagedGeneration& damaged : result.skipped) message += "\n  " + damaged.why;
      throw CheckpointError(message);
    }
  }
  throw CheckpointError("the generations in " + generations.folder().string() +
                        " are removed faster than they can be read");
}

}  // namespace detail

inline std::optional<LatestGeneration> Generations::latest() const {
  return detail::newest_sound<LatestGeneration>(*this, *files_, [&](LatestGeneration& generation) {
    safetensors::Reader(generation.path, {}, *files_).verify();
  });
}

inline std::optional<LoadedGeneration> Generations::load_latest() const {
  return detail::newest_sound<LoadedGeneration>(*this, *files_, [&](LoadedGeneration& generation) {
    generation.file = safetensors::read(generation.path, {}, *files_);
  });
}

}  // namespace halfstep
