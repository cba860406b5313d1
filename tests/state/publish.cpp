#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <halfstep/state/publish.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "state/faulty_files.hpp"
#include "state/file_bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(publish_tests)

using namespace halfstep;
using test::content;
using test::FaultyFiles;
using test::holds;

namespace {

/// In three pieces, the middle one larger than the buffer that gathers small ones.
std::string large_text(char letter) { return std::string(200'000, letter); }

void publish_text(FileSystem& files, const std::filesystem::path& path, std::string_view text) {
  publish(files, path, [&](const ByteSink& sink) {
    sink(test::bytes_of(text.substr(0, 10)));
    sink(test::bytes_of(text.substr(10, 150'000)));
    sink(test::bytes_of(text.substr(150'010)));
  });
}

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_appears_and_is_replaced_and_nothing_else_stays) {
  const test::TemporaryFolder folder;
  publish_text(system_files(), folder / "state", large_text('a'));
  BOOST_TEST(content(folder / "state") == large_text('a'));
  publish_text(system_files(), folder / "state", large_text('b'));
  BOOST_TEST(content(folder / "state") == large_text('b'));
  publish(system_files(), folder / "empty", [](const ByteSink&) {});
  BOOST_TEST(content(folder / "empty") == "");
  BOOST_TEST((names_in(folder.path()) == std::set<std::string>{"empty", "state"}));
}

BOOST_AUTO_TEST_CASE(the_data_are_on_the_disk_before_the_name_and_the_name_before_the_return) {
  const test::TemporaryFolder folder;
  FaultyFiles files;
  publish_text(files, folder / "state", large_text('a'));
  BOOST_TEST(
      joined(files.calls) ==
      "open_directory lock list lock create write write write fsync close rename fsync_directory close");
}

BOOST_AUTO_TEST_CASE(a_path_without_folder_means_the_current_one) {
  const test::TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  publish_text(system_files(), "state", large_text('a'));
  std::filesystem::current_path(before);
  BOOST_TEST((names_in(folder.path()) == std::set<std::string>{"state"}));
}

BOOST_AUTO_TEST_CASE(writes_that_take_less_than_was_given_are_continued) {
  const test::TemporaryFolder folder;
  FaultyFiles files;
  files.transfer_at_most(1000);
  publish_text(files, folder / "state", large_text('a'));
  BOOST_TEST(content(folder / "state") == large_text('a'));
}

BOOST_AUTO_TEST_CASE(a_fault_at_any_call_leaves_the_old_file_or_the_new_one_and_the_next_save_succeeds) {
  using Fault = FaultyFiles::Fault;
  for (const Fault fault : {Fault::once, Fault::done, Fault::ever_after}) {
    for (const int error : {ENOSPC, EIO}) {
      int failed = 0, at = 0;
      for (;; ++at) {
        const test::TemporaryFolder folder;
        const auto path = folder / "state";
        FaultyFiles files;
        files.transfer_at_most(60'000);
        publish_text(files, path, large_text('a'));
        files.fail_at(at, fault, error);
        bool thrown = false;
        try {
          publish_text(files, path, large_text('b'));
        } catch (const CheckpointError& caught) {
          thrown = true;
          ++failed;
          const std::string message = caught.what();
          BOOST_TEST(holds(message, path.string()), message);
          BOOST_TEST(holds(message, std::strerror(error)), message);
          BOOST_TEST(
              (holds(message, "the previous generation is untouched") || holds(message, "is in place")),
              message);
        }
        const bool all_made = static_cast<int>(files.calls.size()) <= at;
        files.fail_no_more();
        const std::string found = content(path);
        BOOST_TEST((found == large_text(thrown ? 'a' : 'b') || (thrown && found == large_text('b'))));
        // Only a rename that happened, and what comes after it, may leave the new file behind an error.
        if (thrown && found == large_text('b')) {
          BOOST_TEST((files.calls.back() == "unlink" || files.calls.back() == "close"));
        }
        if (fault == Fault::once) BOOST_TEST(names_in(folder.path()).size() == 1u);
        publish_text(files, path, large_text('c'));
        BOOST_TEST(content(path) == large_text('c'));
        BOOST_TEST(names_in(folder.path()).size() == 1u);
        if (all_made) break;
      }
      BOOST_TEST(at > 10);
      BOOST_TEST(failed >= 8);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_message_says_what_became_of_the_file) {
  const test::TemporaryFolder folder;
  FaultyFiles files;
  const auto message_of = [&](const char* call, int error) {
    files.fail_calls_named(call, error);
    return test::refusal<CheckpointError>([&] { publish_text(files, folder / "state", large_text('a')); });
  };
  const std::string full = message_of("write", ENOSPC);
  BOOST_TEST(
      full ==
      "cannot save " + (folder / "state").string() +
          ": write: No space left on device; the previous generation is untouched; free some space, or "
          "save elsewhere");
  BOOST_TEST(holds(message_of("create", EACCES), "may write in the folder"));
  BOOST_TEST(holds(message_of("create", EROFS), "may write in the folder"));
  BOOST_TEST(holds(message_of("rename", EIO), "see to the disk"));
  BOOST_TEST(names_in(folder.path()).empty());
  BOOST_TEST(holds(message_of("fsync_directory", EIO), "the new file is in place, but a loss of power may"));
  BOOST_TEST((names_in(folder.path()) == std::set<std::string>{"state"}));
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_not_there_is_said_to_be_missing) {
  const test::TemporaryFolder folder;
  const std::string message =
      test::refusal<CheckpointError>([&] { publish_text(system_files(), folder / "no/state", "a"); });
  BOOST_TEST(holds(message, "see that the folder exists"), message);
}

BOOST_AUTO_TEST_CASE(a_disk_that_is_full_in_earnest) {
  // Every write to this device finds the disk full.
  if (!std::filesystem::exists("/dev/full")) {
    BOOST_TEST_MESSAGE("no /dev/full here: skipped");
    return;
  }
  struct FullDisk : FileSystem {
    File create(const std::filesystem::path& path) override {
      FileSystem::close(FileSystem::create(path));
      return ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    }
  } files;
  const test::TemporaryFolder folder;
  publish_text(system_files(), folder / "state", large_text('a'));
  const std::string message =
      test::refusal<CheckpointError>([&] { publish_text(files, folder / "state", large_text('b')); });
  BOOST_TEST(holds(message, std::strerror(ENOSPC)), message);
  BOOST_TEST(content(folder / "state") == large_text('a'));
  BOOST_TEST(names_in(folder.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_file_that_the_system_lets_grow_no_further) {
  const test::TemporaryFolder folder;
  publish_text(system_files(), folder / "state", large_text('a'));
  ::rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::rlimit small = before;
  small.rlim_cur = 100'000;
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string message;
  try {
    publish_text(system_files(), folder / "state", large_text('b'));
  } catch (const CheckpointError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  BOOST_TEST(holds(message, std::strerror(EFBIG)), message);
  BOOST_TEST(content(folder / "state") == large_text('a'));
  BOOST_TEST(names_in(folder.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_folder_that_may_not_be_written) {
  if (::geteuid() == 0) {
    BOOST_TEST_MESSAGE("this user may write everywhere: skipped, the fault at any call covers it");
    return;
  }
  const test::TemporaryFolder folder;
  publish_text(system_files(), folder / "state", large_text('a'));
  std::filesystem::permissions(folder.path(),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const std::string message = test::refusal<CheckpointError>(
      [&] { publish_text(system_files(), folder / "state", large_text('b')); });
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  BOOST_TEST(holds(message, std::strerror(EACCES)), message);
  BOOST_TEST(content(folder / "state") == large_text('a'));
}

BOOST_AUTO_TEST_CASE(an_error_of_the_writer_itself_comes_through_and_changes_nothing) {
  const test::TemporaryFolder folder;
  publish_text(system_files(), folder / "state", large_text('a'));
  BOOST_CHECK_EXCEPTION(publish(system_files(), folder / "state",
                                [](const ByteSink& sink) {
                                  sink(test::bytes_of(large_text('b')));
                                  throw std::logic_error("of the writer");
                                }),
                        std::logic_error,
                        [](const auto& error) { return error.what() == std::string("of the writer"); });
  BOOST_TEST(content(folder / "state") == large_text('a'));
  BOOST_TEST(names_in(folder.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(left_overs_are_removed_and_other_files_are_not) {
  const test::TemporaryFolder folder;
  for (const char* name : {".state.99-0.halfstep-partial", ".other.1-7.halfstep-partial",
                           "mine.halfstep-partial", ".hidden", ".state.99-0.partial", "notes.txt"}) {
    test::put(folder / name, "x");
  }
  publish_text(system_files(), folder / "state", large_text('a'));
  BOOST_TEST(
      (names_in(folder.path()) == std::set<std::string>{".hidden", ".state.99-0.partial",
                                                        "mine.halfstep-partial", "notes.txt", "state"}));
}

BOOST_AUTO_TEST_CASE(the_temporaries_of_one_that_is_saving_stay) {
  const test::TemporaryFolder folder;
  publish(system_files(), folder / "outer", [&](const ByteSink& sink) {
    sink(test::bytes_of("outer"));
    publish_text(system_files(), folder / "inner", large_text('a'));
    BOOST_TEST(names_in(folder.path()).size() == 2u);
  });
  BOOST_TEST(content(folder / "outer") == "outer");
  BOOST_TEST(content(folder / "inner") == large_text('a'));
}

BOOST_AUTO_TEST_CASE(the_same_file_published_while_it_is_being_published_is_the_one_that_is_renamed_last) {
  const test::TemporaryFolder folder;
  publish(system_files(), folder / "state", [&](const ByteSink& sink) {
    sink(test::bytes_of("outer"));
    publish_text(system_files(), folder / "state", large_text('a'));
    BOOST_TEST(content(folder / "state") == large_text('a'));
  });
  BOOST_TEST(content(folder / "state") == "outer");
  BOOST_TEST(names_in(folder.path()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(folders_that_cannot_be_locked_are_saved_in_all_the_same) {
  const test::TemporaryFolder folder;
  FaultyFiles files;
  test::put(folder / ".state.99-0.halfstep-partial", "of somebody who may be alive");
  files.fail_calls_named("lock", ENOLCK);
  publish_text(files, folder / "state", large_text('a'));
  BOOST_TEST(content(folder / "state") == large_text('a'));
  BOOST_TEST(names_in(folder.path()).size() == 2u);
}

BOOST_AUTO_TEST_CASE(no_descriptor_is_left_open) {
  const test::TemporaryFolder folder;
  const auto lowest_free = [] {
    const int file = ::dup(0);
    ::close(file);
    return file;
  };
  const int before = lowest_free();
  FaultyFiles files;
  for (int at = 0; at < 16; ++at) {
    files.fail_at(at, FaultyFiles::Fault::once, EIO);
    try {
      publish_text(files, folder / "state", large_text('a'));
    } catch (const CheckpointError&) {
    }
  }
  BOOST_TEST(lowest_free() == before);
}

BOOST_AUTO_TEST_CASE(a_folder_is_made_with_those_above_it) {
  const test::TemporaryFolder folder;
  FaultyFiles files;
  make_folder(files, folder / "a/b/c");
  BOOST_TEST(std::filesystem::is_directory(folder / "a/b/c"));
  // Each one is on the disk before the next is made in it.
  BOOST_TEST(joined(files.calls) ==
             "mkdir mkdir mkdir open_directory fsync_directory close mkdir open_directory fsync_directory "
             "close mkdir "
             "open_directory fsync_directory close");
  files.calls.clear();
  make_folder(files, folder / "a/b/c/");
  BOOST_TEST(joined(files.calls) == "mkdir");

  test::put(folder / "file", "x");
  const std::string message =
      test::refusal<CheckpointError>([&] { make_folder(system_files(), folder / "file"); });
  BOOST_TEST(holds(message, (folder / "file").string()), message);
  BOOST_CHECK_THROW(make_folder(system_files(), folder / "file/below"), CheckpointError);
  files.fail_calls_named("mkdir", ENOSPC);
  BOOST_CHECK_THROW(make_folder(files, folder / "d"), CheckpointError);
}

BOOST_AUTO_TEST_SUITE_END()
