#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <halfstep/state/generations.hpp>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "state/faulty_files.hpp"
#include "state/file_bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(generations_tests)

using namespace halfstep;
using test::FaultyFiles;
using test::holds;
using Direction = KeepBest::Direction;

namespace {

/// A state that knows its number in the metadata and in both tensors, so that a mix would show.
StateFile state(std::int64_t number) {
  const std::vector<std::int64_t> values(1000, number);
  const auto bytes = std::as_bytes(std::span(values));
  const TensorData tensor{"a", DType::i64, {1000}, {bytes.begin(), bytes.end()}};
  StateFile file{{tensor, tensor}, {{"number", std::to_string(number)}}};
  file.tensors[1].name = "b";
  return file;
}

bool is_state(const StateFile& file, std::int64_t number) {
  const StateFile expected = state(number);
  return file.metadata.at("number") == expected.metadata.at("number") &&
         file.find("a")->bytes == expected.tensors[0].bytes &&
         file.find("b")->bytes == expected.tensors[1].bytes;
}

std::vector<std::int64_t> numbers(const Generations& generations) {
  std::vector<std::int64_t> result;
  for (const Generation& generation : generations.list()) result.push_back(generation.number);
  return result;
}

using Numbers = std::vector<std::int64_t>;

void damage(const std::filesystem::path& path) {
  std::string text = test::content(path);
  text[text.size() - 100] = static_cast<char>(text[text.size() - 100] ^ 4);
  test::put(path, text);
}

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_without_generations_has_no_latest) {
  const test::TemporaryFolder folder;
  for (const auto& place : {folder.path(), folder / "not/there"}) {
    const Generations generations(place);
    BOOST_TEST(generations.list().empty());
    BOOST_TEST(!generations.latest());
    BOOST_TEST(!generations.load_latest());
    BOOST_TEST(!std::filesystem::exists(folder / "not"));
  }
}

BOOST_AUTO_TEST_CASE(the_last_ones_stay) {
  const test::TemporaryFolder folder;
  Generations generations(folder / "runs/digits", {.keep_last = 3});
  for (const std::int64_t number : {0, 5, 10, 11, 300}) {
    BOOST_TEST(generations.save(number, state(number)) == generations.path_of(number));
  }
  BOOST_TEST(numbers(generations) == (Numbers{10, 11, 300}));
  BOOST_TEST(generations.path_of(300).filename() == "generation-000000000300.safetensors");
  const auto latest = generations.load_latest();
  BOOST_TEST(latest->number == 300);
  BOOST_TEST(latest->path == generations.path_of(300));
  BOOST_TEST(latest->skipped.empty());
  BOOST_TEST(is_state(latest->file, 300));
  BOOST_TEST(generations.latest()->number == 300);
}

BOOST_AUTO_TEST_CASE(names_that_are_no_generations_are_left_alone) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> others{"generation-1.safetensors",
                                        "generation-.safetensors",
                                        "generation-000000000001.txt",
                                        "generation--00000000001.safetensors",
                                        "generation-00000000000x.safetensors",
                                        "generation-0000000000001.safetensors",
                                        "Generation-000000000001.safetensors",
                                        "generation-9223372036854775807.safetensors",
                                        "generation-99999999999999999999.safetensors",
                                        "weights.safetensors"};
  for (const std::string& name : others) test::put(folder / name, "x");
  Generations generations(folder.path(), {.keep_last = 1});
  BOOST_TEST(generations.list().empty());
  generations.save(1'000'000'000'000, state(1));
  generations.save(1'000'000'000'001, state(2));
  BOOST_TEST(numbers(generations) == Numbers{1'000'000'000'001});
  for (const std::string& name : others) BOOST_TEST(std::filesystem::exists(folder / name), name);
}

BOOST_AUTO_TEST_CASE(what_cannot_work_is_refused) {
  const test::TemporaryFolder folder;
  BOOST_TEST(holds(test::refusal<ConfigurationError>([&] { Generations(folder.path(), {.keep_last = 0}); }),
                   "keep_last is 0"));
  BOOST_TEST(holds(test::refusal<ConfigurationError>([&] { Generations(""); }), "folder is empty"));
  BOOST_TEST(holds(
      test::refusal<ConfigurationError>([&] { Generations(folder.path(), {.keep_best = KeepBest{""}}); }),
      "name"));
  Generations generations(folder.path());
  BOOST_TEST(
      holds(test::refusal<ConfigurationError>([&] { generations.save(1, state(1), 0.5); }), "keep_best"));
  BOOST_TEST(holds(test::refusal<CheckpointError>([&] { generations.save(-1, state(1)); }), "-1"));
  BOOST_TEST(generations.list().empty());
}

BOOST_AUTO_TEST_CASE(a_damaged_generation_is_passed_over_and_named) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path(), {.keep_last = 4});
  for (int number = 1; number <= 4; ++number) generations.save(number, state(number));
  damage(generations.path_of(4));
  std::filesystem::resize_file(generations.path_of(3), 700);

  const auto latest = generations.load_latest();
  BOOST_TEST(latest->number == 2);
  BOOST_TEST(is_state(latest->file, 2));
  BOOST_REQUIRE(latest->skipped.size() == 2u);
  BOOST_TEST(latest->skipped[0].path == generations.path_of(4));
  BOOST_TEST(holds(latest->skipped[0].why, "checksum"), latest->skipped[0].why);
  BOOST_TEST(latest->skipped[1].path == generations.path_of(3));
  BOOST_TEST(holds(latest->skipped[1].why, "truncated"), latest->skipped[1].why);
  BOOST_TEST(generations.latest()->number == 2);
  BOOST_TEST(generations.latest()->skipped.size() == 2u);

  for (const int number : {1, 2}) test::put(generations.path_of(number), "");
  const std::string message = test::refusal<CheckpointError>([&] { generations.latest(); });
  for (int number = 1; number <= 4; ++number) {
    BOOST_TEST(holds(message, generations.path_of(number).string()), message);
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_fell_back_goes_on_and_replaces_what_is_damaged) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path());
  for (const std::int64_t number : {10, 20}) generations.save(number, state(number));
  damage(generations.path_of(20));
  BOOST_TEST(generations.latest()->number == 10);
  generations.save(15, state(15));
  BOOST_TEST(generations.load_latest()->number == 15);
  generations.save(20, state(20));
  BOOST_TEST(generations.load_latest()->number == 20);
  BOOST_TEST(generations.load_latest()->skipped.empty());
}

BOOST_AUTO_TEST_CASE(damaged_generations_do_not_count_among_the_last) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path());
  for (const std::int64_t number : {1, 2}) generations.save(number, state(number));
  std::filesystem::resize_file(generations.path_of(2), 700);
  generations.save(3, state(3));
  BOOST_TEST(numbers(generations) == (Numbers{1, 2, 3}));
  generations.save(4, state(4));
  BOOST_TEST(numbers(generations) == (Numbers{3, 4}));
}

BOOST_AUTO_TEST_CASE(what_a_run_fell_back_to_stays_until_enough_newer_ones_are_sound) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path());
  for (const std::int64_t number : {10, 20}) generations.save(number, state(number));
  damage(generations.path_of(20));  // its header is sound
  const auto fallen_back_to = generations.latest().value();
  for (const DamagedGeneration& damaged : fallen_back_to.skipped) generations.distrust(damaged);
  generations.save(21, state(21));
  BOOST_TEST(numbers(generations) == (Numbers{10, 20, 21}));
  generations.save(20, state(20));
  BOOST_TEST(numbers(generations) == (Numbers{20, 21}));
}

BOOST_AUTO_TEST_CASE(a_series_counts_and_removes_only_its_own) {
  const test::TemporaryFolder folder;
  Generations all(folder.path(), {.keep_last = 3});
  Generations series(folder.path(), {.keep_last = 1, .series = "mine"});
  for (const std::int64_t number : {1, 2, 3}) all.save(number, state(number));
  for (const std::int64_t number : {4, 5, 6}) series.save(number, state(number));
  BOOST_TEST(numbers(all) == (Numbers{1, 2, 3, 6}));
  Generations(folder.path(), {.keep_last = 1, .series = "yours"}).save(7, state(7));
  BOOST_TEST(numbers(all) == (Numbers{1, 2, 3, 6, 7}));
  // What cannot be read may be another's.
  std::filesystem::resize_file(all.path_of(2), 700);
  series.save(8, state(8));
  BOOST_TEST(numbers(all) == (Numbers{1, 2, 3, 7, 8}));
  all.save(9, state(9));
  BOOST_TEST(numbers(all) == (Numbers{7, 8, 9}));
}

BOOST_AUTO_TEST_CASE(the_generation_just_saved_stays_even_where_newer_ones_are_there) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path(), {.keep_last = 1});
  generations.save(20, state(20));
  generations.save(10, state(10));
  BOOST_TEST(numbers(generations) == (Numbers{10, 20}));
}

BOOST_AUTO_TEST_CASE(the_best_stays_however_old_it_is) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path(), {.keep_last = 2, .keep_best = KeepBest{"validation loss"}});
  BOOST_TEST(!generations.best());
  const double losses[] = {3.0, 1.0, 2.0, 1.5, 1.0, 1.25};
  for (int i = 0; i < 6; ++i) generations.save(i, state(i), losses[i]);
  BOOST_TEST(numbers(generations) == (Numbers{1, 4, 5}));
  BOOST_TEST(generations.best()->number == 1);
  generations.save(6, state(6), 0.5);
  generations.save(7, state(7));
  generations.save(8, state(8), 0.75);
  BOOST_TEST(numbers(generations) == (Numbers{6, 7, 8}));
  BOOST_TEST(generations.best()->number == 6);
  // It is in the file itself, and so are all digits.
  generations.save(9, state(9), 0.1);
  BOOST_TEST(safetensors::read(generations.path_of(9)).metadata.at("halfstep.metric.validation loss") ==
             "0.1");
}

BOOST_AUTO_TEST_CASE(the_largest_is_the_best_where_that_is_asked_for) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path(),
                          {.keep_last = 1, .keep_best = KeepBest{"accuracy", Direction::largest}});
  const double accuracies[] = {0.5, 0.9, -0.25, 0.75};
  for (int i = 0; i < 4; ++i) generations.save(i, state(i), accuracies[i]);
  BOOST_TEST(numbers(generations) == (Numbers{1, 3}));
  // Another metric is another question.
  const Generations other(folder.path(), {.keep_best = KeepBest{"loss"}});
  BOOST_TEST(!other.best());
}

BOOST_AUTO_TEST_CASE(a_metric_that_is_no_number_is_never_the_best_and_infinity_is_a_number) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path(), {.keep_last = 1, .keep_best = KeepBest{"loss"}});
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  generations.save(1, state(1), nan);
  BOOST_TEST(!generations.best());
  generations.save(2, state(2), infinity);
  BOOST_TEST(generations.best()->number == 2);
  generations.save(3, state(3), nan);
  generations.save(4, state(4), -nan);
  BOOST_TEST(numbers(generations) == (Numbers{2, 4}));
  generations.save(5, state(5), 1.0);
  generations.save(6, state(6), -infinity);
  BOOST_TEST(numbers(generations) == Numbers{6});
}

BOOST_AUTO_TEST_CASE(a_damaged_best_is_no_longer_compared) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path(), {.keep_last = 2, .keep_best = KeepBest{"loss"}});
  generations.save(1, state(1), 0.25);
  generations.save(2, state(2), 0.5);
  std::filesystem::resize_file(generations.path_of(1), 10);
  BOOST_TEST(generations.best()->number == 2);
  generations.save(3, state(3), 0.75);
  generations.save(4, state(4), 0.75);
  BOOST_TEST(numbers(generations) == (Numbers{2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(bytes_of_the_callers_own_are_a_generation_too) {
  const test::TemporaryFolder folder;
  Generations generations(folder.path(), {.keep_best = KeepBest{"loss"}});
  generations.save(7, [&](const ByteSink& sink) {
    safetensors::write(sink, {state(7).tensors, generations.with_metric(state(7).metadata, 0.5)});
  });
  BOOST_TEST(is_state(generations.load_latest()->file, 7));
  BOOST_TEST(generations.best()->number == 7);
}

BOOST_AUTO_TEST_CASE(a_fault_at_any_call_of_a_save_leaves_a_complete_generation_old_or_new) {
  using Fault = FaultyFiles::Fault;
  for (const std::int64_t keep_last : {1, 2}) {
    for (const Fault fault : {Fault::once, Fault::done, Fault::ever_after}) {
      for (int at = 0;; ++at) {
        const test::TemporaryFolder folder;
        FaultyFiles files;
        files.transfer_at_most(5000);
        const KeepBest loss{"loss"};
        Generations generations(folder.path(), {keep_last, loss}, files);
        generations.save(1, state(1), 2.0);
        generations.save(2, state(2), 1.0);
        files.fail_at(at, fault, ENOSPC);
        bool thrown = false;
        try {
          generations.save(3, state(3), 3.0);
        } catch (const CheckpointError& error) {
          thrown = true;
          BOOST_TEST(holds(error.what(), std::strerror(ENOSPC)), error.what());
        }
        const bool all_made = static_cast<int>(files.calls.size()) <= at;
        files.fail_no_more();
        const auto latest = generations.load_latest();
        BOOST_REQUIRE(latest.has_value());
        BOOST_TEST((latest->number == 3 || (thrown && latest->number == 2)),
                   "at call " << at << ": " << latest->number);
        BOOST_TEST(latest->skipped.empty());
        BOOST_TEST(is_state(latest->file, latest->number));
        BOOST_TEST(generations.best()->number == 2);
        BOOST_TEST(is_state(safetensors::read(generations.path_of(2)), 2));
        // Whatever it left, the run goes on and the folder comes into order.
        generations.save(4, state(4), 4.0);
        BOOST_TEST(is_state(generations.load_latest()->file, 4));
        generations.save(5, state(5), 5.0);
        BOOST_TEST(files_in(folder.path()) == static_cast<std::size_t>(keep_last + 1));
        if (all_made) break;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_generation_that_cannot_be_removed_does_not_fail_the_save) {
  const test::TemporaryFolder folder;
  FaultyFiles files;
  Generations generations(folder.path(), {.keep_last = 1}, files);
  generations.save(1, state(1));
  files.fail_calls_named("unlink", EACCES);
  generations.save(2, state(2));
  BOOST_TEST(numbers(generations) == (Numbers{1, 2}));
  files.fail_no_more();
  generations.save(3, state(3));
  BOOST_TEST(numbers(generations) == Numbers{3});
}

namespace {

/// Another process saves and prunes whenever this one has just looked into the folder.
struct Busy : FileSystem {
  std::filesystem::path folder;
  mutable int left = 3;
  std::vector<std::string> list(const std::filesystem::path& path) override {
    const auto names = FileSystem::list(path);
    if (left > 0) {
      Generations other(folder, {.keep_last = 1});
      const std::int64_t number = other.list().back().number + 1;
      --left;
      other.save(number, state(number));
    }
    return names;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(generations_that_vanish_under_the_reader_are_not_damaged_ones) {
  const test::TemporaryFolder folder;
  Generations(folder.path()).save(1, state(1));
  Busy files;
  files.folder = folder.path();
  const Generations generations(folder.path(), {.keep_last = 1}, files);
  const auto latest = generations.load_latest();
  BOOST_TEST(latest->number == 4);
  BOOST_TEST(latest->skipped.empty());
  files.left = 1'000'000;
  BOOST_TEST(
      holds(test::refusal<CheckpointError>([&] { generations.latest(); }), "faster than they can be read"));
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_listed_is_an_error_and_not_an_empty_one) {
  const test::TemporaryFolder folder;
  FaultyFiles files;
  Generations generations(folder.path(), {}, files);
  generations.save(1, state(1));
  files.fail_calls_named("list", EACCES);
  BOOST_TEST(holds(test::refusal<CheckpointError>([&] { generations.latest(); }), folder.path().string()));
  files.fail_no_more();
  files.fail_calls_named("read", EIO);
  BOOST_TEST(holds(test::refusal<CheckpointError>([&] { generations.latest(); }), std::strerror(EIO)));
}

BOOST_AUTO_TEST_SUITE_END()
