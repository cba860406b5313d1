#pragma once

#include <cstdint>

#include <halfstep/compute/four.hpp>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep::compute {

/// Elements of a task of an element-wise pass that a warp of a GPU works on: four a lane.
inline constexpr std::int64_t warp_elements = 128;

/// Can fours be read and written from this address on?
template <class T>
HALFSTEP_HOST_DEVICE inline bool begins_a_four(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Four<T>) == 0;
}

template <class T>
HALFSTEP_HOST_DEVICE inline Four<float> floats_of(const Four<T>& values) {
  Four<float> floats;
  for (int k = 0; k < 4; ++k) floats.of[k] = static_cast<float>(values.of[k]);
  return floats;
}
/// Each rounded to T.
template <class T>
HALFSTEP_HOST_DEVICE inline Four<T> four_of(const Four<float>& floats) {
  Four<T> values;
  for (int k = 0; k < 4; ++k) values.of[k] = static_cast<T>(floats.of[k]);
  return values;
}

/// A warp's share of an element-wise pass: the elements [begin, begin + warp_elements) as far as they are below `size`,
/// four a lane. Calls `on_four(i)` where all four are there and `aligned` says that they may be read as a four, else
/// `on_rest(i, count)`.
template <class Team, class OnFour, class OnRest>
HALFSTEP_HOST_DEVICE void for_each_four(const Team& team, std::int64_t begin, std::int64_t size, bool aligned,
                                        const OnFour& on_four, const OnRest& on_rest) {
  team.for_each(warp_elements / 4, [&](std::int64_t four) {
    const std::int64_t i = begin + 4 * four, left = size - i;
    if (aligned && left >= 4) {
      on_four(i);
    } else if (left > 0) {
      on_rest(i, left < 4 ? left : 4);
    }
  });
}

}  // namespace halfstep::compute
