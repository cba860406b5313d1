#pragma once

#include <cstdint>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/float16.hpp>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__)
#define HALFSTEP_X86_CONVERSIONS 1
#include <cpuid.h>
#include <immintrin.h>
#else
#define HALFSTEP_X86_CONVERSIONS 0
#endif

namespace halfstep::detail {

/// Which instructions convert an array. Portable is plain C++, for every processor.
enum class ConversionSet { portable, avx2, avx512 };

/// The types that vector instructions convert here; others, such as double, are converted by plain C++.
template <class T>
inline constexpr bool has_vector_conversions =
    std::is_same_v<T, float> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

#if HALFSTEP_X86_CONVERSIONS

inline ConversionSet detect_conversion_set() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  if (__builtin_cpu_supports("avx512f") != 0) return ConversionSet::avx512;
  if (__builtin_cpu_supports("avx2") != 0 && has_f16c) return ConversionSet::avx2;
  return ConversionSet::portable;
}

#define HALFSTEP_FOR_AVX2 __attribute__((target("avx2,f16c"), always_inline)) inline
#define HALFSTEP_FOR_AVX512 __attribute__((target("avx512f"), always_inline)) inline

/// Both sets below turn `n` >= width elements into the other type: whole vectors, and at the end one that
/// overlaps what is already converted and writes the same bits again. Streaming stores need an aligned
/// destination, so there the first vector overlaps too.

/// Eight numbers at a time, held as the bits of floats with every NaN already canonical (0x7fffffff).
/// F16C keeps subnormals whatever the flush modes, and rounds the canonical NaN to 0x7fff.
struct Avx2 {
  static constexpr std::int64_t width = 8;
  using Bits = __m256i;

  HALFSTEP_FOR_AVX2 static Bits canonical(Bits bits) {
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
    return _mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fffffff), is_nan);
  }
  HALFSTEP_FOR_AVX2 static __m128i load_halves(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  }
  HALFSTEP_FOR_AVX2 static Bits load(const float* from) {
    return canonical(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  HALFSTEP_FOR_AVX2 static Bits load(const float16* from) {
    const __m256i bits = _mm256_castps_si256(_mm256_cvtph_ps(load_halves(from)));
    return canonical(_mm256_xor_si256(bits, _mm256_set1_epi32(static_cast<int>(opaque_zero()))));
  }
  HALFSTEP_FOR_AVX2 static Bits load(const bfloat16* from) {
    return canonical(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_halves(from)), 16));
  }

  HALFSTEP_FOR_AVX2 static __m256i round(Bits bits, const float*) { return bits; }
  HALFSTEP_FOR_AVX2 static __m128i round(Bits bits, const float16*) {
    return _mm256_cvtps_ph(_mm256_castsi256_ps(bits), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  HALFSTEP_FOR_AVX2 static __m128i round(Bits bits, const bfloat16*) {
    // The canonical NaN, the largest of all integers here, would round up to -0.
    const __m256i safe = _mm256_min_epi32(bits, _mm256_set1_epi32(0x7fff0000));
    const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(safe, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(safe, half), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
  }

  HALFSTEP_FOR_AVX2 static void store(void* to, __m256i value) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), value);
  }
  HALFSTEP_FOR_AVX2 static void store(void* to, __m128i value) {
    _mm_storeu_si128(static_cast<__m128i*>(to), value);
  }
  HALFSTEP_FOR_AVX2 static void stream(void* to, __m256i value) {
    _mm256_stream_si256(static_cast<__m256i*>(to), value);
  }
  HALFSTEP_FOR_AVX2 static void stream(void* to, __m128i value) {
    _mm_stream_si128(static_cast<__m128i*>(to), value);
  }

  template <class From, class To>
  __attribute__((target("avx2,f16c"))) static void convert(const From* from, To* to, std::int64_t n,
                                                           bool streaming) {
    std::int64_t i = 0;
    if (streaming) {
      const auto misaligned = reinterpret_cast<std::uintptr_t>(to) % (width * sizeof(To)) / sizeof(To);
      if (misaligned != 0) {
        store(to, round(load(from), to));
        i = width - static_cast<std::int64_t>(misaligned);
      }
      for (; i + width <= n; i += width) stream(to + i, round(load(from + i), to));
      _mm_sfence();
    }
    for (; i + width <= n; i += width) store(to + i, round(load(from + i), to));
    if (i < n) store(to + n - width, round(load(from + n - width), to));
  }
};

/// Sixteen at a time. AVX-512's own bfloat16 instructions are of no use: they flush subnormals. The masked
/// forms, with every lane set, spare g++ 12 a false warning about uninitialised values in its header.
struct Avx512 {
  static constexpr std::int64_t width = 16;
  static constexpr __mmask16 all = 0xffff;
  using Bits = __m512i;

  HALFSTEP_FOR_AVX512 static Bits canonical(Bits bits) {
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __mmask16 is_nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_mov_epi32(bits, is_nan, _mm512_set1_epi32(0x7fffffff));
  }
  HALFSTEP_FOR_AVX512 static __m256i load_halves(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  HALFSTEP_FOR_AVX512 static Bits load(const float* from) { return canonical(_mm512_loadu_si512(from)); }
  HALFSTEP_FOR_AVX512 static Bits load(const float16* from) {
    const __m512i bits = _mm512_castps_si512(_mm512_maskz_cvtph_ps(all, load_halves(from)));
    return canonical(_mm512_xor_si512(bits, _mm512_set1_epi32(static_cast<int>(opaque_zero()))));
  }
  HALFSTEP_FOR_AVX512 static Bits load(const bfloat16* from) {
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(all, load_halves(from));
    return canonical(_mm512_maskz_slli_epi32(all, wide, 16));
  }

  HALFSTEP_FOR_AVX512 static __m512i round(Bits bits, const float*) { return bits; }
  HALFSTEP_FOR_AVX512 static __m256i round(Bits bits, const float16*) {
    return _mm512_maskz_cvtps_ph(all, _mm512_castsi512_ps(bits),
                                 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  HALFSTEP_FOR_AVX512 static __m256i round(Bits bits, const bfloat16*) {
    const __m512i safe = _mm512_maskz_min_epi32(all, bits, _mm512_set1_epi32(0x7fff0000));
    const __m512i is_odd = _mm512_and_si512(_mm512_maskz_srli_epi32(all, safe, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_maskz_srli_epi32(all, _mm512_add_epi32(safe, half), 16);
    return _mm512_maskz_cvtepi32_epi16(all, rounded);
  }

  HALFSTEP_FOR_AVX512 static void store(void* to, __m512i value) { _mm512_storeu_si512(to, value); }
  HALFSTEP_FOR_AVX512 static void store(void* to, __m256i value) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), value);
  }
  HALFSTEP_FOR_AVX512 static void stream(void* to, __m512i value) {
    _mm512_stream_si512(static_cast<__m512i*>(to), value);
  }
  HALFSTEP_FOR_AVX512 static void stream(void* to, __m256i value) {
    _mm256_stream_si256(static_cast<__m256i*>(to), value);
  }

  template <class From, class To>
  __attribute__((target("avx512f"))) static void convert(const From* from, To* to, std::int64_t n,
                                                         bool streaming) {
    std::int64_t i = 0;
    if (streaming) {
      const auto misaligned = reinterpret_cast<std::uintptr_t>(to) % (width * sizeof(To)) / sizeof(To);
      if (misaligned != 0) {
        store(to, round(load(from), to));
        i = width - static_cast<std::int64_t>(misaligned);
      }
      for (; i + width <= n; i += width) stream(to + i, round(load(from + i), to));
      _mm_sfence();
    }
    for (; i + width <= n; i += width) store(to + i, round(load(from + i), to));
    if (i < n) store(to + n - width, round(load(from + n - width), to));
  }
};

#undef HALFSTEP_FOR_AVX2
#undef HALFSTEP_FOR_AVX512

/// Converts with the set's instructions; false, and nothing done, where they do not apply.
template <class From, class To>
bool convert_with(ConversionSet set, const From* from, To* to, std::int64_t n, bool streaming) noexcept {
  if constexpr (has_vector_conversions<From> && has_vector_conversions<To>) {
    if (set == ConversionSet::avx512 && n >= Avx512::width) {
      Avx512::convert(from, to, n, streaming);
      return true;
    }
    if (set != ConversionSet::portable && n >= Avx2::width) {
      Avx2::convert(from, to, n, streaming);
      return true;
    }
  }
  return false;
}

#else

inline ConversionSet detect_conversion_set() noexcept { return ConversionSet::portable; }

template <class From, class To>
bool convert_with(ConversionSet, const From*, To*, std::int64_t, bool) noexcept {
  return false;
}

#endif

}  // namespace halfstep::detail
