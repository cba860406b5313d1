#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emulated.hpp"
#include "cuda/on_device.hpp"

namespace matmul_test {

using halfstep::test::emulated;

/// A float16 product of 3 x 5 with depth 4 whose arguments all lie on the device.
struct Small {
  static constexpr std::int64_t m = 3, n = 5, k = 4;
  std::vector<float16> ones = std::vector<float16>(20, float16(1.0f));
  std::vector<float> twos = std::vector<float>(5, 2.0f), fours = std::vector<float>(5, 4.0f),
                     sevens = std::vector<float>(15, 7.0f);
  OnDevice<float16> a, b;
  OnDevice<float> bias, other_bias, result;

  explicit Small(Cuda& cuda)
      : a(cuda, ones.data(), m * k, 0),
        b(cuda, ones.data(), k * n, 0),
        bias(cuda, twos.data(), n, 0),
        other_bias(cuda, fours.data(), n, 0),
        result(cuda, sevens.data(), m * n, 0) {}

  void multiply(Cuda& cuda, const float* with = nullptr, bool accumulate = false) const {
    matmul(cuda, matrix(a.data(), m, k), matrix(b.data(), k, n), matrix(result.data(), m, n),
           {.bias = with, .accumulate = accumulate});
  }
  bool holds(float value) const {
    std::vector<float> values(15);
    result.download(values.data());
    return values == std::vector<float>(15, value);
  }
};

template <class Error, class Call>
void fails_with(const Call& call, const std::vector<std::string>& parts) {
  BOOST_CHECK_EXCEPTION(call(), Error, [&](const Error& error) {
    const std::string message = error.what();
    for (const std::string& part : parts)
      BOOST_TEST(message.find(part) != std::string::npos, message << " lacks " << part);
    return true;
  });
}

}  // namespace matmul_test

BOOST_FIXTURE_TEST_SUITE(matmul_calls_tests, matmul_test::NothingForbidden)

using namespace matmul_test;

BOOST_AUTO_TEST_CASE(a_result_without_elements_asks_nothing_of_the_gpu) {
  Cuda cuda(options_with(true));
  const Small small(cuda);
  cuda.synchronize();
  reset_cuda_calls();
  float16* const nothing = nullptr;
  matmul(cuda, matrix(nothing, 0, 4), matrix(small.b.data(), 4, 5), matrix(static_cast<float*>(nullptr), 0, 5));
  matmul(cuda, matrix(small.a.data(), 3, 4), matrix(nothing, 4, 0), matrix(static_cast<float*>(nullptr), 3, 0));
  batched_matmul(cuda, 0, MatrixBatch<float16>{matrix(nothing, 0, 0)}, MatrixBatch<float16>{matrix(nothing, 0, 0)},
                 MatrixBatch<float16>{matrix(nothing, 0, 0)});
  BOOST_TEST(cuda_calls().launches + cuda_calls().matmuls + cuda_calls().device_allocations == 0);
}

BOOST_AUTO_TEST_CASE(a_warm_product_is_one_launch_and_asks_makes_and_allocates_nothing) {
  Cuda cuda(options_with(true));
  const Small small(cuda);
  small.multiply(cuda, small.bias.data());
  cuda.synchronize();
  const std::int64_t asked = blas_calls().heuristics;
  BOOST_TEST((asked == 1 || !emulated));
  reset_cuda_calls();
  for (const float* bias : {small.bias.data(), small.bias.data(), small.other_bias.data()}) small.multiply(cuda, bias);
  BOOST_TEST(blas_calls().heuristics == asked);
  BOOST_TEST(blas_calls().handles_made == 1);
  const CudaCalls& calls = cuda_calls();
  BOOST_TEST(calls.matmuls == 3);
  BOOST_TEST(calls.launches + calls.memsets + calls.device_allocations + calls.host_allocations + calls.objects_made +
                 calls.copies_to_device + calls.copies_to_host + calls.copies_on_device + calls.stream_waits +
                 calls.event_waits ==
             0);
  BOOST_TEST(small.holds(8.0f));
}

BOOST_AUTO_TEST_CASE(a_bias_that_is_not_fused_costs_one_pass) {
  Cuda cuda(options_with(false));
  const Small small(cuda);
  small.multiply(cuda, small.bias.data());
  cuda.synchronize();
  reset_cuda_calls();
  small.multiply(cuda, small.bias.data());
  BOOST_TEST(cuda_calls().matmuls == 1);
  BOOST_TEST(cuda_calls().launches == 1);
  BOOST_TEST(blas_calls().heuristics == 1);
  BOOST_TEST(small.holds(6.0f));
}

BOOST_AUTO_TEST_CASE(memory_for_sums_grows_beside_what_a_captured_graph_may_use) {
  Cuda cuda(options_with(false));
  const std::vector<float16> ones(64, float16(1.0f));
  const OnDevice<float16> a(cuda, ones.data(), 64, 0), bias(cuda, ones.data(), 64, 0), result(cuda, ones.data(), 64, 0);
  const auto multiply = [&](std::int64_t rows) {
    matmul(cuda, matrix(a.data(), rows, 2), matrix(a.data(), 2, 4), matrix(result.data(), rows, 4),
           {.bias = bias.data(), .accumulate = true});
    return cuda_calls().device_allocations;
  };
  multiply(1);
  const std::int64_t allocations = multiply(1);
  BOOST_TEST(multiply(2) == allocations + 1);
  BOOST_TEST(multiply(1) == allocations + 1);
  BOOST_TEST(multiply(3) == allocations + 2);
  BOOST_TEST(multiply(4) == allocations + 2);
  BOOST_TEST(cuda_calls().device_frees == 0);
  BOOST_TEST(cuda.service<compute::detail::CudaMatmuls>().bytes() == 4096 + (4 + 8 + 16) * sizeof(float));
}

BOOST_AUTO_TEST_CASE(the_workspace_is_the_device_s_and_counted_and_there_may_be_none) {
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{0}}) {
    Cuda cuda(options_with(true, bytes));
    const Small small(cuda);
    const std::size_t before = cuda.service_bytes();
    small.multiply(cuda);
    BOOST_TEST(cuda.service_bytes() == before + bytes);
    BOOST_TEST(small.holds(4.0f));
  }
}

BOOST_AUTO_TEST_CASE(plans_make_room_for_new_ones) {
  Cuda cuda(options_with(true));
  const std::int64_t most = compute::detail::CudaMatmuls::capacity;
  std::vector<float> numbers(static_cast<std::size_t>(most + 8), 1.0f);
  const OnDevice<float> a(cuda, numbers.data(), most + 8, 0), result(cuda, numbers.data(), 1, 0);
  const auto multiply = [&](std::int64_t depth) {
    matmul(cuda, matrix(a.data(), 1, depth), matrix(a.data(), depth, 1), matrix(result.data(), 1, 1));
    return blas_calls().heuristics;
  };
  for (std::int64_t depth = 1; depth <= most; ++depth) multiply(depth);
  BOOST_TEST(multiply(1) == most);
  // Of depth 2 nothing was seen for longest.
  BOOST_TEST(multiply(most + 1) == most + 1);
  BOOST_TEST(multiply(1) == most + 1);
  BOOST_TEST(multiply(3) == most + 1);
  BOOST_TEST(multiply(2) == most + 2);
  BOOST_TEST(cuda.service<compute::detail::CudaMatmuls>().size() == compute::detail::CudaMatmuls::capacity);
}

BOOST_AUTO_TEST_CASE(views_that_do_not_fit_are_refused_before_anything_is_asked) {
  Cuda cuda(options_with(true));
  const Small small(cuda);
  fails_with<ShapeError>(
      [&] {
        matmul(cuda, matrix(small.a.data(), 3, 4), matrix(small.b.data(), 5, 4), matrix(small.result.data(), 3, 4));
      },
      {"m 3, n 4, k 4", "float16 to float32", "as many columns as b has rows"});
  BOOST_TEST(blas_calls().handles_made == 0);
}

BOOST_AUTO_TEST_CASE(float_operands_are_float_unless_tensor_float32_is_asked_for) {
  Cuda cuda(options_with(true));
  const float little = 1.0f + 0x1p-12f, one = 1.0f;
  const OnDevice<float> a(cuda, &little, 1), b(cuda, &one, 1), result(cuda, &one, 1);
  for (const bool tensor_float32 : {false, true}) {
    matmul(cuda, matrix(a.data(), 1, 1), matrix(b.data(), 1, 1), matrix(result.data(), 1, 1),
           {.tensor_float32 = tensor_float32});
    float found = 0.0f;
    result.download(&found);
    // NVIDIA's library may, and need not.
    BOOST_TEST((found == (tensor_float32 ? 1.0f : little) || (tensor_float32 && !emulated && found == little)));
    BOOST_TEST(blas_calls().tensor_float32_matmuls == (tensor_float32 ? 1 : 0));
  }
  const Small small(cuda);
  matmul(cuda, matrix(small.a.data(), 3, 4), matrix(small.b.data(), 4, 5), matrix(small.result.data(), 3, 5),
         {.tensor_float32 = true});
  BOOST_TEST(blas_calls().tensor_float32_matmuls == 1);
  BOOST_TEST(small.holds(4.0f));
}

#if defined(HALFSTEP_CUDA_EMULATION)

BOOST_AUTO_TEST_CASE(where_no_fused_bias_is_offered_a_pass_adds_it_and_the_question_is_not_asked_again) {
  set_offer(Offer::nothing_fused);
  Cuda cuda(options_with(true));
  const Small small(cuda);
  small.multiply(cuda, small.bias.data());
  BOOST_TEST(small.holds(6.0f));
  BOOST_TEST(blas_calls().heuristics == 2);
  small.multiply(cuda, small.bias.data(), true);
  BOOST_TEST(small.holds(12.0f));
  const std::int64_t asked = blas_calls().heuristics;
  small.multiply(cuda, small.bias.data(), true);
  BOOST_TEST(small.holds(18.0f));
  BOOST_TEST(blas_calls().heuristics == asked);
}

BOOST_AUTO_TEST_CASE(where_nothing_is_offered_the_error_names_the_whole_product_and_nothing_is_written) {
  set_offer(Offer::nothing);
  Cuda cuda(options_with(true));
  const Small small(cuda);
  for (const float* bias : {static_cast<const float*>(nullptr), static_cast<const float*>(small.bias.data())}) {
    fails_with<DeviceError>(
        [&] { small.multiply(cuda, bias, true); },
        {"m 3, n 5, k 4", "float16 to float32", "accumulating", "a is with rows 4 apart", "b is with rows 5 apart",
         "the result is with rows 5 apart", "aligned to 256 bytes", "workspace of 4096 bytes",
         "cublasLtMatmulAlgoGetHeuristic", "CUBLAS_STATUS_NOT_SUPPORTED", "CudaOptions::workspace_bytes"});
  }
  BOOST_TEST(small.holds(7.0f));
  std::vector<float> numbers(64, 1.0f);
  const OnDevice<float> there(cuda, numbers.data(), 64, 1);
  const auto batch = MatrixBatch<float>{matrix(there.data(), 2, 3), 7};
  fails_with<DeviceError>(
      [&] {
        batched_matmul(cuda, 2, batch.transposed(), batch, MatrixBatch<float>{matrix(there.data() + 32, 3, 3), 9},
                       {.tensor_float32 = true});
      },
      {"m 3, n 3, k 2, a batch of 2, float32 to float32 by TensorFloat-32", "a is transposed, with rows 3 apart",
       "matrices 7 apart", "matrices 9 apart", "aligned to 4 bytes"});
}

BOOST_AUTO_TEST_CASE(a_call_that_cublaslt_refuses_is_named_with_its_status) {
  Cuda cuda(options_with(true));
  const Small small(cuda);
  fail_blas_call("cublasLtCreate", CUBLAS_STATUS_NOT_INITIALIZED);
  fails_with<DeviceError>([&] { small.multiply(cuda); }, {"cublasLtCreate", "CUBLAS_STATUS_NOT_INITIALIZED"});
  fail_cuda_call("cudaMallocFromPoolAsync", cudaErrorMemoryAllocation);
  fails_with<DeviceError>([&] { small.multiply(cuda); }, {"cudaMallocFromPoolAsync", "bytes 4096"});
  fail_blas_call("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_INTERNAL_ERROR);
  fails_with<DeviceError>([&] { small.multiply(cuda); }, {"AlgoGetHeuristic", "INTERNAL_ERROR", "m 3, n 5, k 4"});
  fail_blas_call("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
  fails_with<DeviceError>([&] { small.multiply(cuda); },
                          {"cublasLtMatmul(a at ", "bias null", "CUBLAS_STATUS_EXECUTION_FAILED", "m 3, n 5, k 4"});
  BOOST_TEST(small.holds(7.0f));
  small.multiply(cuda);
  BOOST_TEST(small.holds(4.0f));
}

BOOST_AUTO_TEST_CASE(two_devices_share_nothing_and_give_everything_back) {
  const std::size_t before = device_bytes_in_use();
  {
    Cuda one(options_with(true)), two(options_with(true));
    const Small first(one), second(two);
    first.multiply(one), second.multiply(two), first.multiply(one);
    BOOST_TEST(first.holds(4.0f));
    BOOST_TEST(second.holds(4.0f));
    BOOST_TEST(blas_calls().handles_made == 2);
    BOOST_TEST(blas_calls().heuristics == 2);
  }
  BOOST_TEST(blas_calls().handles_destroyed == 2);
  BOOST_TEST(device_bytes_in_use() == before);
}

#endif

BOOST_AUTO_TEST_SUITE_END()
