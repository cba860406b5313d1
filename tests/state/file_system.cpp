#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <halfstep/state/file_system.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "state/file_bytes.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(file_system_tests)

using namespace halfstep;

namespace {

/// The errno that a call fails with; 0 if it does not.
template <class Call>
int error_of(const Call& call) {
  try {
    call();
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_is_written_once_and_read_anywhere) {
  const test::TemporaryFolder folder;
  FileSystem& files = system_files();
  const auto path = folder / "file";
  const auto file = files.create(path);
  BOOST_TEST(error_of([&] { files.create(path); }) == EEXIST);
  detail::write_all(files, file, test::bytes_of("0123456789"));
  files.fsync(file);
  files.close(file);

  const auto opened = files.open(path);
  BOOST_TEST(files.size(opened) == 10);
  std::string text(4, '\0');
  BOOST_TEST(files.read(opened, 3, std::as_writable_bytes(std::span(text))) == 4u);
  BOOST_TEST(text == "3456");
  BOOST_TEST(detail::read_all(files, opened, 8, std::as_writable_bytes(std::span(text))) == 2u);
  BOOST_TEST(files.read(opened, 10, std::as_writable_bytes(std::span(text))) == 0u);
  files.close(opened);
  BOOST_TEST(error_of([&] { files.close(opened); }) == EBADF);

  files.rename(path, folder / "other");
  BOOST_TEST((files.list(folder.path()) == std::vector<std::string>{"other"}));
  files.unlink(folder / "other");
  BOOST_TEST(error_of([&] { files.unlink(folder / "other"); }) == ENOENT);
  BOOST_TEST(error_of([&] { files.open(path); }) == ENOENT);
  BOOST_TEST(error_of([&] { files.list(path); }) == ENOENT);
}

BOOST_AUTO_TEST_CASE(only_a_regular_file_has_a_size) {
  const test::TemporaryFolder folder;
  FileSystem& files = system_files();
  const detail::OpenFile opened(files, files.open_directory(folder.path()));
  BOOST_TEST(error_of([&] { files.size(opened.get()); }) == EISDIR);
  BOOST_TEST(error_of([&] { files.open_directory(folder / "nothing"); }) == ENOENT);
  test::put(folder / "file", "x");
  BOOST_TEST(error_of([&] { files.open_directory(folder / "file"); }) == ENOTDIR);
}

BOOST_AUTO_TEST_CASE(a_folder_is_made_once) {
  const test::TemporaryFolder folder;
  BOOST_TEST(system_files().mkdir(folder / "new"));
  BOOST_TEST(!system_files().mkdir(folder / "new"));
  test::put(folder / "file", "x");
  BOOST_TEST(error_of([&] { system_files().mkdir(folder / "file"); }) == EEXIST);
  BOOST_TEST(error_of([&] { system_files().mkdir(folder / "no/new"); }) == ENOENT);
}

BOOST_AUTO_TEST_CASE(a_lock_is_shared_or_alone_and_ends_with_the_file) {
  const test::TemporaryFolder folder;
  FileSystem& files = system_files();
  detail::OpenFile a(files, files.open_directory(folder.path())),
      b(files, files.open_directory(folder.path()));
  BOOST_TEST(files.lock(a.get(), FileSystem::Lock::exclusive_if_free));
  BOOST_TEST(!files.lock(b.get(), FileSystem::Lock::exclusive_if_free));
  BOOST_TEST(files.lock(a.get(), FileSystem::Lock::shared));
  BOOST_TEST(files.lock(b.get(), FileSystem::Lock::shared));
  BOOST_TEST(!files.lock(b.get(), FileSystem::Lock::exclusive_if_free));
  a.close();
  BOOST_TEST(files.lock(b.get(), FileSystem::Lock::exclusive_if_free));
}

namespace {
std::atomic<int> alarms{0};
}

BOOST_AUTO_TEST_CASE(a_call_that_signals_interrupt_is_made_again) {
  const test::TemporaryFolder folder;
  FileSystem& files = system_files();
  // A child holds the lock for a while; the call that waits for it is interrupted many times meanwhile.
  int ready[2];
  BOOST_REQUIRE(::pipe(ready) == 0);
  const ::pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    files.lock(files.open_directory(folder.path()), FileSystem::Lock::exclusive_if_free);
    const char go = 'g';
    if (::write(ready[1], &go, 1) != 1) ::_exit(1);
    ::usleep(100'000);
    ::_exit(0);
  }
  char go = 0;
  BOOST_REQUIRE(::read(ready[0], &go, 1) == 1);

  struct ::sigaction action = {}, before = {};
  action.sa_handler = [](int) { ++alarms; };
  ::sigaction(SIGALRM, &action, &before);  // without SA_RESTART
  const ::itimerval often{{0, 2000}, {0, 2000}}, never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  const detail::OpenFile opened(files, files.open_directory(folder.path()));
  const bool locked = files.lock(opened.get(), FileSystem::Lock::shared);
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  BOOST_TEST(locked);
  BOOST_TEST(alarms > 0);
  BOOST_TEST(::waitpid(child, nullptr, 0) == child);
  ::close(ready[0]);
  ::close(ready[1]);
}

BOOST_AUTO_TEST_CASE(a_write_that_takes_nothing_is_an_error_and_no_endless_loop) {
  struct Stuck : FileSystem {
    std::size_t write(File, std::span<const std::byte>) override { return 0; }
  } files;
  BOOST_TEST(error_of([&] { detail::write_all(files, -1, test::bytes_of("x")); }) == EIO);
}

BOOST_AUTO_TEST_SUITE_END()
