#pragma once

#include <cstdint>

#include <halfstep/numeric/host_device.hpp>

namespace halfstep::compute {

/// Four neighbouring elements: what one thread of a GPU reads or writes at once, 16 bytes of float.
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T of[4];
};

namespace detail {
/// Where a GPU is emulated it stops at an address that is not aligned, as a GPU does.
template <class T>
HALFSTEP_HOST_DEVICE inline void stop_if_misaligned([[maybe_unused]] const T* data) {
#if defined(HALFSTEP_CUDA_EMULATION)
  if (reinterpret_cast<std::uintptr_t>(data) % sizeof(Four<T>) != 0) __builtin_trap();
#endif
}
}  // namespace detail

/// Requires memory aligned to four elements.
template <class T>
HALFSTEP_HOST_DEVICE inline Four<T> load_four(const T* from) {
  detail::stop_if_misaligned(from);
  return *reinterpret_cast<const Four<T>*>(from);
}
template <class T>
HALFSTEP_HOST_DEVICE inline void store_four(T* to, const Four<T>& values) {
  detail::stop_if_misaligned(to);
  *reinterpret_cast<Four<T>*>(to) = values;
}

}  // namespace halfstep::compute
