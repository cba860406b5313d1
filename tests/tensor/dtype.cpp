#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <halfstep/tensor/dtype.hpp>

BOOST_AUTO_TEST_SUITE(dtype_tests)

using namespace halfstep;

static_assert(dtype_of<float> == DType::f32 && dtype_of<double> == DType::f64);
static_assert(dtype_of<float16> == DType::f16 && dtype_of<bfloat16> == DType::bf16);
static_assert(dtype_of<bool> == DType::boolean && dtype_of<std::byte> == DType::u8);
static_assert(dtype_of<std::int8_t> == DType::i8 && dtype_of<std::uint8_t> == DType::u8);
static_assert(dtype_of<std::int16_t> == DType::i16 && dtype_of<std::uint16_t> == DType::u16);
static_assert(dtype_of<std::int32_t> == DType::i32 && dtype_of<std::uint32_t> == DType::u32);
static_assert(dtype_of<long> == (sizeof(long) == 8 ? DType::i64 : DType::i32) &&
              dtype_of<long long> == DType::i64);
static_assert(dtype_of<unsigned long long> == DType::u64 && dtype_of<const float> == DType::f32);

BOOST_AUTO_TEST_CASE(every_type_is_found_by_its_name_and_has_its_size) {
  const struct {
    DType dtype;
    const char* name;
    std::int64_t size;
  } types[] = {{DType::f64, "F64", 8},     {DType::f32, "F32", 4}, {DType::f16, "F16", 2},
               {DType::bf16, "BF16", 2},   {DType::i64, "I64", 8}, {DType::i32, "I32", 4},
               {DType::i16, "I16", 2},     {DType::i8, "I8", 1},   {DType::u8, "U8", 1},
               {DType::u16, "U16", 2},     {DType::u32, "U32", 4}, {DType::u64, "U64", 8},
               {DType::boolean, "BOOL", 1}};
  BOOST_TEST(std::size(types) == detail::dtype_facts.size());
  for (const auto& type : types) {
    BOOST_TEST(name_of(type.dtype) == type.name);
    BOOST_TEST(size_of(type.dtype) == type.size);
    BOOST_TEST((find_dtype(type.name) == type.dtype));
  }
}

BOOST_AUTO_TEST_CASE(a_name_must_be_exact) {
  for (const char* other : {"", "f32", "F3", "F32 ", "F8_E4M3", "C64", "float32"})
    BOOST_TEST(!find_dtype(other), other);
}

BOOST_AUTO_TEST_SUITE_END()
