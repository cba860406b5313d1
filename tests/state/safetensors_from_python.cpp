#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <halfstep/state/safetensors.hpp>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(safetensors_from_python_tests)

using namespace halfstep;

namespace {

template <class T>
std::vector<T> values(const TensorData& tensor) {
  BOOST_REQUIRE((tensor.dtype == dtype_of<T>));
  std::vector<T> result(tensor.bytes.size() / sizeof(T));
  std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
  return result;
}

}  // namespace

// data/make_from_python.py holds the same numbers.
BOOST_AUTO_TEST_CASE(a_file_of_pythons_package_has_its_numbers) {
  const StateFile file = safetensors::read(HALFSTEP_SOURCE_DIR "/tests/state/data/from_python.safetensors");
  BOOST_TEST(file.tensors.size() == 7u);
  BOOST_TEST(
      (file.metadata == Metadata{{"format", "np"}, {"note", "written by Python, read by halfstep: µ"}}));

  const TensorData& weights = *file.find("embedding.weight");
  BOOST_TEST((weights.shape == std::vector<std::int64_t>{2, 3}));
  BOOST_TEST((values<float>(weights) == std::vector<float>{1.5f, -2.0f, 0.25f, 3.0f, 1e-8f, -0.0f}));
  BOOST_TEST((values<float>(weights)[5] == 0.0f && std::signbit(values<float>(weights)[5])));

  const auto in_float16 = values<float16>(*file.find("half"));
  BOOST_TEST(in_float16.size() == 4u);
  BOOST_TEST(in_float16[0].bits() == 0x3c00);
  BOOST_TEST(in_float16[1].bits() == 0x7bff);
  BOOST_TEST(in_float16[2].bits() == 0x83ff);
  BOOST_TEST(in_float16[3].bits() == 0x0001);

  BOOST_TEST(file.find("double")->shape.empty());
  BOOST_TEST(values<double>(*file.find("double")) == std::vector<double>{0.1});
  BOOST_TEST(
      (values<std::int64_t>(*file.find("steps")) == std::vector<std::int64_t>{1, -1, std::int64_t{1} << 62}));
  BOOST_TEST((file.find("mask")->dtype == DType::boolean));
  BOOST_TEST(
      (file.find("mask")->bytes == std::vector{std::byte{1}, std::byte{0}, std::byte{0}, std::byte{1}}));
  BOOST_TEST((values<std::uint8_t>(*file.find("labels")) == std::vector<std::uint8_t>{0, 9, 255}));
  BOOST_TEST((file.find("nothing")->shape == std::vector<std::int64_t>{0, 7}));
  BOOST_TEST(file.find("nothing")->bytes.empty());
}

BOOST_AUTO_TEST_SUITE_END()
