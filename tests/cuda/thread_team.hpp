#pragma once

#include <barrier>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <halfstep/compute/cuda_team.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace halfstep::test {

/// A team of threads of the CPU, which does for a kernel what compute::Team does on a GPU: the emulated device has
/// teams of one thread, to whom it does not matter who reads what another has written, and when. Built with
/// ThreadSanitizer every access that nothing orders is reported; without it, those that come out wrong.
class ThreadTeam {
 public:
  static constexpr int threads = 4;

  /// What a thread waits for the others at. It must be the same for all: on a GPU that some threads of a team do not
  /// come to is undefined.
  enum class Meeting { synchronize, values_are_there, values_are_read, end_of_task };

  struct Shared {
    struct Compare {
      Shared* shared;
      void operator()() noexcept {
        for (const Meeting meeting : shared->meetings) shared->went_apart |= meeting != shared->meetings[0];
      }
    };
    Meeting meetings[threads] = {};
    bool went_apart = false;
    std::byte values[threads][128];
    std::barrier<Compare> barrier{threads, Compare{this}};
  };

  ThreadTeam(Shared& shared, int rank) : shared_(&shared), rank_(rank) {}

  int rank() const { return rank_; }
  static constexpr int size() { return threads; }
  bool leads() const { return rank_ == 0; }
  void synchronize() const { meet(Meeting::synchronize); }
  void meet(Meeting meeting) const {
    shared_->meetings[rank_] = meeting;
    shared_->barrier.arrive_and_wait();
  }

  template <class Function>
  void for_each(std::int64_t n, const Function& function) const {
    for (std::int64_t i = rank_; i < n; i += threads) function(i);
  }
  template <class Load, class Store>
  void for_each(std::int64_t n, const Load& load, const Store& store) const {
    for_each(n, [&](std::int64_t i) { store(i, load(i)); });
  }
  template <class T, class Combine>
  T combine(T value, const Combine& combine) const {
    static_assert(sizeof(T) <= sizeof(Shared::values[0]));
    for (int distance = threads / 2; distance > 0; distance /= 2) {
      std::memcpy(shared_->values[rank_], &value, sizeof(T));
      meet(Meeting::values_are_there);
      T other;
      std::memcpy(&other, shared_->values[rank_ ^ distance], sizeof(T));
      meet(Meeting::values_are_read);
      value = combine(value, other);
    }
    return value;
  }
  template <class T, class Transform, class Combine>
  T reduce(std::int64_t n, const Transform& transform, T identity, const Combine& combine_two) const {
    T mine = identity;
    for_each(n, [&](std::int64_t i) { mine = combine_two(mine, static_cast<T>(transform(i))); });
    return combine(mine, combine_two);
  }

 private:
  Shared* shared_;
  int rank_;
};

/// Runs all tasks of a kernel whose memory is the program's, each by all threads of a team, by two teams at the same
/// time that take tasks in turn.
template <class Kernel>
void run_by_teams(std::int64_t tasks, const Kernel& kernel) {
  constexpr int teams = 2;
  std::unique_ptr<ThreadTeam::Shared> shared[teams];
  for (auto& of_team : shared) of_team = std::make_unique<ThreadTeam::Shared>();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < teams * ThreadTeam::threads; ++i) {
      threads.emplace_back([&shared, &kernel, tasks, i] {
        ThreadTeam::Shared& of_team = *shared[i % teams];
        const ThreadTeam team(of_team, i / teams);
        for (std::int64_t task = i % teams; task < tasks; task += teams) {
          kernel.run(team, task);
          team.meet(ThreadTeam::Meeting::end_of_task);
        }
        // Whoever waits for this thread by mistake waits no longer.
        of_team.barrier.arrive_and_drop();
      });
    }
  }
  for (const auto& of_team : shared) BOOST_TEST(!of_team->went_apart, "all threads of a team come to what all must");
}
template <class Kernel>
void run_by_teams(const Kernel& kernel) {
  run_by_teams(kernel.team_tasks(), kernel);
}

/// Runs all tasks of a kernel by teams of one thread.
template <class Kernel>
void run_by_one(std::int64_t tasks, const Kernel& kernel) {
  for (std::int64_t task = 0; task < tasks; ++task) kernel.run(compute::Block{}, task);
}

template <int Threads>
struct RunBy {
  template <class Kernel>
  void operator()(std::int64_t tasks, const Kernel& kernel) const {
    if constexpr (Threads == 1) {
      run_by_one(tasks, kernel);
    } else {
      run_by_teams(tasks, kernel);
    }
  }
  template <class Kernel>
  void operator()(const Kernel& kernel) const {
    (*this)(kernel.team_tasks(), kernel);
  }
};

/// Calls `run(results, by)` on copies of `before`, once with a `by` that runs kernels by teams of one thread, and twice
/// with one that runs them by teams of threads: `by(kernel)`, or `by(tasks, kernel)` for a kernel that does not
/// know its tasks. Each time `check(teams, one)` is shown what they made of it.
template <class Results, class Run, class Check>
void compare_with_one_thread(const Results& before, const Run& run, const Check& check) {
  Results one = before;
  run(one, RunBy<1>{});
  for (int repetition = 0; repetition < 2; ++repetition) {
    Results teams = before;
    run(teams, RunBy<ThreadTeam::threads>{});
    check(teams, one);
  }
}

/// What kernels write to in tests: numbers that no kernel writes.
constexpr float never_written = -77.0f;
inline std::vector<float> blank(std::int64_t size) {
  return std::vector<float>(static_cast<std::size_t>(size), never_written);
}

}  // namespace halfstep::test
