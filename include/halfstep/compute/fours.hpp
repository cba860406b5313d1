#pragma once

#include <cstdint>

#include <halfstep/numeric/host_device.hpp>

namespace halfstep::compute {

/// Elements of a task of an element-wise pass that a warp of a GPU works on: four a lane.
inline constexpr std::int64_t warp_elements = 128;

/// Four neighbouring numbers, which a GPU reads or writes by one instruction where they lie at a multiple of their
/// size.
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T of[4];
};

/// Can fours be read and written from this address on?
template <class T>
HALFSTEP_HOST_DEVICE inline bool begins_a_four(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Four<T>) == 0;
}

template <class T>
HALFSTEP_HOST_DEVICE inline Four<T> load_four(const T* data) {
  return *reinterpret_cast<const Four<T>*>(data);
}
template <class T>
HALFSTEP_HOST_DEVICE inline void store_four(T* data, const Four<T>& four) {
  *reinterpret_cast<Four<T>*>(data) = four;
}

}  // namespace halfstep::compute
