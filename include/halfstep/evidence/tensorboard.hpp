#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <halfstep/evidence/detail/event_record.hpp>
#include <halfstep/evidence/log_file.hpp>
#include <halfstep/evidence/report_fields.hpp>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace halfstep {

/// A log that TensorBoard shows: `tensorboard --logdir <folder>`. One event file in the folder, which is
/// created with its parents; each window's numbers as scalars under `prefix`, at the step `attempts`, so that
/// skipped windows have their place. TensorBoard keeps floats: of counters, those over 2^24 are rounded.
/// Numbers that are not finite are written as they are, and TensorBoard marks them. `outcome` is 0 for
/// applied, 1 for skipped for a gradient, 2 for skipped for the loss, 3 for no gradients.
///
/// Constructing it throws Error where the file cannot be created; writing never throws, see LogFile.
class TensorBoardSink {
 public:
  explicit TensorBoardSink(const std::filesystem::path& folder, std::string prefix = "training/",
                           LogNotice notice = notify_on_standard_error)
      : prefix_(std::move(prefix)),
        file_(new_file_in(folder), {.header = detail::version_event(now()), .notice = std::move(notice)}) {}

  void write(const StepReport& report) {
    detail::Message summary;
    for_each_field(report, [&](const char* name, const auto& value) {
      if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
        detail::add_scalar(summary, prefix_ + name, static_cast<float>(value));
      }
    });
    detail::add_scalar(summary, prefix_ + "outcome", outcome(report));
    file_.write(detail::scalars_event(now(), report.attempts, summary));
  }
  std::int64_t lost() const { return file_.lost(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  static float outcome(const StepReport& report) {
    if (report.outcome == Outcome::no_gradients) return 3;
    return static_cast<float>(report.skip_cause);
  }
  static double now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  /// TensorBoard knows event files by this part of their name and reads those of a folder in order of names.
  static std::filesystem::path new_file_in(const std::filesystem::path& folder) {
    std::error_code fault;
    std::filesystem::create_directories(folder, fault);
    if (fault) throw Error("cannot create the folder \"" + folder.string() + "\": " + fault.message());
    char host[256] = "host";
    if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    const std::string name =
        "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(now())) + "." + host;
    std::filesystem::path path;
    for (int number = 0; number == 0 || std::filesystem::exists(path, fault); ++number) {
      path = folder / (name + "." + std::to_string(::getpid()) + "." + std::to_string(number));
    }
    return path;
  }

  std::string prefix_;
  LogFile file_;
};

}  // namespace halfstep
