// write_logs <folder>: three windows in each kind of log. read_logs.py knows what they are.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <halfstep/evidence/csv.hpp>
#include <halfstep/evidence/json_lines.hpp>
#include <halfstep/evidence/log.hpp>
#include <halfstep/evidence/tensorboard.hpp>
#include <limits>

using namespace halfstep;

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  TensorBoardSink tensorboard(folder);
  Log log(std::move(tensorboard), CsvSink(folder / "log.csv"), JsonLinesSink(folder / "log.jsonl"));
  StepReport report;
  report.outcome = Outcome::applied;
  report.attempts = report.update_number = 1;
  report.loss = 0.1;
  report.gradient_norm = 2.5;
  report.scale = report.next_scale = 65536;
  report.learning_rate = 0.001f;
  report.valid_count = 64;
  log.write(report);
  report.outcome = Outcome::skipped;
  report.skip_cause = SkipCause::gradient;
  report.attempts = 2;
  report.gradient_norm = std::numeric_limits<double>::infinity();
  report.next_scale = 32768;
  report.scale_change = ScaleChange::backed_off;
  report.first_non_finite = {"a \"quoted\", name", 12};
  log.write(report);
  report.skip_cause = SkipCause::loss;
  report.attempts = 300;
  report.loss = -std::numeric_limits<double>::infinity();
  report.gradient_norm = std::numeric_limits<double>::quiet_NaN();
  log.write(report);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
