#pragma once

#include <cstdint>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>

/// exp, log, tanh and erf of a float, without branches, tables or calls, so that loops over them vectorise
/// (the library's own, one number at a time, make an activation several times slower than memory). On the
/// host within 2 units in the last place of the exact value, over all floats, subnormal results included;
/// +-0, infinities and NaN as in C. The bits are the same under SSE2 and AVX2, and wherever the compiler does
/// not fuse multiplications with additions. Under -ffast-math special values stay right, errors stay within 4
/// units, and subnormals are as the flush modes say. On the GPU these are CUDA's functions: by NVIDIA's tables
/// within 2 units as well, unless --use_fast_math puts its approximations in their place.
namespace halfstep::math {

namespace detail {

using halfstep::detail::bits_of;
using halfstep::detail::float_of;
using halfstep::detail::mask_if_less;
using halfstep::detail::select;

inline constexpr std::uint32_t sign_bit = 0x80000000u;
inline constexpr std::uint32_t infinity_bits = 0x7f800000u;

/// `result`, or the NaN `x` (made quiet) where x is one.
HALFSTEP_HOST_DEVICE constexpr float keep_nan(std::uint32_t x, std::uint32_t result) noexcept {
  return float_of(select(mask_if_less(infinity_bits, x & ~sign_bit), x | 0x00400000u, result));
}

/// The smaller of two magnitudes; a NaN counts as the largest.
HALFSTEP_HOST_DEVICE constexpr std::uint32_t smaller(std::uint32_t a, std::uint32_t b) noexcept {
  return select(mask_if_less(a, b), a, b);
}

/// `value`, not to be taken apart by -ffast-math and summed in another order. For clang bits_of is enough.
HALFSTEP_HOST_DEVICE constexpr float as_written(float value) noexcept {
#if defined(__FAST_MATH__) && defined(__has_builtin) && !defined(__CUDACC__)
#if __has_builtin(__builtin_assoc_barrier)
  return __builtin_assoc_barrier(value);
#endif
#endif
  return float_of(bits_of(value));
}

/// exp for x in [-104, 89]; Cephes' expf (Moshier): x = n ln 2 + r, and a polynomial for exp(r) - 1 - r.
HALFSTEP_HOST_DEVICE constexpr float exp_in_range(float x) noexcept {
  // At 1.5 * 2^23 the spacing of floats is 1: the addition rounds to the nearest integer, which the low bits
  // then hold.
  constexpr float shift = 12582912.0f;
  const float shifted = x * 1.44269504f + shift;
  const auto n = static_cast<std::int32_t>(bits_of(shifted) - bits_of(shift));
  // ln 2 = 355/512 - 0.000212194440 in two steps, of which the first is exact.
  const float count = static_cast<float>(n);
  const float r = as_written(x - as_written(count * (355.0f / 512.0f))) + count * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
  // 2^n in two factors, because neither 2^128 nor 2^-150 is a float; only the second can round.
  const std::int32_t first = n >> 1;
  const std::int32_t second = n - first;
  const float scaled = float_of(bits_of(p) + (static_cast<std::uint32_t>(first) << 23));
  return scaled * float_of(static_cast<std::uint32_t>(second + 127) << 23);
}

}  // namespace detail

HALFSTEP_HOST_DEVICE constexpr float exp(float x) noexcept {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return ::expf(x);
#endif
  using namespace detail;
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t is_negative = 0u - (bits >> 31);
  const std::uint32_t limit = select(is_negative, bits_of(104.0f), bits_of(89.0f));
  const std::uint32_t clamped = smaller(bits & ~sign_bit, limit) | (bits & sign_bit);
  return keep_nan(bits, bits_of(exp_in_range(float_of(clamped))));
}

/// fdlibm's logf: x = 2^k m with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), and a polynomial in s^2.
HALFSTEP_HOST_DEVICE constexpr float log(float x) noexcept {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return ::logf(x);
#endif
  using namespace detail;
  const std::uint32_t bits = bits_of(x);
  // A subnormal is its bits times 2^-149; as a float of its own they are a normal number.
  const std::uint32_t magnitude = bits & ~sign_bit;
  const std::uint32_t is_subnormal = mask_if_less(magnitude, 0x00800000u);
  const auto as_integer = bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)));
  const std::uint32_t normal = select(is_subnormal, as_integer, magnitude);

  constexpr std::uint32_t sqrt_half = 0x3f3504f3u;
  const std::uint32_t offset = normal + (0x3f800000u - sqrt_half);
  const auto k =
      static_cast<std::int32_t>(offset >> 23) - 127 - static_cast<std::int32_t>(149u & is_subnormal);
  const float exponent = static_cast<float>(k);
  const float f = float_of((offset & 0x007fffffu) + sqrt_half) - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float w = z * z;
  const float even = w * (0x1.999c26p-2f + w * 0x1.f13c4cp-3f);
  const float odd = z * (0x1.555554p-1f + w * 0x1.23d3dcp-2f);
  const float half_square = 0.5f * f * f;
  const float tail = s * (half_square + (even + odd)) + exponent * 9.0580006145e-6f;
  const float value = ((tail - half_square) + f) + exponent * 0x1.62e3p-1f;

  const std::uint32_t is_zero = mask_if_less(magnitude, 1u);
  const std::uint32_t not_finite = mask_if_less(infinity_bits - 1u, magnitude);  // +inf stays
  const std::uint32_t is_negative = 0u - (bits >> 31);
  std::uint32_t result = select(not_finite, bits, bits_of(value));
  result = select(is_negative, 0x7fc00000u, result);
  result = select(is_zero, sign_bit | infinity_bits, result);
  return keep_nan(bits, result);
}

/// Near 0 Cephes' polynomial, elsewhere 1 - 2 / (exp(2|x|) + 1).
HALFSTEP_HOST_DEVICE constexpr float tanh(float x) noexcept {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return ::tanhf(x);
#endif
  using namespace detail;
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t magnitude = bits & ~sign_bit;
  const float a = float_of(smaller(magnitude, bits_of(10.0f)));  // from 9.02 on the result is 1
  const float large = 1.0f - 2.0f / (exp_in_range(2.0f * a) + 1.0f);
  const float z = a * a;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * a + a;
  const std::uint32_t is_small = mask_if_less(magnitude, 0x3f200000u);  // 0.625
  return keep_nan(bits, select(is_small, bits_of(small), bits_of(large)) | (bits & sign_bit));
}

/// N. Juffa's two polynomials: near 0 for erf(x) / x - 1, elsewhere for the exponent in 1 - exp(...).
HALFSTEP_HOST_DEVICE constexpr float erf(float x) noexcept {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return ::erff(x);
#endif
  using namespace detail;
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t magnitude = bits & ~sign_bit;
  const float t = float_of(smaller(magnitude, bits_of(4.0f)));  // from 3.93 on the result is 1
  const float s = t * t;

  const float upper = -0x1.220000p-16f * t + 0x1.91cfb2p-12f;
  const float lower = -0x1.fd1438p-9f * t + 0x1.8d6342p-6f;
  float q = upper * s + lower;
  q = q * t - 0x1.b55cb8p-4f;
  q = q * t - 0x1.450aa0p-1f;
  q = q * t - 0x1.079d0cp-3f;
  const float large = 1.0f - exp_in_range(q * t - t);

  float p = -0x1.38e000p-11f;
  p = p * s + 0x1.471a58p-8f;
  p = p * s - 0x1.b691b2p-6f;
  p = p * s + 0x1.ce1c44p-4f;
  p = p * s - 0x1.812700p-2f;
  p = p * s + 0x1.06eba8p-3f;
  const float small = p * t + t;

  const std::uint32_t is_small = mask_if_less(magnitude, 0x3f6d8000u);  // 0.927734375
  return keep_nan(bits, select(is_small, bits_of(small), bits_of(large)) | (bits & sign_bit));
}

}  // namespace halfstep::math
