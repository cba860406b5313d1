#pragma once

#include <cstdint>
#include <filesystem>
#include <halfstep/evidence/json.hpp>
#include <halfstep/evidence/log_file.hpp>
#include <utility>

namespace halfstep {

/// A log of JSON lines: one object a window, see to_json(StepReport). An existing file is continued.
/// Constructing it throws Error for a path that cannot be opened; writing never throws, see LogFile.
class JsonLinesSink {
 public:
  explicit JsonLinesSink(std::filesystem::path path, LogNotice notice = notify_on_standard_error)
      : file_(std::move(path), {.lines = true, .notice = std::move(notice)}) {}

  void write(const StepReport& report) { file_.write(one_line(nlohmann::ordered_json(report)) + '\n'); }
  std::int64_t lost() const { return file_.lost(); }

 private:
  LogFile file_;
};

}  // namespace halfstep
