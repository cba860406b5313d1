#pragma once

/// CUDA's own 16-bit types, for code that meets them: traits, finite tests and conversions to and from ours,
/// which have the same bits. Included on request only; needs the CUDA headers, not nvcc, and none of the
/// types' implicit conversions and operators (PyTorch turns those off).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/traits.hpp>
#include <string_view>
#include <type_traits>

namespace halfstep {

HALFSTEP_HOST_DEVICE inline __half to_cuda(float16 value) noexcept {
  __half_raw raw;
  raw.x = value.bits();
  return __half(raw);
}
HALFSTEP_HOST_DEVICE inline __nv_bfloat16 to_cuda(bfloat16 value) noexcept {
  __nv_bfloat16_raw raw;
  raw.x = value.bits();
  return __nv_bfloat16(raw);
}
HALFSTEP_HOST_DEVICE inline float16 from_cuda(__half value) noexcept {
  return float16::from_bits(static_cast<__half_raw>(value).x);
}
HALFSTEP_HOST_DEVICE inline bfloat16 from_cuda(__nv_bfloat16 value) noexcept {
  return bfloat16::from_bits(static_cast<__nv_bfloat16_raw>(value).x);
}

namespace detail {

template <class Ours>
struct CudaTraits : numeric_traits<Ours> {
  using Cuda = decltype(to_cuda(Ours{}));
  HALFSTEP_HOST_DEVICE static float to_float(Cuda value) noexcept {
    return static_cast<float>(from_cuda(value));
  }
  HALFSTEP_HOST_DEVICE static Cuda from_float(float value) noexcept { return to_cuda(Ours(value)); }
};

}  // namespace detail

template <>
struct numeric_traits<__half> : detail::CudaTraits<float16> {};
template <>
struct numeric_traits<__nv_bfloat16> : detail::CudaTraits<bfloat16> {};

HALFSTEP_HOST_DEVICE inline bool is_finite(__half value) noexcept { return is_finite(from_cuda(value)); }
HALFSTEP_HOST_DEVICE inline bool is_finite(__nv_bfloat16 value) noexcept {
  return is_finite(from_cuda(value));
}
HALFSTEP_HOST_DEVICE inline bool is_nan(__half value) noexcept { return is_nan(from_cuda(value)); }
HALFSTEP_HOST_DEVICE inline bool is_nan(__nv_bfloat16 value) noexcept { return is_nan(from_cuda(value)); }

}  // namespace halfstep
