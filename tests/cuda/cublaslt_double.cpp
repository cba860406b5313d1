#include <halfstep/device/buffer.hpp>
#include <halfstep/device/device.hpp>
#include <halfstep/numeric/float16.hpp>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/double/cublaslt.hpp"

namespace cublaslt_double_test {

using namespace halfstep;
using namespace halfstep_test;

/// A product of 4 x 2 numbers of type float16 with depth 8, and all that can be said of it.
struct Call {
  cudaDataType_t a_type = CUDA_R_16F, b_type = CUDA_R_16F, c_type = CUDA_R_16F, d_type = CUDA_R_16F;
  cudaDataType_t scale = CUDA_R_32F, bias_type = CUDA_R_16F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t a_as = CUBLAS_OP_N;
  std::uint64_t a_rows = 4, b_rows = 8;
  std::int64_t a_leading = 4, d_stride = 8;
  std::int32_t a_count = 2, count = 2, order = CUBLASLT_ORDER_COL;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS, reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  std::uint32_t a_alignment = 256;
  // Elements from where an operand is aligned.
  std::int64_t a_shift = 0, bias_shift = 0, d_place = 256;
  std::size_t workspace_less = 0, workspace_shift = 0;
  float beta = 1.0f;
  bool changes_after_asking = false;
};

template <class T, class Object, class Name>
void set(cublasStatus_t (*setter)(Object, Name, const void*, std::size_t), Object object, Name name, T value) {
  BOOST_TEST_REQUIRE(setter(object, name, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS);
}

/// The double's only sentence on such a call, or none.
std::string sentence_on(const Call& call) {
  Cuda cuda;
  const Buffer<float16, Cuda> memory(cuda, 2048);
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&operation, call.compute, call.scale);
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatrixLayoutCreate(&a, call.a_type, call.a_rows, 8, call.a_leading);
  cublasLtMatrixLayoutCreate(&b, call.b_type, call.b_rows, 2, 8);
  cublasLtMatrixLayoutCreate(&c, call.c_type, 4, 2, 4);
  cublasLtMatrixLayoutCreate(&d, call.d_type, 4, 2, 4);
  for (const auto layout : {a, b, c, d}) {
    set(&cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
        layout == a ? call.a_count : call.count);
    set(&cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
        layout == c || layout == d ? call.d_stride : std::int64_t{0});
    set(&cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_ORDER, call.order);
  }
  const void* const bias = memory.data() + 1024 + call.bias_shift;
  set(&cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_TRANSA, call.a_as);
  set(&cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_EPILOGUE, call.epilogue);
  set(&cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  set(&cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
      static_cast<std::int32_t>(call.bias_type));
  set(&cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{512});
  set(&cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, call.reductions);
  set(&cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, call.a_alignment);
  for (const auto side : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(&cublasLtMatmulPreferenceSetAttribute, preference, side, std::uint32_t{16});
  }
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, d, preference, 1, &best, &found);
  if (status == CUBLAS_STATUS_SUCCESS) {
    if (call.changes_after_asking) {
      set(&cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
          static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_DEFAULT));
    }
    const float alpha = 1.0f;
    float16* const at = memory.data();
    status =
        cublasLtMatmul(handle, operation, &alpha, at + call.a_shift, a, at + 128, b, &call.beta, at + call.d_place, c,
                       at + call.d_place, d, &best.algo, reinterpret_cast<std::byte*>(at + 1280) + call.workspace_shift,
                       512 - call.workspace_less, cuda.stream());
  }
  for (const auto layout : {a, b, c, d}) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(operation);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtDestroy(handle);
  const std::vector<std::string> sentences = take_blas_violations();
  BOOST_TEST((status == CUBLAS_STATUS_SUCCESS) == sentences.empty());
  BOOST_TEST_REQUIRE(sentences.size() <= 1);
  return sentences.empty() ? "" : sentences[0];
}

}  // namespace cublaslt_double_test

BOOST_AUTO_TEST_SUITE(cublaslt_double_tests)

using namespace cublaslt_double_test;

BOOST_AUTO_TEST_CASE(the_double_lets_a_right_call_through_and_says_of_each_wrong_one_what_is_wrong) {
  BOOST_TEST(sentence_on({}) == "");
  const std::vector<std::pair<std::function<void(Call&)>, std::string>> faults{
      {[](Call& call) { call.compute = CUBLAS_COMPUTE_16F; }, "sums must be in float"},
      {[](Call& call) { call.compute = CUBLAS_COMPUTE_32F_FAST_TF32; }, "for CUDA_R_32F alone"},
      {[](Call& call) { call.scale = CUDA_R_16F; }, "alpha and beta"},
      {[](Call& call) { call.b_type = CUDA_R_16BF; }, "A and B must have one type"},
      {[](Call& call) { call.c_type = CUDA_R_32F; }, "C and D must have one type"},
      {[](Call& call) { call.c_type = call.d_type = CUDA_R_16BF; }, "D must have A's type"},
      {[](Call& call) { call.a_type = call.b_type = CUDA_R_8I; }, "the table does not list"},
      {[](Call& call) { call.order = CUBLASLT_ORDER_ROW; }, "ordered by columns"},
      {[](Call& call) { call.a_leading = 3; }, "leading dimension is less"},
      {[](Call& call) { call.a_count = 1; }, "batch counts must be equal"},
      {[](Call& call) { call.a_count = call.count = 65536; }, "outside [1, 65535]"},
      {[](Call& call) { call.d_stride = 7; }, "matrices of D overlap"},
      {[](Call& call) { call.a_rows = 3; }, "op(A) and D differ in rows"},
      {[](Call& call) { call.a_as = CUBLAS_OP_T; }, "op(A) and D differ in rows"},
      {[](Call& call) { call.b_rows = 7; }, "differ in the inner dimension"},
      {[](Call& call) { call.epilogue = CUBLASLT_EPILOGUE_GELU; }, "do not know"},
      {[](Call& call) { call.bias_type = CUDA_R_32F; }, "the bias must have D's type"},
      {[](Call& call) { call.bias_shift = 4; }, "the bias is not aligned to 16 bytes"},
      {[](Call& call) { call.reductions |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE; }, "in the result's type"},
      {[](Call& call) { call.reductions |= CUBLASLT_REDUCTION_SCHEME_INPLACE; }, "in the result's type"},
      {[](Call& call) { call.a_shift = 8; }, "A is aligned to 16 bytes, the algorithm needs 256"},
      {[](Call& call) { call.a_alignment = 16, call.a_shift = 4; }, "A is aligned to 8 bytes, the algorithm needs 16"},
      {[](Call& call) { call.a_shift = 2048; }, "A is not all within one allocation"},
      {[](Call& call) { call.d_place = 136; }, "the result lies on an operand"},
      {[](Call& call) { call.beta = 0.5f; }, "beta must be 0 or 1"},
      {[](Call& call) { call.workspace_less = 1; }, "smaller than the algorithm needs"},
      {[](Call& call) { call.workspace_shift = 16; }, "not aligned to 256 bytes"},
      {[](Call& call) { call.changes_after_asking = true; }, "an algorithm that was offered for"}};
  for (const auto& [spoil, sentence] : faults) {
    Call call;
    spoil(call);
    const std::string found = sentence_on(call);
    BOOST_TEST(found.find(sentence) != std::string::npos, "'" << found << "' lacks '" << sentence << "'");
  }
}

BOOST_AUTO_TEST_SUITE_END()
