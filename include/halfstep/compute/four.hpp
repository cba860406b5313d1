#pragma once

#include <halfstep/numeric/host_device.hpp>

namespace halfstep::compute {

/// Four neighbouring elements: what one thread of a GPU reads or writes at once, 16 bytes of float.
template <class T>
struct alignas(4 * sizeof(T)) Four {
  T of[4];
};

/// Requires memory aligned to four elements.
template <class T>
HALFSTEP_HOST_DEVICE inline Four<T> load_four(const T* from) {
  return *reinterpret_cast<const Four<T>*>(from);
}
template <class T>
HALFSTEP_HOST_DEVICE inline void store_four(T* to, const Four<T>& values) {
  *reinterpret_cast<Four<T>*>(to) = values;
}

}  // namespace halfstep::compute
