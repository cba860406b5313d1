#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <halfstep/data/typed_array.hpp>
#include <limits>
#include <string>
#include <vector>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(typed_array_tests)

using namespace halfstep;
using test::holds;
using test::refusal;

namespace {

template <class T>
TypedArray array_of(const std::vector<T>& values, std::size_t before = 0) {
  std::vector<std::byte> bytes(before + values.size() * sizeof(T));
  std::memcpy(bytes.data() + before, values.data(), values.size() * sizeof(T));
  return {"file", dtype_of<T>, Shape{static_cast<std::int64_t>(values.size())}, std::move(bytes)};
}

template <class To, class From>
std::string conversion_error(const std::vector<From>& values) {
  return refusal<Error>([&] { array_of(values).template to<To>(); });
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

BOOST_AUTO_TEST_CASE(elements_are_seen_as_they_are_wherever_they_begin) {
  for (std::size_t before = 0; before < 17; ++before) {
    const auto array = array_of(std::vector<double>{1.5, -2}, before);
    const Tensor<const double> view = array.view<double>();
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(view.data()) % alignof(double) == 0u);
    BOOST_TEST(view[0] == 1.5);
    BOOST_TEST(view[1] == -2.0);
    BOOST_TEST(array.bytes().size() == 16u);
  }
  const std::string message = refusal<Error>([] { array_of<float>({1}).view<double>(); });
  BOOST_TEST(holds(message, "the elements are F32, not F64"), message);
}

BOOST_AUTO_TEST_CASE(integers_convert_exactly_or_not_at_all) {
  BOOST_TEST((array_of<std::uint8_t>({0, 255}).to<std::int32_t>() == std::vector<std::int32_t>{0, 255}));
  BOOST_TEST((array_of<std::int64_t>({-128, 127}).to<std::int8_t>() == std::vector<std::int8_t>{-128, 127}));
  BOOST_TEST(
      (array_of<std::uint64_t>({UINT64_MAX}).to<std::uint64_t>() == std::vector<std::uint64_t>{UINT64_MAX}));
  BOOST_TEST(
      holds(conversion_error<std::int8_t>(std::vector<std::int64_t>{1, 128}), "element 1 is 128, which I8"));
  BOOST_TEST(
      holds(conversion_error<std::uint32_t>(std::vector<std::int32_t>{-1}), "element 0 is -1, which U32"));
  BOOST_TEST(holds(conversion_error<std::int64_t>(std::vector<std::uint64_t>{UINT64_MAX}), "element 0"));
}

BOOST_AUTO_TEST_CASE(floating_numbers_become_integers_where_they_are_whole_and_fit) {
  BOOST_TEST((array_of<double>({-0.0, 3, -128}).to<std::int8_t>() == std::vector<std::int8_t>{0, 3, -128}));
  BOOST_TEST((array_of<double>({0x1p63, 0x1.fffffffffffffp63}).to<std::uint64_t>() ==
              std::vector<std::uint64_t>{1ull << 63, 0xfffffffffffff800}));
  BOOST_TEST((array_of<float>({-0x1p63f}).to<std::int64_t>() == std::vector<std::int64_t>{INT64_MIN}));
  for (const double none : {0.5, 128.0, -129.0, infinity, -infinity, std::nan("")}) {
    BOOST_TEST(holds(conversion_error<std::int8_t>(std::vector<double>{none}), "which I8 does not hold"));
  }
  BOOST_TEST(holds(conversion_error<std::int64_t>(std::vector<double>{0x1p63}), "9.22337204e+18"));
  BOOST_TEST(holds(conversion_error<std::uint64_t>(std::vector<double>{0x1p64}), "1.84467441e+19"));
  BOOST_TEST(holds(conversion_error<std::uint64_t>(std::vector<float>{-1}), "is -1"));
}

BOOST_AUTO_TEST_CASE(floating_numbers_are_rounded_once_and_must_fit) {
  BOOST_TEST((array_of<double>({0.1, 0x1.fffffefffffffp127}).to<float>() ==
              std::vector<float>{0.1f, 0x1.fffffep127f}));
  BOOST_TEST((array_of<float16>({float16(1.5f), float16(-65504.0f)}).to<float>() ==
              std::vector<float>{1.5f, -65504}));
  BOOST_TEST((array_of<bfloat16>({bfloat16(1.5f)}).to<double>() == std::vector<double>{1.5}));
  BOOST_TEST((array_of<std::int64_t>({16777217}).to<float>() == std::vector<float>{16777216}));
  // Infinities and NaN are what the file holds; a finite number must not become one.
  const auto special = array_of<double>({-infinity, std::nan("")}).to<float>();
  BOOST_TEST(special[0] == -std::numeric_limits<float>::infinity());
  BOOST_TEST(is_nan(special[1]));
  for (const double large : {0x1.ffffffp127, 1e300, -1e39}) {
    BOOST_TEST(holds(conversion_error<float>(std::vector<double>{1, large}), "element 1"));
  }
}

BOOST_AUTO_TEST_CASE(fewer_bytes_than_the_shape_needs_are_refused) {
  const std::string message = refusal<Error>([] {
    TypedArray("file", DType::f32, Shape{2, 3}, std::vector<std::byte>(23));
  });
  BOOST_TEST(holds(message, "23 bytes, but shape [2, 3] of F32 needs 24"), message);
  const std::int64_t huge = std::int64_t{1} << 61;
  BOOST_CHECK_THROW(TypedArray("file", DType::f32, Shape{huge}, {}), Error);
}

BOOST_AUTO_TEST_SUITE_END()
