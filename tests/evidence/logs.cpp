#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <halfstep/data/csv.hpp>  // Beside the log of that name, as in a program that reads data.
#include <halfstep/evidence/console.hpp>
#include <halfstep/evidence/csv.hpp>
#include <halfstep/evidence/json_lines.hpp>
#include <halfstep/evidence/log.hpp>
#include <halfstep/evidence/tensorboard.hpp>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(logs_tests)

using namespace halfstep;
using halfstep::test::holds;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}
std::int64_t lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

StepReport applied(std::int64_t attempt, double loss, double norm, std::int64_t samples = 1) {
  StepReport report;
  report.outcome = Outcome::applied;
  report.loss = loss;
  report.gradient_norm = norm;
  report.attempts = attempt;
  report.update_number = attempt;
  report.valid_count = samples;
  report.learning_rate = 0.001f;
  return report;
}
StepReport skipped(std::int64_t attempt, SkipCause cause, double loss, double norm) {
  StepReport report = applied(attempt, loss, norm);
  report.outcome = Outcome::skipped;
  report.skip_cause = cause;
  report.skipped = 1;
  report.first_non_finite = {"block \"a\", b.weight", 12};
  return report;
}

struct Notices {
  std::shared_ptr<std::vector<std::string>> seen = std::make_shared<std::vector<std::string>>();
  void operator()(const std::string& message) const { seen->push_back(message); }
};

/// A stream of the test's own in place of the terminal.
struct Screen {
  std::FILE* file = std::tmpfile();
  Screen() = default;
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() { std::fclose(file); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(json_lines_hold_every_field_and_say_which_numbers_are_not_finite) {
  const test::TemporaryFolder folder;
  {
    Log log(JsonLinesSink(folder / "log.jsonl"));
    log.write(applied(1, 0.5, 2));
    log.write(skipped(2, SkipCause::gradient, 0.25, infinity));
    log.write(skipped(3, SkipCause::loss, -infinity, not_a_number));
  }
  JsonLinesSink(folder / "log.jsonl").write(applied(4, 1, 1));
  std::ifstream file(folder / "log.jsonl");
  std::vector<nlohmann::ordered_json> records;
  for (std::string line; std::getline(file, line);) records.push_back(nlohmann::ordered_json::parse(line));
  BOOST_REQUIRE(records.size() == 4u);
  for (const auto& record : records) BOOST_TEST(record.size() == 19u);
  BOOST_TEST(records[0].at("loss") == 0.5);
  BOOST_TEST(records[0].at("learning_rate").dump() == "0.001");
  BOOST_TEST(records[0].at("outcome") == "applied");
  BOOST_TEST(records[1].at("loss") == 0.25);
  BOOST_TEST(records[1].at("gradient_norm") == "Infinity");
  BOOST_TEST(records[1].at("first_non_finite_tensor") == "block \"a\", b.weight");
  BOOST_TEST(records[1].at("first_non_finite_index") == 12);
  BOOST_TEST(records[2].at("skip_cause") == "loss");
  BOOST_TEST(records[2].at("loss") == "-Infinity");
  BOOST_TEST(records[2].at("gradient_norm") == "NaN");
  BOOST_TEST(records[3].at("attempts") == 4);
}

BOOST_AUTO_TEST_CASE(the_diagnosis_of_a_skipped_window_goes_with_its_record) {
  StepReport report = skipped(2, SkipCause::gradient, 0.25, infinity);
  Diagnosis diagnosis;
  diagnosis.advice = "look at the first layer";
  report.diagnosis = std::make_shared<const Diagnosis>(diagnosis);
  BOOST_TEST(
      holds(nlohmann::ordered_json(report).at("diagnosis").get<std::string>(), "look at the first layer"));
}

BOOST_AUTO_TEST_CASE(a_float_is_written_with_the_digits_that_give_it_again) {
  for (const float value : {0.1f, 1e-3f, 65536.0f, 3.4028235e38f, 1.4e-45f, -0.3333333f}) {
    BOOST_TEST(static_cast<float>(with_digits_of(value)) == value);
    BOOST_TEST(json_number(value).dump().size() <= 15u);
  }
}

BOOST_AUTO_TEST_CASE(csv_has_one_line_of_names_even_when_it_is_continued_and_quotes_what_it_must) {
  const test::TemporaryFolder folder;
  CsvSink(folder / "log.csv").write(applied(1, 0.5, 2));
  CsvSink(folder / "log.csv").write(skipped(2, SkipCause::gradient, not_a_number, -infinity));
  const std::string text = contents(folder / "log.csv");
  BOOST_TEST(lines(text) == 3);
  BOOST_TEST(
      text.starts_with("attempts,update_number,outcome,skip_cause,loss,gradient_norm,clip_coefficient,"));
  BOOST_TEST(holds(text, "\n1,1,applied,none,0.5,2,1,0.001,1,1,unchanged,0,0,0,0,0,1,,-1\n"));
  BOOST_TEST(holds(text, "\n2,2,skipped,gradient,NaN,-Infinity,1,0.001,"));
  BOOST_TEST(holds(text, ",\"block \"\"a\"\", b.weight\",12\n"));
}

BOOST_AUTO_TEST_CASE(after_a_line_that_was_cut_off_the_next_record_has_a_line_of_its_own) {
  const test::TemporaryFolder folder;
  const auto cut = [](const std::filesystem::path& path) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 20);
  };
  JsonLinesSink(folder / "log.json").write(applied(1, 0.5, 2));
  cut(folder / "log.json");
  JsonLinesSink(folder / "log.json").write(applied(2, 0.5, 2));
  const std::string json = contents(folder / "log.json");
  BOOST_REQUIRE(lines(json) == 2);
  BOOST_TEST(nlohmann::ordered_json::parse(json.substr(json.find('\n')))["attempts"] == 2);
  CsvSink(folder / "log.csv").write(applied(1, 0.5, 2));
  cut(folder / "log.csv");
  CsvSink(folder / "log.csv").write(applied(2, 0.5, 2));
  BOOST_TEST(holds(contents(folder / "log.csv"), "\n2,2,applied,none,0.5,2,"));
}

BOOST_AUTO_TEST_CASE(a_csv_file_with_other_names_is_no_log_to_continue) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "other.csv") << "a,b\n1,2\n";
  const std::string message = test::refusal<Error>([&] { CsvSink sink(folder / "other.csv"); });
  BOOST_TEST(holds(message, "does not begin with the line \"attempts,"), message);
  BOOST_TEST(contents(folder / "other.csv") == "a,b\n1,2\n");
}

BOOST_AUTO_TEST_CASE(event_records_have_the_bytes_that_the_formats_prescribe) {
  using namespace halfstep::detail;
  // RFC 3720, B.4: 32 bytes of zeros, of ones.
  BOOST_TEST(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  BOOST_TEST(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  Message summary;
  add_scalar(summary, "loss", 0.5f);
  BOOST_TEST(summary.bytes() == std::string("\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f", 13));
  // 300 takes two bytes of a varint, least significant first.
  BOOST_TEST(Message().integer(2, 300).bytes() == "\x10\xac\x02");
  const std::string record = tf_record("abc");
  BOOST_TEST(record.size() == 8u + 4u + 3u + 4u);
  BOOST_TEST(record.substr(0, 8) == std::string("\x03\0\0\0\0\0\0\0", 8));
  BOOST_TEST(record.substr(12, 3) == "abc");
  const auto checksum_at = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(record[at + i]);
    return value;
  };
  // Every file that TensorFlow writes begins with these bytes: a record of 24, and the checksum of that length.
  BOOST_TEST(version_event(0).substr(0, 12) == std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  BOOST_TEST(checksum_at(8) == masked_crc32c(record.substr(0, 8)));
  BOOST_TEST(checksum_at(15) == masked_crc32c("abc"));
}

BOOST_AUTO_TEST_CASE(tensorboard_gets_a_file_of_its_own_each_time) {
  const test::TemporaryFolder folder;
  TensorBoardSink first(folder / "runs/a"), second(folder / "runs/a");
  BOOST_TEST(first.path() != second.path());
  BOOST_TEST(first.path().filename().string().starts_with("events.out.tfevents."));
  const auto empty = std::filesystem::file_size(first.path());
  BOOST_TEST(empty == 8u + 4 + 9 + 15 + 4);
  first.write(applied(1, 0.5, 2));
  BOOST_TEST(std::filesystem::file_size(first.path()) > empty);
}

BOOST_AUTO_TEST_CASE(a_path_that_cannot_be_opened_is_refused_before_training_begins) {
  const std::string message = test::refusal<Error>([] { CsvSink("/nowhere/log.csv"); });
  BOOST_TEST(holds(message, "/nowhere/log.csv"));
  BOOST_TEST(holds(message, "No such file"));
  test::refusal<Error>([] { TensorBoardSink("/dev/null/runs"); });
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_noticed_once_costs_records_and_stops_nothing) {
  const Notices notices;
  JsonLinesSink sink("/dev/full", notices);
  for (int i = 1; i <= 3; ++i) sink.write(applied(i, 0.5, 2));
  BOOST_TEST(sink.lost() == 3);
  BOOST_REQUIRE(notices.seen->size() == 1u);
  BOOST_TEST(holds(notices.seen->front(), "/dev/full"));
  BOOST_TEST(holds(notices.seen->front(), "No space left"));
}

BOOST_AUTO_TEST_CASE(
    a_disk_that_fills_in_the_middle_of_a_record_leaves_whole_records_and_is_used_again_later) {
  const test::TemporaryFolder folder;
  const Notices notices;
  JsonLinesSink sink(folder / "log.jsonl", notices);
  sink.write(applied(1, 0.5, 2));
  const auto one = std::filesystem::file_size(folder / "log.jsonl");
  // No file may grow beyond one record and a half.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit little{one + one / 2, usual.rlim_max};
  setrlimit(RLIMIT_FSIZE, &little);
  sink.write(applied(2, 0.5, 2));
  sink.write(applied(3, 0.5, 2));
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, before);
  BOOST_TEST(std::filesystem::file_size(folder / "log.jsonl") == one);
  sink.write(applied(4, 0.5, 2));
  BOOST_TEST(sink.lost() == 2);
  BOOST_TEST(notices.seen->size() == 1u);
  const std::string text = contents(folder / "log.jsonl");
  BOOST_TEST(lines(text) == 2);
  BOOST_TEST(nlohmann::ordered_json::parse(text.substr(text.find('\n'))).at("attempts") == 4);
}

BOOST_AUTO_TEST_CASE(a_log_that_is_removed_is_begun_again_and_one_without_a_folder_is_lost) {
  const test::TemporaryFolder folder;
  const Notices notices;
  std::filesystem::create_directory(folder / "a");
  CsvSink sink(folder / "a/log.csv", notices);
  sink.write(applied(1, 0.5, 2));
  std::filesystem::remove(folder / "a/log.csv");
  sink.write(applied(2, 0.5, 2));
  BOOST_TEST(lines(contents(folder / "a/log.csv")) == 2);
  BOOST_TEST(sink.lost() == 0);
  BOOST_REQUIRE(notices.seen->size() == 1u);
  BOOST_TEST(holds(notices.seen->front(), "was removed"));
  std::filesystem::remove_all(folder / "a");
  sink.write(applied(3, 0.5, 2));
  BOOST_TEST(sink.lost() == 1);
  std::filesystem::create_directory(folder / "a");
  sink.write(applied(4, 0.5, 2));
  BOOST_TEST(holds(contents(folder / "a/log.csv"), "\n4,4,applied"));
  BOOST_TEST(notices.seen->size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_listener_that_throws_stops_nothing) {
  JsonLinesSink sink("/dev/full", [](const std::string&) { throw Error("no"); });
  BOOST_CHECK_NO_THROW(sink.write(applied(1, 0.5, 2)));
}

BOOST_AUTO_TEST_CASE(means_are_over_applied_windows_and_what_is_not_finite_is_counted_beside_them) {
  ReportTotals totals;
  totals.add(applied(1, 1.0, 3, 1));
  totals.add(skipped(2, SkipCause::gradient, 100, infinity));
  totals.add(skipped(3, SkipCause::loss, not_a_number, 1));
  totals.add(applied(4, 2.0, 5, 3));
  StepReport empty;
  empty.loss = not_a_number;
  totals.add(empty);
  BOOST_TEST(totals.mean_loss() == 1.75);
  BOOST_TEST(totals.mean_gradient_norm() == 4.0);
  BOOST_TEST(totals.windows() == 5);
  BOOST_TEST(totals.applied() == 2);
  BOOST_TEST(totals.skipped_for_gradient() == 1);
  BOOST_TEST(totals.skipped_for_loss() == 1);
  BOOST_TEST(totals.empty() == 1);
  BOOST_TEST(totals.non_finite_losses() == 1);
  BOOST_TEST(totals.non_finite_norms() == 1);
  BOOST_TEST(totals.first_non_finite().index == 12);
  BOOST_TEST(!is_finite(ReportTotals().mean_loss()));
}

BOOST_AUTO_TEST_CASE(without_a_terminal_the_console_prints_plain_lines_every_n_windows_and_what_is_left) {
  const Screen screen;
  {
    ConsoleSink moved_from({.every = 2, .total = 5, .label = "float16", .stream = screen.file});
    Log log(std::move(moved_from));
    log.write(applied(1, 1, 3));
    log.write(applied(2, 2, 5));
    log.write(applied(3, 1, 3));
    log.write(skipped(4, SkipCause::gradient, 7, not_a_number));
    log.write(skipped(5, SkipCause::loss, infinity, 1));
  }
  const std::string text = contents(screen.file);
  BOOST_TEST(lines(text) == 5);
  for (const char c : text) BOOST_TEST((c == '\n' || (c >= 32 && c < 127)));
  BOOST_TEST(holds(
      text,
      "float16  step     2 of 5   loss 1.50000   gradient norm 4.0000   scale 1   rate 0.001   updates 2"));
  BOOST_TEST(holds(
      text, "\n    1 of 2 skipped: 1 for a gradient, 0 for the loss; not finite: 0 losses, 1 norms; first"));
  BOOST_TEST(holds(text, "step     5 of 5   skipped: loss inf"));
}

BOOST_AUTO_TEST_CASE(a_progress_bar_is_one_line_that_is_redrawn_and_taken_away) {
  const Screen screen;
  {
    ConsoleSink sink({.every = 100, .total = 4, .stream = screen.file, .bar = ConsoleOptions::Bar::always});
    for (int i = 1; i <= 4; ++i) sink.write(applied(i, 1, 1));
  }
  const std::string text = contents(screen.file);
  BOOST_TEST(text.starts_with("\r\x1b[K[==="));
  BOOST_TEST(lines(text) == 1);
  BOOST_TEST(text.ends_with("\n"));
  BOOST_TEST(holds(text, "\r\x1b[Kstep     4 of 4"));
  BOOST_TEST(detail::progress_bar(30, 60, 3000, 60, 200) ==
             "[====================                    ] 30/60  50 samples/s  1:00, 1:00 left");
  BOOST_TEST(detail::progress_bar(30, 0, 3000, 3661, 200) == " 30  1 samples/s  1:01:01");
  for (int columns = 0; columns < 100; ++columns) {
    BOOST_TEST(detail::progress_bar(30, 60, 3000, 60, columns).size() <=
               static_cast<std::size_t>(std::max(0, columns - 1)));
  }
}

BOOST_AUTO_TEST_CASE(
    a_console_that_cannot_be_written_stops_nothing_and_options_that_cannot_be_right_are_refused) {
  std::FILE* full = std::fopen("/dev/full", "w");
  {
    ConsoleSink sink({.stream = full});
    BOOST_CHECK_NO_THROW(sink.write(applied(1, 1, 1)));
  }
  std::fclose(full);
  test::refusal<ConfigurationError>([] { ConsoleSink({.every = 0}); });
}

BOOST_AUTO_TEST_SUITE_END()
