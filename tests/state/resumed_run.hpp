#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>
#if defined(_OPENMP)
#include <omp.h>
#endif

#include <halfstep/state/checkpoints.hpp>

#include "state/ring_trainers.hpp"

// N + M micro-batches in one go must leave the same bytes as N, a save, a new process, a load, and M. Every run here is
// a process of its own; the test only compares files.

namespace halfstep::test {

struct Plan {
  std::int64_t before;        ///< micro-batches until the save
  std::int64_t after;         ///< and after it
  std::int64_t window;        ///< micro-batches a window
  int threads_after = 1;
};

inline std::filesystem::path folder_of(const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path() / ("halfstep-resume-" + std::to_string(getpid()) + name);
  std::filesystem::remove_all(folder);
  return folder;
}

/// In a thread of the new process: OpenMP has threads for it, where those of the old process's threads are gone.
inline void in_new_process(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    const auto run = [&] {
      try {
        work();
        code = 0;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
    };
    try {
      std::thread(run).join();
    } catch (const std::exception& error) {  // or the child would run on through the other tests
      std::fprintf(stderr, "no thread: %s\n", error.what());
    }
    std::_Exit(code);
  }
  int status = 0;
  BOOST_REQUIRE(waitpid(child, &status, 0) == child);
  BOOST_REQUIRE(status == 0);
}

inline void use_threads(int count) {
#if defined(_OPENMP)
  omp_set_num_threads(count);
#else
  (void)count;
#endif
}

template <class T>
class ResumedRun {
 public:
  explicit ResumedRun(T trainer) : trainer_(std::move(trainer)), loader_(data_, {.batch_size = 4}, Shuffled(5)) {}

  void go(std::int64_t micro_batches, std::int64_t window) {
    for (std::int64_t done = 0; done < micro_batches;) {
      if (auto* batch = loader_.next()) {
        trainer_.accumulate(*batch);
        ++done;
        if (++in_window_ % window == 0) trainer_.update();
      }
    }
  }
  void save(const std::filesystem::path& folder) {
    trainer_.save(folder, CaptureOptions{.data = loader_.position(), .user = in_window_});
  }
  void load(const std::filesystem::path& folder) {
    const Resumed resumed = trainer_.load(folder);
    loader_.seek(resumed.data.value());
    in_window_ = resumed.user.template get<std::int64_t>();
  }

 private:
  Rings data_;
  T trainer_;
  Loader<Rings> loader_;
  std::int64_t in_window_ = 0;
};

inline std::string bytes_of_newest(const std::filesystem::path& folder) {
  const auto newest = Generations(folder).latest();
  BOOST_REQUIRE(newest.has_value());
  std::ifstream file(newest->path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Make>
void resumes_exactly(const Make& make, const Plan& plan) {
  const auto whole = folder_of("-whole"), half = folder_of("-half"), joined = folder_of("-joined");
  using RunType = ResumedRun<decltype(make())>;
  in_new_process([&] {
    RunType run(make());
    run.go(plan.before + plan.after, plan.window);
    run.save(whole);
  });
  in_new_process([&] {
    RunType run(make());
    run.go(plan.before, plan.window);
    run.save(half);
  });
  in_new_process([&] {
    use_threads(plan.threads_after);
    RunType run(make());
    run.load(half);
    run.go(plan.after, plan.window);
    run.save(joined);
  });
  const std::string expected = bytes_of_newest(whole);
  BOOST_TEST(expected.size() > 1000u);
  BOOST_TEST((expected == bytes_of_newest(joined)));
  BOOST_TEST((expected != bytes_of_newest(half)));
  for (const auto& folder : {whole, half, joined}) std::filesystem::remove_all(folder);
}

template <class Policy, class Optimizer>
auto trainer(Optimizer optimizer) {
  return [optimizer] {
    return Trainer<RingModel, Optimizer, Policy>{RingModel{}, optimizer, {.clip_norm = 0.5f, .seed = 11}};
  };
}

// 44 samples in batches of 4: 11 batches an epoch, four of them with an infinite sample.
inline constexpr Plan before_any_update{0, 20, 1};
inline constexpr Plan amid_the_skips_at_the_start{2, 40, 1};
inline constexpr Plan in_a_later_epoch{26, 33, 2};
inline constexpr Plan in_the_middle_of_a_window{31, 30, 3};
inline constexpr Plan on_other_threads{24, 24, 2, 2};
inline constexpr Plan plans[] = {before_any_update, amid_the_skips_at_the_start, in_a_later_epoch,
                                 in_the_middle_of_a_window, on_other_threads};

inline constexpr Schedule schedules[] = {constant(1e-2),
                                         warmup_constant(1e-2, 5),
                                         warmup_linear(1e-2, 5, 60, 1e-4),
                                         warmup_cosine(1e-2, 5, 60),
                                         step_decay(1e-2, 10, 0.5),
                                         exponential(1e-2, 0.98),
                                         one_cycle(1e-2, 80),
                                         inverse_square_root(1e-2, 5)};

}  // namespace halfstep::test
