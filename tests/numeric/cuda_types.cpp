#include <boost/test/unit_test.hpp>

#if __has_include(<cuda_fp16.h>) && __has_include(<cuda_bf16.h>)

// As PyTorch builds: the types' implicit conversions and operators are off.
#define __CUDA_NO_HALF_OPERATORS__ 1
#define __CUDA_NO_HALF_CONVERSIONS__ 1
#define __CUDA_NO_HALF2_OPERATORS__ 1
#define __CUDA_NO_BFLOAT16_CONVERSIONS__ 1

#include <cstdint>
#include <halfstep/numeric/convert.hpp>
#include <halfstep/numeric/cuda_types.hpp>
#include <tuple>
#include <type_traits>
#include <utility>

using namespace halfstep;

namespace {

using Types = std::tuple<std::pair<float16, __half>, std::pair<bfloat16, __nv_bfloat16>>;

static_assert(SixteenBitType<__half> && SixteenBitType<__nv_bfloat16>);

template <class Cuda>
std::uint16_t bits_of(Cuda value) {
  return __builtin_bit_cast(std::uint16_t, value);
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(cuda_types_have_the_limits_of_ours, Pair, Types) {
  using Ours = numeric_traits<typename Pair::first_type>;
  using Cuda = numeric_traits<typename Pair::second_type>;
  static_assert(Cuda::largest == Ours::largest && Cuda::smallest_normal == Ours::smallest_normal);
  static_assert(Cuda::smallest_subnormal == Ours::smallest_subnormal && Cuda::epsilon == Ours::epsilon);
  static_assert(Cuda::is_16bit && Cuda::significant_bits == Ours::significant_bits);
  BOOST_TEST((Cuda::name == Ours::name));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_pattern_goes_to_cuda_and_back_unchanged, Pair, Types) {
  using Ours = typename Pair::first_type;
  using Cuda = typename Pair::second_type;
  for (unsigned pattern = 0; pattern < 0x10000u; ++pattern) {
    const auto ours = Ours::from_bits(static_cast<std::uint16_t>(pattern));
    const Cuda cuda = to_cuda(ours);
    BOOST_TEST_REQUIRE(bits_of(cuda) == pattern);
    BOOST_TEST_REQUIRE(from_cuda(cuda).bits() == pattern);
    BOOST_TEST_REQUIRE(is_finite(cuda) == is_finite(ours));
    BOOST_TEST_REQUIRE(is_nan(cuda) == is_nan(ours));
  }
}

BOOST_AUTO_TEST_CASE(our_rounding_is_that_of_cuda) {
  std::uint32_t random = 99;
  for (int i = 0; i < 200000; ++i) {
    random = random * 1664525u + 1013904223u;
    // Three quarters of them where float16 has its numbers.
    const std::uint32_t bits =
        i % 4 == 0 ? random : (random & 0x87ffffffu) + 0x32000000u + 0x04000000u * (random >> 29 & 3u);
    const auto x = __builtin_bit_cast(float, bits);
    BOOST_TEST_REQUIRE(float16(x).bits() == bits_of(__float2half_rn(x)), "float " << bits);
    BOOST_TEST_REQUIRE(bfloat16(x).bits() == bits_of(__float2bfloat16_rn(x)), "float " << bits);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(generic_code_converts_cuda_types_as_it_does_ours, Pair, Types) {
  using Ours = typename Pair::first_type;
  using Cuda = typename Pair::second_type;
  BOOST_TEST(bits_of(convert_to<Cuda>(0.1f)) == Ours(0.1f).bits());
  BOOST_TEST(bits_of(convert_to<Cuda>(0.1)) == Ours(0.1).bits());
  BOOST_TEST(convert_to<float>(convert_to<Cuda>(0.1f)) == static_cast<float>(Ours(0.1f)));
  BOOST_TEST(bits_of(convert_to<Cuda>(bfloat16(0.1f))) == Ours(static_cast<float>(bfloat16(0.1f))).bits());

  float from[19];
  Cuda to[19];
  for (int i = 0; i < 19; ++i) from[i] = static_cast<float>(i) * 0.1f;
  convert(from, to, 19);
  for (int i = 0; i < 19; ++i) BOOST_TEST(bits_of(to[i]) == Ours(from[i]).bits());
}

#else

BOOST_AUTO_TEST_CASE(without_the_cuda_headers_there_is_nothing_to_test) {
  BOOST_TEST_MESSAGE("cuda_fp16.h and cuda_bf16.h are not on the include path");
}

#endif
