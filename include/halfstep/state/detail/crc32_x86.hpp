#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDACC__)
#define HALFSTEP_X86_CRC32 1
#include <immintrin.h>
#else
#define HALFSTEP_X86_CRC32 0
#endif

namespace halfstep::detail {

#if HALFSTEP_X86_CRC32

inline bool cpu_folds_crc32() noexcept { return __builtin_cpu_supports("pclmul") != 0; }

/// Sixteen bytes that have the same CRC-32, begun from zero, as `size` bytes that come after those with the
/// state `state`. `size` is a multiple of 64 and not 0. Carry-less products move each 16 bytes over those 64
/// bytes further on until one lane is left: V. Gopal et al., "Fast CRC Computation for Generic Polynomials
/// Using PCLMULQDQ Instruction", Intel 2009, whose constants for this polynomial, bit-reflected, these are:
/// x^(512+64) and x^512, then x^(128+64) and x^128.
__attribute__((target("pclmul"))) inline void fold_crc32(std::uint32_t state, const std::byte* bytes,
                                                         std::size_t size, std::byte* sixteen) {
  const auto load = [](const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  __m128i lane_0 = _mm_xor_si128(load(bytes), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i lane_1 = load(bytes + 16);
  __m128i lane_2 = load(bytes + 32);
  __m128i lane_3 = load(bytes + 48);
#define HALFSTEP_FOLD(lane, by, onto)                                                                      \
  _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(lane, by, 0x00), _mm_clmulepi64_si128(lane, by, 0x11)), \
                onto)
  for (std::size_t i = 64; i < size; i += 64) {
    lane_0 = HALFSTEP_FOLD(lane_0, by_64, load(bytes + i));
    lane_1 = HALFSTEP_FOLD(lane_1, by_64, load(bytes + i + 16));
    lane_2 = HALFSTEP_FOLD(lane_2, by_64, load(bytes + i + 32));
    lane_3 = HALFSTEP_FOLD(lane_3, by_64, load(bytes + i + 48));
  }
  lane_1 = HALFSTEP_FOLD(lane_0, by_16, lane_1);
  lane_2 = HALFSTEP_FOLD(lane_1, by_16, lane_2);
  lane_3 = HALFSTEP_FOLD(lane_2, by_16, lane_3);
#undef HALFSTEP_FOLD
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sixteen), lane_3);
}

#else

inline bool cpu_folds_crc32() noexcept { return false; }
inline void fold_crc32(std::uint32_t, const std::byte*, std::size_t, std::byte*) {}

#endif

}  // namespace halfstep::detail
