#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/convert.hpp>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/device/device.hpp>
#include <halfstep/numeric/float16.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <vector>

#include "cuda/double/cuda_runtime.hpp"

using namespace halfstep;

namespace passes_test {

const std::vector<std::int64_t> sizes{0, 1, 31, 255, 1023, 1024, 1025, 4096, 4097, 10007};

/// Small whole numbers, whose sums are exact in any order.
std::vector<float> numbers(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37 + 11) % 101) - 50.0f;
  return values;
}

template <class T>
Buffer<T, Cuda> on_device(Cuda& cuda, const std::vector<T>& values) {
  Buffer<T, Cuda> buffer(cuda, static_cast<std::int64_t>(values.size()));
  cuda.upload(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}
template <class T>
std::vector<T> on_host(Cuda& cuda, const T* data, std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  cuda.download(values.data(), data, values.size() * sizeof(T));
  return values;
}

struct Twice {
  const float* from;
  float* to;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { to[i] = 2.0f * from[i]; }
};
struct Value {
  const float* values;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t i) const { return values[i]; }
};

}  // namespace passes_test

using namespace passes_test;

BOOST_AUTO_TEST_SUITE(passes_tests)

BOOST_AUTO_TEST_CASE(an_element_wise_pass_reaches_every_element_once) {
  Cuda cuda;
  for (const std::int64_t n : sizes) {
    const auto values = numbers(n);
    const auto from = on_device(cuda, values);
    Buffer<float, Cuda> to(cuda, n);
    compute::for_each(cuda, n, Twice{from.data(), to.data()});
    const auto result = on_host(cuda, to.data(), n);
    for (std::size_t i = 0; i < values.size(); ++i) BOOST_TEST_REQUIRE(result[i] == 2.0f * values[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_reduction_combines_every_element_once) {
  Cuda cuda;
  Arena<Cuda> arena(cuda);
  for (const std::int64_t n : sizes) {
    const auto values = numbers(n);
    double sum = 0;
    float largest = -100.0f;
    for (const float value : values) sum += value, largest = value > largest ? value : largest;
    const auto from = on_device(cuda, values);
    auto* total = arena.allocate<double>(1);
    auto* maximum = arena.allocate<float>(1);
    compute::reduce(cuda, arena, n, Value{from.data()}, 0.0, compute::Plus{}, total);
    compute::reduce(cuda, arena, n, Value{from.data()}, -100.0f, compute::Maximum{}, maximum);
    BOOST_TEST(on_host(cuda, total, 1)[0] == sum);
    BOOST_TEST(on_host(cuda, maximum, 1)[0] == largest);
  }
}

BOOST_AUTO_TEST_CASE(columns_are_summed_or_added_to_what_is_there) {
  Cuda cuda;
  Arena<Cuda> arena(cuda);
  for (const std::int64_t rows : {0, 1, 63, 64, 65, 200}) {
    for (const std::int64_t columns : {1, 10, 256, 257}) {
      const auto values = numbers(rows * columns);
      const auto from = on_device(cuda, values);
      auto sums = on_device(cuda, std::vector<float>(static_cast<std::size_t>(columns), 3.0f));
      const compute::Matrix<const float> matrix = compute::matrix<const float>(from.data(), rows, columns);
      for (const bool accumulate : {true, false}) {
        compute::column_sum(cuda, arena, matrix, sums.data(), accumulate);
        const auto result = on_host(cuda, sums.data(), columns);
        for (std::int64_t j = 0; j < columns; ++j) {
          float expected = accumulate ? 3.0f : 0.0f;
          for (std::int64_t i = 0; i < rows; ++i) expected += values[static_cast<std::size_t>(i * columns + j)];
          BOOST_TEST_REQUIRE(result[static_cast<std::size_t>(j)] == expected);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(conversions_round_as_on_the_host) {
  Cuda cuda;
  const auto values = numbers(1500);
  const auto from = on_device(cuda, values);
  Buffer<float16, Cuda> to(cuda, 1500);
  compute::convert(cuda, from.data(), to.data(), 1500);
  const auto result = on_host(cuda, to.data(), 1500);
  for (std::size_t i = 0; i < values.size(); ++i) BOOST_TEST(result[i].bits() == float16(values[i]).bits());
}

BOOST_AUTO_TEST_CASE(uploads_may_be_followed_by_other_uses_of_the_memory_that_they_came_from) {
  Cuda cuda;
  Buffer<float, Cuda> to(cuda, 8);
  std::vector<float> values{1, 2, 3, 4};
  cuda.upload(to.data(), values.data(), 16);
  values.assign(4, 0.0f);
  cuda.upload(to.data() + 4, values.data(), 16);
  BOOST_TEST(on_host(cuda, to.data(), 8) == (std::vector<float>{1, 2, 3, 4, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(large_uploads_take_a_bounded_amount_of_page_locked_memory) {
  Cuda cuda;
  constexpr std::int64_t n = (std::int64_t{100} << 20) / 4 + 3;
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000003);
  Buffer<float, Cuda> to(cuda, n);
  cuda.upload(to.data(), values.data(), values.size() * sizeof(float));
  BOOST_TEST(cuda.service_bytes() < std::size_t{80} << 20);
  BOOST_TEST((on_host(cuda, to.data(), n) == values));
}

#if defined(HALFSTEP_CUDA_EMULATION)

BOOST_AUTO_TEST_CASE(a_machine_without_a_gpu_is_told_apart_from_a_gpu_that_is_not_there) {
  halfstep_test::set_device_count(0);
  BOOST_CHECK_EXCEPTION(Cuda(), DeviceError, [](const DeviceError& error) {
    const std::string text = error.what();
    return text.find("there is no NVIDIA GPU with a driver") != std::string::npos && text.find("Host") != std::string::npos;
  });
  halfstep_test::set_device_count(2);
  BOOST_CHECK_EXCEPTION(Cuda({.device = 2}), DeviceError, [](const DeviceError& error) {
    return std::string(error.what()).find("device 2, of 2") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_call_that_fails_is_named_with_its_arguments_and_nothing_leaks) {
  const auto before = halfstep_test::objects_alive();
  const auto bytes = halfstep_test::device_bytes_in_use();
  {
    Cuda cuda;
    halfstep_test::fail_cuda_call("cudaMallocFromPoolAsync", cudaErrorMemoryAllocation);
    BOOST_CHECK_EXCEPTION((Buffer<float, Cuda>(cuda, 12)), DeviceError, [](const DeviceError& error) {
      return std::string(error.what()).find("cudaMallocFromPoolAsync(bytes 48) failed: out of memory") == 6;
    });
    Buffer<float, Cuda> kept(cuda, 12);
    halfstep_test::fail_cuda_call("cudaLaunchKernel", cudaErrorInvalidConfiguration);
    BOOST_CHECK_THROW(compute::for_each(cuda, 12, Twice{kept.data(), kept.data()}), DeviceError);
  }
  for (const char* call : {"cudaStreamCreateWithFlags", "cudaMemPoolCreate", "cudaMemPoolSetAttribute"}) {
    halfstep_test::fail_cuda_call(call, cudaErrorUnknown);
    BOOST_CHECK_THROW(Cuda(), DeviceError);
  }
  BOOST_TEST(halfstep_test::objects_alive() == before);
  BOOST_TEST(halfstep_test::device_bytes_in_use() == bytes);
}

#endif

BOOST_AUTO_TEST_SUITE_END()
