#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <halfstep/state/capture.hpp>
#include <halfstep/state/generations.hpp>
#include <halfstep/state/restore.hpp>

namespace halfstep {

struct CheckpointsOptions {
  /// How many of the newest generations stay.
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

/// The checkpoints of one run in a folder of its own, each one coherent generation: published whole or not at all,
/// whatever kills the process or fills the disk. Throws CheckpointError where a save fails; the generations before it
/// are untouched, and training and saving can go on. With `background`, the error of a save comes out of the next
/// call to save, wait or resume.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder, CheckpointsOptions options = {},
                       FileSystem& files = system_files())
      : generations_(std::move(folder), {options.keep_last, std::move(options.keep_best)}, files),
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
    const std::int64_t number = next_number();
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
  /// none. Throws CheckpointError as `restore`, and where all generations are damaged.
  template <class Trainer>
  std::optional<Resumed> resume(Trainer& trainer) {
    return resume_with([&](const StateFile& file) { return restore(trainer, file); });
  }
  /// The same for a run of another policy or optimizer; see restore_as.
  template <class Trainer>
  std::optional<Resumed> resume_as(Trainer& trainer, RestoreAs options = {}) {
    return resume_with([&](const StateFile& file) { return restore_as(trainer, file, options); });
  }

  const Generations& generations() const { return generations_; }

 private:
  std::int64_t next_number() const {
    const auto all = generations_.list();
    return all.empty() ? 1 : all.back().number + 1;
  }

  template <class Restore>
  std::optional<Resumed> resume_with(const Restore& restore_from) {
    wait();
    auto loaded = generations_.load_latest();
    if (!loaded) return std::nullopt;
    try {
      Restored restored = restore_from(loaded->file);
      return Resumed{std::move(restored), loaded->number, std::move(loaded->path), std::move(loaded->skipped)};
    } catch (const CheckpointError& error) {
      throw CheckpointError(loaded->path.string() + ": " + error.what());
    }
  }

  Generations generations_;
  bool background_;
  std::future<void> writing_;
};

/// What `trainer.save(folder)` and `trainer.load(folder)` do.
template <class Trainer>
void save_checkpoint(const Trainer& trainer, const std::filesystem::path& folder, const CaptureOptions& options = {}) {
  Checkpoints(folder).save(trainer, options);
}

/// Throws CheckpointError where the folder holds no generation.
template <class Trainer>
Resumed load_checkpoint(Trainer& trainer, const std::filesystem::path& folder) {
  auto resumed = Checkpoints(folder).resume(trainer);
  if (!resumed) throw CheckpointError(folder.string() + " holds no checkpoint; is it the folder that was saved to?");
  return std::move(*resumed);
}

}  // namespace halfstep
