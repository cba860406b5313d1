#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <halfstep/error.hpp>
#include <halfstep/state/file_system.hpp>
#include <halfstep/state/publish.hpp>
#include <halfstep/state/safetensors.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace halfstep {

/// Which generation is the best one, and so is kept however old it is.
struct KeepBest {
  std::string metric;  ///< its name: only generations saved with this one are compared
  enum class Direction { smallest, largest } direction = Direction::smallest;
};

struct GenerationsOptions {
  /// How many of the newest generations stay; at least 1. With 1, nothing is left to fall back on if the disk
  /// damages the only one.
  /// Damaged ones do not count: a generation stays until this many newer sound ones are there.
  std::int64_t keep_last = 2;
  std::optional<KeepBest> keep_best = std::nullopt;
  /// Count and remove only generations of this series, which every save of it is marked with; others in the
  /// folder are not its to remove. Empty: all generations.
  std::string series = {};
};

struct Generation {
  std::int64_t number = 0;
  std::filesystem::path path;
};

/// A generation that cannot be read, and why.
struct DamagedGeneration {
  std::filesystem::path path;
  std::string why;
};

struct LatestGeneration {
  std::int64_t number = 0;
  std::filesystem::path path;
  /// Newer generations that were passed over, newest first. Whoever resumes should tell: work is lost.
  std::vector<DamagedGeneration> skipped;
};

struct LoadedGeneration : LatestGeneration {
  StateFile file;
};

/// The saved states of one run, in a folder of its own: generation-000000000100.safetensors, ... A larger
/// number is a newer generation.
///
/// At any instant, and after a crash at any instant, the folder holds complete generations, and besides them
/// at most temporaries, which the next save removes. Two processes may use one folder.
///
/// All functions throw CheckpointError; a save that fails leaves every generation as it was.
class Generations {
 public:
  /// Touches nothing: the folder is created by the first save. Throws ConfigurationError for keep_last below
  /// 1 and a metric without a name.
  explicit Generations(std::filesystem::path folder, GenerationsOptions options = {},
                       FileSystem& files = system_files());

  /// Publishes generation `number`, in place of one of the same number; then removes the generations that are
  /// older than the last keep_last sound ones, and neither the best nor this one. Sound is here one whose
  /// header is, and that `distrust` has not named. `metric` is what keep_best compares; NaN is never the best. A generation without metric counts as not compared. That a superfluous generation could
  /// not be removed is no failure of the save. Returns its path.
  std::filesystem::path save(std::int64_t number, std::span<const TensorView> tensors,
                             const Metadata& metadata = {}, std::optional<double> metric = std::nullopt);
  std::filesystem::path save(std::int64_t number, const StateFile& file,
                             std::optional<double> metric = std::nullopt);
  /// The same with bytes that `writer` makes. Metric and series go into the metadata that it writes: see
  /// `with_metric` and `with_series`.
  std::filesystem::path save(std::int64_t number, const std::function<void(const ByteSink&)>& writer);

  /// The metadata with the metric in it, as a generation carries it: {"halfstep.metric.<name>": "<value>"}.
  /// Throws ConfigurationError where no keep_best names the metric.
  Metadata with_metric(Metadata metadata, double metric) const;

  /// The metadata with the series in it, {"halfstep.series": "<series>"}; unchanged without one.
  Metadata with_series(Metadata metadata) const;

  /// This generation is known to be damaged, though its header may be sound: it is not counted among the last
  /// until it is saved anew. For what `latest` and `load_latest` have skipped.
  void distrust(const DamagedGeneration& generation);

  /// All generations there are, oldest first, damaged ones too.
  std::vector<Generation> list() const;
  /// The best by the metric, of those whose header can be read; none without keep_best or metrics.
  std::optional<Generation> best() const;

  /// The newest generation that reads completely and passes its checksums. None where the folder has no
  /// generation at all; CheckpointError, with every reason, where it has some and all are damaged.
  std::optional<LatestGeneration> latest() const;
  /// The same with what it holds, read once.
  std::optional<LoadedGeneration> load_latest() const;

  std::filesystem::path path_of(std::int64_t number) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  struct Comparison {
    std::optional<Generation> best;
    std::vector<std::int64_t> unknown;  ///< could not be read this time, and so might be the best
  };
  Comparison compare() const;
  struct Header {
    bool sound = false;
    bool of_the_series = false;
  };
  Header header_of(const Generation& generation) const;
  std::vector<Generation> superfluous() const;
  void prune(std::int64_t just_saved) const;

  std::filesystem::path folder_;
  GenerationsOptions options_;
  FileSystem* files_;
  std::vector<std::filesystem::path> distrusted_;
};

}  // namespace halfstep

#include <halfstep/state/detail/generations.hpp>
