#pragma once

#include <cstdint>

#include <halfstep/compute/cuda_for_each.hpp>
#include <halfstep/device/arena.hpp>

namespace halfstep::compute {

namespace detail {

/// Elements that one block reduces. The same on every GPU, so that the order of a sum, and its bits, are too.
inline constexpr std::int64_t reduced_elements = 4096;

template <class T, class Transform, class Combine>
struct ReducePart {
  Transform transform;
  T identity;
  Combine combine;
  std::int64_t size;
  T* partials;

  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t begin = task * reduced_elements;
    const std::int64_t left = size - begin;
    const std::int64_t count = left < reduced_elements ? left : reduced_elements;
    const auto term = [&](std::int64_t i) { return static_cast<T>(transform(begin + i)); };
    const T part = team.reduce(count, term, identity, combine);
    if (team.leads()) partials[task] = part;
  }
};

template <class T, class Combine>
struct JoinParts {
  const T* partials;
  std::int64_t count;
  T identity;
  Combine combine;
  T* result;

  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t) const {
    const T* const parts = partials;
    const T total = team.reduce(count, [parts](std::int64_t i) { return parts[i]; }, identity, combine);
    if (team.leads()) *result = total;
  }
};

}  // namespace detail

/// See reduce.hpp; `combine` is commutative too. Two launches: partial results, and their combination.
template <class T, class Transform, class Combine>
void reduce(Cuda& cuda, Arena<Cuda>& arena, std::int64_t n, const Transform& transform, T identity,
            const Combine& combine, T* result) {
  const std::int64_t parts = (n + detail::reduced_elements - 1) / detail::reduced_elements;
  T* const partials = parts == 1 ? result : arena.allocate<T>(parts);
  using Part = detail::ReducePart<T, Transform, Combine>;
  using Join = detail::JoinParts<T, Combine>;
  detail::launch(cuda, parts, detail::TaskOfBlock<Part>{{transform, identity, combine, n, partials}});
  if (parts == 1) return;
  detail::launch(cuda, 1, detail::TaskOfBlock<Join>{{partials, parts, identity, combine, result}});
}

}  // namespace halfstep::compute
