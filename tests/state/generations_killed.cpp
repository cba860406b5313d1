#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <halfstep/state/generations.hpp>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/sanitizers.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(generations_killed_tests)

using namespace halfstep;

namespace {

/// Five tensors that say the same, so that a mix of two generations would show.
StateFile state(std::int64_t number, std::int64_t writer = 0) {
  const std::vector<std::int64_t> values(3000, number);
  const auto bytes = std::as_bytes(std::span(values));
  StateFile file{{}, {{"number", std::to_string(number)}, {"writer", std::to_string(writer)}}};
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    file.tensors.push_back({name, DType::i64, {3000}, {bytes.begin(), bytes.end()}});
  }
  return file;
}

bool same(const StateFile& a, const StateFile& b) {
  return a.metadata == b.metadata && a.tensors.size() == b.tensors.size() &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), [](const auto& x, const auto& y) {
           return x.name == y.name && x.shape == y.shape && x.bytes == y.bytes;
         });
}

bool has_temporaries(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with('.')) return true;
  }
  return false;
}

/// Of those that are killed a sanitizer hears nothing.
constexpr int lives = test::under_sanitizers ? 100 : 500;

/// Microseconds for up to three saves on this disk, so that deaths fall everywhere in them.
int lifetime() {
  const test::TemporaryFolder folder;
  Generations generations(folder.path());
  const auto begin = std::chrono::steady_clock::now();
  for (int number = 1; number <= 4; ++number) generations.save(number, state(number));
  const auto saves = std::chrono::steady_clock::now() - begin;
  const auto most = std::chrono::duration_cast<std::chrono::microseconds>(saves) / 4 * 3;
  return static_cast<int>((std::min)(most.count() + 2000, std::chrono::microseconds::rep{40'000}));
}

/// Saves from the newest generation on, until it is killed; a byte to `published` after each save.
void save_forever(const std::filesystem::path& folder, int published) {
  Generations generations(folder, {.keep_last = 2});
  const auto latest = generations.load_latest();
  for (std::int64_t number = latest ? latest->number + 1 : 1;; ++number) {
    generations.save(number, state(number));
    if (::write(published, "x", 1) != 1) return;
  }
}

/// A child process that runs `work`, which no exception of it leaves: it would run on through the other tests.
template <class Work>
::pid_t child(const Work& work) {
  const ::pid_t process = ::fork();
  if (process == 0) {
    try {
      work();
    } catch (...) {
    }
    ::_exit(1);
  }
  BOOST_REQUIRE(process > 0);
  return process;
}

int kill_and_wait(::pid_t process) {
  ::kill(process, SIGKILL);
  int status = 0;
  BOOST_REQUIRE(::waitpid(process, &status, 0) == process);
  return status;
}

}  // namespace

BOOST_AUTO_TEST_CASE(killed_anywhere_hundreds_of_times_it_always_has_a_complete_generation) {
  const test::TemporaryFolder folder;
  const Generations generations(folder.path());
  std::mt19937 random(7);
  std::uniform_int_distribution<int> microseconds(0, lifetime());
  std::int64_t before = 0, saves = 0;
  int with_temporaries = 0, unreported = 0;
  for (int kill = 0; kill < lives; ++kill) {
    int pipe[2];
    BOOST_REQUIRE(::pipe(pipe) == 0);
    const ::pid_t process = child([&] { save_forever(folder.path(), pipe[1]); });
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    const int status = kill_and_wait(process);
    BOOST_REQUIRE(WIFSIGNALED(status));
    ::close(pipe[1]);
    std::int64_t reported = before;
    char report;
    while (::read(pipe[0], &report, 1) == 1) ++reported;
    ::close(pipe[0]);

    with_temporaries += has_temporaries(folder.path()) ? 1 : 0;
    const auto latest = generations.load_latest();
    if (!latest) {
      BOOST_REQUIRE(reported == 0);
      continue;
    }
    // It may have died between publishing and reporting.
    BOOST_REQUIRE((latest->number == reported || latest->number == reported + 1));
    BOOST_REQUIRE(latest->skipped.empty());
    BOOST_REQUIRE(same(latest->file, state(latest->number)));
    unreported += latest->number == reported + 1 ? 1 : 0;
    saves += latest->number - before;
    before = latest->number;
  }
  BOOST_TEST_MESSAGE(saves << " generations in " << lives << " lives, " << with_temporaries << " deaths within a save, "
                           << unreported << " between a save and its report");
  BOOST_TEST(saves > 0);
  BOOST_TEST(with_temporaries > 0);

  // One more life, and the folder is in order.
  Generations(folder.path(), {.keep_last = 2}).save(before + 1, state(before + 1));
  BOOST_TEST(!has_temporaries(folder.path()));
  BOOST_TEST(generations.list().size() <= 2u);
}

BOOST_AUTO_TEST_CASE(two_processes_that_save_at_once_never_make_a_mix) {
  const test::TemporaryFolder folder;
  const Generations generations(folder.path(), {.keep_last = 3});
  const auto writer = [&](std::int64_t which) {
    return child([&, which] {
      Generations own(folder.path(), {.keep_last = 3});
      for (std::int64_t number = 1;; ++number) own.save(number, state(number, which));
    });
  };
  const ::pid_t first = writer(1), second = writer(2);
  int loaded = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < end || loaded < 20) {
    const auto latest = generations.load_latest();
    if (!latest) continue;
    BOOST_REQUIRE(latest->skipped.empty());
    const StateFile& file = latest->file;
    const bool of_first = file.metadata.at("writer") == "1";
    BOOST_REQUIRE(same(file, state(latest->number, of_first ? 1 : 2)));
    ++loaded;
  }
  // Neither has met an error: both lived until now.
  BOOST_TEST(WIFSIGNALED(kill_and_wait(first)));
  BOOST_TEST(WIFSIGNALED(kill_and_wait(second)));
}

BOOST_AUTO_TEST_SUITE_END()
