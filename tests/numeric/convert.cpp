#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/numeric/convert.hpp>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "reference.hpp"
#include "support/sanitizers.hpp"

BOOST_AUTO_TEST_SUITE(convert_tests)

using namespace halfstep;
using detail::ConversionSet;

namespace {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;

template <class T>
Bits<T> bits_of(T value) {
  return __builtin_bit_cast(Bits<T>, value);
}

/// The first place where two arrays have different bits, or -1. One check an array: Boost's own cost a
/// microsecond each.
template <class T>
std::int64_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (bits_of(a[i]) != bits_of(b[i])) return static_cast<std::int64_t>(i);
  }
  return -1;
}

template <class To, class From>
std::vector<To> converted_one_by_one(const std::vector<From>& from) {
  std::vector<To> result(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) result[i] = convert_to<To>(from[i]);
  return result;
}

/// Numbers of every kind, NaNs of many payloads among them; under sanitizers one of eight floats.
template <class T>
std::vector<T> telling_values() {
  std::vector<T> result;
  if constexpr (sizeof(T) == 2) {
    for (unsigned bits = 0; bits < 0x10000u; ++bits)
      result.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  } else {
    for (const auto& format : {reference::float16, reference::bfloat16}) {
      const std::vector<std::uint32_t> patterns = reference::telling_floats(format);
      for (std::size_t i = 0; i < patterns.size(); i += test::under_sanitizers ? 8 : 1) {
        result.push_back(__builtin_bit_cast(float, patterns[i]));
      }
    }
  }
  return result;
}

std::vector<ConversionSet> sets_of_this_cpu() {
  std::vector<ConversionSet> result{ConversionSet::portable};
  for (const auto set : {ConversionSet::avx2, ConversionSet::avx512}) {
    if (set <= detail::detect_conversion_set()) result.push_back(set);
  }
  return result;
}

template <class From, class To>
void convert_by(ConversionSet set, const From* from, To* to, std::int64_t n, bool streaming) {
  if (!detail::convert_with(set, from, to, n, streaming)) detail::convert_portable(from, to, n);
}

using Pairs =
    std::tuple<std::pair<float, float16>, std::pair<float, bfloat16>, std::pair<float16, float>,
               std::pair<float16, bfloat16>, std::pair<bfloat16, float>, std::pair<bfloat16, float16>>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(every_instruction_set_gives_the_scalar_bits, Pair, Pairs) {
  using From = typename Pair::first_type;
  using To = typename Pair::second_type;
  const std::vector<From> from = telling_values<From>();
  const std::vector<To> expected = converted_one_by_one<To>(from);
  const auto n = static_cast<std::int64_t>(from.size());
  for (const ConversionSet set : sets_of_this_cpu()) {
    for (const bool streaming : {false, true}) {
      std::vector<To> to(from.size());
      convert_by(set, from.data(), to.data(), n, streaming);
      BOOST_TEST(first_difference(to, expected) == -1, "set " << static_cast<int>(set));
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(short_and_unaligned_arrays_are_converted_whole_and_nothing_else_is_touched,
                              Pair, Pairs) {
  using From = typename Pair::first_type;
  using To = typename Pair::second_type;
  std::vector<From> from(100);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = convert_to<From>(static_cast<float>(i) + 0.375f);
  const std::vector<To> all = converted_one_by_one<To>(from);
  const To untouched = convert_to<To>(-7.0f);
  for (const ConversionSet set : sets_of_this_cpu()) {
    for (const bool streaming : {false, true}) {
      for (std::size_t n = 0; n <= 67; ++n) {
        for (std::size_t start = 0; start < 17; ++start) {
          std::vector<To> to(100, untouched);
          convert_by(set, from.data() + start / 2, to.data() + start, static_cast<std::int64_t>(n),
                     streaming);
          std::vector<To> expected(100, untouched);
          for (std::size_t i = 0; i < n; ++i) expected[start + i] = all[start / 2 + i];
          if (first_difference(to, expected) != -1) {
            BOOST_ERROR("n " << n << ", start " << start << ", at " << first_difference(to, expected));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_public_function_converts_by_pointer_and_by_span_at_every_length) {
  std::vector<float> from(67);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) * 1.1f;
  for (std::size_t n = 0; n <= from.size(); ++n) {
    std::vector<float16> halves(n);
    convert(from.data(), halves.data(), static_cast<std::int64_t>(n));
    std::vector<bfloat16> brains(n);
    convert(std::span<const float>(from).first(n), std::span(brains), Stores::streaming);
    const std::vector<float> source(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n));
    BOOST_TEST(first_difference(halves, converted_one_by_one<float16>(source)) == -1);
    BOOST_TEST(first_difference(brains, converted_one_by_one<bfloat16>(source)) == -1);
  }
}

BOOST_AUTO_TEST_CASE(equal_types_are_copied_bit_for_bit) {
  const std::vector<float16> from = telling_values<float16>();
  std::vector<float16> to(from.size());
  convert(std::span(from), std::span(to));
  BOOST_TEST(first_difference(to, from) == -1);
}

BOOST_AUTO_TEST_CASE(large_arrays_take_the_streaming_path_and_give_the_same_bits) {
  const std::size_t n = static_cast<std::size_t>(detail::streaming_bytes) / 2 + 5;
  std::vector<float> from(n);
  std::uint32_t random = 1;
  for (float& x : from) x = __builtin_bit_cast(float, random = random * 1664525u + 1013904223u);
  std::vector<float16> to(n + 1);
  convert(from.data(), to.data() + 1, static_cast<std::int64_t>(n));
  to.erase(to.begin());
  BOOST_TEST(first_difference(to, converted_one_by_one<float16>(from)) == -1);
}

BOOST_AUTO_TEST_CASE(spans_of_different_sizes_are_refused_by_an_error_with_both_sizes) {
  const std::vector<float> from(3);
  std::vector<float16> to(4, float16(5.0f));
  BOOST_CHECK_EXCEPTION(convert(std::span(from), std::span(to)), ShapeError, [](const ShapeError& error) {
    const std::string message = error.what();
    return message.find('3') != std::string::npos && message.find('4') != std::string::npos;
  });
  BOOST_TEST(to[0].bits() == float16(5.0f).bits());
}

BOOST_AUTO_TEST_SUITE_END()
