#pragma once

#include <cstdint>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>
#include <utility>

namespace halfstep::detail {

/// Calls `function(k, j)` for each element j of a row that the calling thread works on, where a thread has
/// `Most` at most; k is known to the compiler.
template <int Most, class Team, class Function>
HALFSTEP_HOST_DEVICE inline void for_each_kept(const Team& team, std::int64_t width, const Function& function) {
  constexpr int step = 4;
  static_assert(Most % step == 0);
  HALFSTEP_UNROLL
  for (int group = 0; group < Most; group += step) {
    if (group * team.size() >= width) break;
    HALFSTEP_UNROLL
    for (int k = group; k < group + step; ++k) {
      const std::int64_t j = team.rank() + k * team.size();
      if (j < width) function(k, j);
    }
  }
}

template <int Most, class Team>
HALFSTEP_HOST_DEVICE constexpr bool is_row_kept(const Team& team, std::int64_t width) {
  return width <= std::int64_t{Most} * team.size();
}

/// A row that a team goes through several times. Each thread keeps what `load(j)` gave for its elements in
/// registers, so that the row is read from memory once; a row of more than `Most` elements a thread is loaded
/// each time.
template <class Team, int Most, class Load>
class TeamRow {
 public:
  using Value = decltype(std::declval<const Load&>()(std::int64_t{}));

  HALFSTEP_HOST_DEVICE TeamRow(const Team& team, std::int64_t width, const Load& load)
      : team_(team), load_(load), width_(width) {
    if (is_row_kept<Most>(team, width)) {
      for_each_kept<Most>(team, width, [&](int k, std::int64_t j) { kept_[k] = load(j); });
    }
  }

  HALFSTEP_HOST_DEVICE std::int64_t width() const { return width_; }

  /// Calls `function(k, j, value)` for each of the calling thread's elements; k counts them where they are
  /// kept.
  template <class Function>
  HALFSTEP_HOST_DEVICE void for_each(const Function& function) const {
    if (is_row_kept<Most>(team_, width_)) {
      for_each_kept<Most>(team_, width_, [&](int k, std::int64_t j) { function(k, j, kept_[k]); });
    } else {
      team_.for_each(width_, [&](std::int64_t j) { function(0, j, load_(j)); });
    }
  }

  /// The same for `store(j, compute(j, value))`. Several are computed before the first is stored, see
  /// Team::for_each.
  template <class Compute, class Store>
  HALFSTEP_HOST_DEVICE void for_each(const Compute& compute, const Store& store) const {
    if (!is_row_kept<Most>(team_, width_)) {
      return team_.for_each(
          width_, [&](std::int64_t j) { return compute(j, load_(j)); }, store);
    }
    constexpr int step = 4;
    HALFSTEP_UNROLL
    for (int group = 0; group < Most; group += step) {
      if (group * team_.size() >= width_) break;
      decltype(compute(std::int64_t{}, kept_[0])) computed[step];
      HALFSTEP_UNROLL
      for (int k = 0; k < step; ++k) {
        const std::int64_t j = team_.rank() + (group + k) * team_.size();
        if (j < width_) computed[k] = compute(j, kept_[group + k]);
      }
      HALFSTEP_UNROLL
      for (int k = 0; k < step; ++k) {
        const std::int64_t j = team_.rank() + (group + k) * team_.size();
        if (j < width_) store(j, computed[k]);
      }
    }
  }

  /// The mean of `term(value)` over the row, in every thread.
  template <class Term>
  HALFSTEP_HOST_DEVICE float mean(const Term& term) const {
    float mine = 0.0f;
    for_each([&](int, std::int64_t, const Value& value) { mine += term(value); });
    return team_.combine(mine, compute::Plus{}) / static_cast<float>(width_);
  }

 private:
  Team team_;
  Load load_;
  std::int64_t width_;
  Value kept_[Most];
};

/// Sums over several rows, one for each column: in registers where TeamRow keeps its rows there, else in
/// memory.
template <class Team, int Most>
class TeamColumnSums {
 public:
  /// With `sums` null nothing is summed up.
  HALFSTEP_HOST_DEVICE TeamColumnSums(const Team& team, std::int64_t width, float* sums)
      : team_(team), sums_(sums), width_(width) {
    if (sums == nullptr) return;
    if (is_row_kept<Most>(team, width)) {
      HALFSTEP_UNROLL
      for (int k = 0; k < Most; ++k) kept_[k] = 0.0f;
    } else {
      team.for_each(width, [&](std::int64_t j) { sums[j] = 0.0f; });
    }
  }
  HALFSTEP_HOST_DEVICE void add(int k, std::int64_t j, float value) {
    if (sums_ == nullptr) return;
    if (is_row_kept<Most>(team_, width_)) {
      kept_[k] += value;
    } else {
      sums_[j] += value;
    }
  }
  HALFSTEP_HOST_DEVICE void store() const {
    if (sums_ == nullptr || !is_row_kept<Most>(team_, width_)) return;
    for_each_kept<Most>(team_, width_, [&](int k, std::int64_t j) { sums_[j] = kept_[k]; });
  }

 private:
  Team team_;
  float* sums_;
  std::int64_t width_;
  float kept_[Most];
};

}  // namespace halfstep::detail
