#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <halfstep/state/capture.hpp>
#include <halfstep/state/generations.hpp>
#include <halfstep/state/detail/staged_tensors.hpp>
#include <halfstep/state/restore.hpp>

namespace halfstep {

struct CheckpointsOptions {
  /// How many of the newest generations stay, damaged ones not counted.
  std::int64_t keep_last = 2;
  /// The generation that stays beside them, by a metric that `save` is given.
  std::optional<KeepBest> keep_best = std::nullopt;
  /// Write in another thread. A save takes its copy of the trainer and returns; the next one waits for it.
  bool background = false;
};

/// What a run went on from.
struct Resumed : Restored {
  std::int64_t generation = 0;
  std::filesystem::path path;
  /// Newer generations that could not be read. Tell the user: work is lost.
  std::vector<DamagedGeneration> skipped;
};

namespace detail {

inline std::int64_t next_number(const Generations& generations) {
  const auto all = generations.list();
  return all.empty() ? 1 : all.back().number + 1;
}

/// A file is sound, and not what the trainer can go on from.
struct DoesNotFit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Restores from one file. Throws CheckpointError where it is damaged, DoesNotFit where it is sound and does not fit;
/// the trainer is then as it was.
template <class Trainer, class Restore>
Restored restore_file(const std::filesystem::path& path, FileSystem& files, const Restore& restore_from) {
  if constexpr (TrainerTraits<Trainer>::Device::shares_host_memory) {
    OutlineReader reader(path, files);
    try {
      return restore_from(reader.outline(), &reader);
    } catch (const DamagedFile&) {
      throw;
    } catch (const CheckpointError& error) {
      reader.verify();
      throw DoesNotFit(error.what());
    }
  } else {
    const StateFile file = safetensors::read(path, {}, files);
    try {
      return restore_from(file, nullptr);
    } catch (const CheckpointError& error) {
      throw DoesNotFit(error.what());
    }
  }
}

/// What a run would be resumed from now must not be removed for the sake of newer ones that are damaged.
inline void distrust_damaged(Generations& generations) {
  const auto all = generations.list();
  if (all.size() < 2) return;  // nothing will be removed
  for (auto newest = all.rbegin(); newest != all.rend(); ++newest) {
    try {
      safetensors::Reader(newest->path).verify();
      return;
    } catch (const CheckpointError& error) {
      generations.distrust({newest->path, error.what()});
    }
  }
}

}  // namespace detail

/// The checkpoints of one run in a folder of its own, each one coherent generation: published whole or not at all,
/// whatever kills the process or fills the disk. Throws CheckpointError where a save fails; the generations before it
/// are untouched, and training and saving can go on. With `background`, the error of a save comes out of the next
/// call to save, wait or resume.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder, CheckpointsOptions options = {},
                       FileSystem& files = system_files())
      : generations_(std::move(folder), {options.keep_last, std::move(options.keep_best)}, files),
        files_(&files),
        background_(options.background) {}
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  /// Waits for a save under way. Call `wait` before to hear whether it succeeded.
  ~Checkpoints() {
    if (writing_.valid()) writing_.wait();
  }

  /// Publishes the trainer's state as the next generation. `metric` is what keep_best compares.
  template <class Trainer>
  void save(const Trainer& trainer, const CaptureOptions& options = {}, std::optional<double> metric = std::nullopt) {
    wait();
    const std::int64_t number = detail::next_number(generations_);
    if (!background_) {
      const detail::CapturedParts parts = detail::capture_parts(trainer, options);
      generations_.save(number, parts.tensors, parts.metadata, metric);
      return;
    }
    StateFile file = capture(trainer, options);
    try {
      writing_ = std::async(std::launch::async, [this, number, metric, snapshot = std::move(file)] {
        generations_.save(number, snapshot, metric);
      });
    } catch (const std::system_error& error) {
      throw CheckpointError(std::string("no thread for saving in the background: ") + error.what() +
                            "; nothing was saved, the generations before are untouched");
    }
  }

  /// Waits until the save under way is published. Throws its error.
  void wait() {
    if (writing_.valid()) writing_.get();
  }

  /// Puts the trainer where the newest sound generation says; none, and the trainer as it is, where the folder has
  /// none. Throws CheckpointError as `restore`, and where all generations are damaged. The generation stays until
  /// keep_last newer ones were saved: those that were passed over as damaged do not count.
  template <class Trainer>
  std::optional<Resumed> resume(Trainer& trainer) {
    return resume_with<Trainer>([&](const StateFile& file, detail::OutlineReader* reader) {
      return detail::restore_from(trainer, file, reader);
    });
  }
  /// The same for a run of another policy or optimizer; see restore_as.
  template <class Trainer>
  std::optional<Resumed> resume_as(Trainer& trainer, RestoreAs options = {}) {
    return resume_with<Trainer>([&](const StateFile& file, detail::OutlineReader* reader) {
      return detail::restore_as_from(trainer, file, reader, options);
    });
  }

  const Generations& generations() const { return generations_; }

 private:
  template <class Trainer, class Restore>
  std::optional<Resumed> resume_with(const Restore& restore_from) {
    wait();
    struct Taken : LatestGeneration {
      std::optional<Restored> restored;
      std::string misfit;  ///< why it was not taken, though it is sound
    };
    auto taken = detail::newest_sound<Taken>(generations_, *files_, [&](Taken& generation) {
      try {
        generation.restored = detail::restore_file<Trainer>(generation.path, *files_, restore_from);
      } catch (const detail::DoesNotFit& error) {
        generation.misfit = error.what();
      }
    });
    if (!taken) return std::nullopt;
    for (const DamagedGeneration& damaged : taken->skipped) generations_.distrust(damaged);
    if (!taken->restored) throw CheckpointError(taken->path.string() + ": " + taken->misfit);
    return Resumed{std::move(*taken->restored), taken->number, std::move(taken->path), std::move(taken->skipped)};
  }

  Generations generations_;
  FileSystem* files_;
  bool background_;
  std::future<void> writing_;
};

/// What `trainer.save(folder)` does: publishes the next generation and keeps two, that one and the one before, of those
/// that were saved by this function. Generations that a `Checkpoints` object saved there are neither counted nor
/// removed: how many of them stay was its options' to say. Reads the generation before once, to see whether it counts;
/// a `Checkpoints` object that lives as long as the run has no need to.
template <class Trainer>
void save_checkpoint(const Trainer& trainer, const std::filesystem::path& folder, const CaptureOptions& options = {}) {
  Generations generations(folder, {.keep_last = 2, .series = "trainer.save"});
  const detail::CapturedParts parts = detail::capture_parts(trainer, options);
  detail::distrust_damaged(generations);
  generations.save(detail::next_number(generations), parts.tensors, parts.metadata);
}

/// What `trainer.load(folder)` does: goes on from the newest sound generation, whoever saved it. Throws CheckpointError
/// as Checkpoints::resume, and where the folder holds no generation.
template <class Trainer>
Resumed load_checkpoint(Trainer& trainer, const std::filesystem::path& folder) {
  auto resumed = Checkpoints(folder).resume(trainer);
  if (!resumed) throw CheckpointError(folder.string() + " holds no checkpoint; is it the folder that was saved to?");
  return std::move(*resumed);
}

}  // namespace halfstep
