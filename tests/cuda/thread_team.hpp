#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace halfstep::test {

/// A team of threads of the CPU, which does for a kernel what compute::Team does on a GPU: the emulated device has
/// teams of one thread, to whom it does not matter who reads what another has written, and when.
class ThreadTeam {
 public:
  static constexpr int threads = 4;

  struct Shared {
    std::barrier<> barrier{threads};
    std::byte values[threads][128];
  };

  ThreadTeam(Shared& shared, int rank) : shared_(&shared), rank_(rank) {}

  int rank() const { return rank_; }
  static constexpr int size() { return threads; }
  bool leads() const { return rank_ == 0; }
  void synchronize() const { shared_->barrier.arrive_and_wait(); }

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
      synchronize();
      T other;
      std::memcpy(&other, shared_->values[rank_ ^ distance], sizeof(T));
      synchronize();
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

/// Runs all tasks of a kernel whose memory is the program's, each by all threads of a team.
template <class Kernel>
void run_by_teams(const Kernel& kernel) {
  ThreadTeam::Shared shared;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ThreadTeam::threads; ++rank) {
    threads.emplace_back([&shared, &kernel, rank] {
      const ThreadTeam team(shared, rank);
      for (std::int64_t task = 0; task < kernel.team_tasks(); ++task) {
        kernel.run(team, task);
        team.synchronize();
      }
    });
  }
}

}  // namespace halfstep::test
