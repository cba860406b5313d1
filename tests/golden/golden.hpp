#pragma once

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <halfstep/data/npz.hpp>
#include <halfstep/numeric/traits.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace halfstep::test {

/// An array that PyTorch computed, cut along its first axes.
template <class T>
struct GoldenArray {
  Shape shape;
  std::vector<T> values;

  std::int64_t rows() const { return shape[0]; }
  std::int64_t size() const { return shape.size(); }
  /// The elements whose first indices are these.
  template <class... Index>
  std::span<const T> at(Index... index) const {
    const std::int64_t indices[] = {static_cast<std::int64_t>(index)...};
    std::int64_t begin = 0, extent = shape.size();
    for (std::size_t axis = 0; axis < sizeof...(index); ++axis) {
      extent /= shape[static_cast<int>(axis)];
      begin += indices[axis] * extent;
    }
    return std::span(values).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(extent));
  }
  const T& operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
};

/// One of the files that tests/golden/generate.py wrote.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& topic)
      : file_(std::filesystem::path(HALFSTEP_SOURCE_DIR) / "tests/golden" / (topic + ".npz")) {}

  template <class T = float>
  GoldenArray<T> read(const std::string& name) const {
    const TypedArray array = file_.array(name);
    return {array.shape(), array.to<T>()};
  }
  template <class T = float>
  T number(const std::string& name) const {
    const auto array = read<T>(name);
    BOOST_TEST_REQUIRE(array.size() == 1);
    return array[0];
  }

 private:
  NpzFile file_;
};

/// How many floats lie between two finite ones.
inline std::int64_t ulps_between(float a, float b) {
  const auto position = [](float value) {
    const auto bits = static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, value) & 0x7fffffffu);
    return static_cast<std::int64_t>(value < 0 ? -bits : bits);
  };
  return std::abs(position(a) - position(b));
}

inline bool same_bits(float a, float b) {
  return __builtin_bit_cast(std::uint32_t, a) == __builtin_bit_cast(std::uint32_t, b);
}

}  // namespace halfstep::test
