#pragma once

#include <cstdint>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>

namespace halfstep::detail {

/// result[i] = value, rounded to T. As a function, because g++ does not vectorise a marked loop in whose body a
/// temporary of a class type stands, such as T(value).
template <class T>
HALFSTEP_INLINE HALFSTEP_HOST_DEVICE inline void store_value(T* result, std::int64_t i, float value) {
  result[i] = static_cast<T>(value);
}

}  // namespace halfstep::detail
