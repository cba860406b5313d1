#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

#include <halfstep/compute/cuda_blas.hpp>
#include <halfstep/compute/cuda_matmul_problem.hpp>
#include <halfstep/error.hpp>

namespace halfstep::compute::detail {

/// A product prepared for cuBLASLt: its descriptors and the algorithm. cuBLASLt sees matrices by columns, and a matrix
/// by rows is its own transpose by columns: what is computed is result^T = b^T a^T, so b comes first and the bias runs
/// along the rows.
class CudaMatmulPlan {
 public:
  explicit CudaMatmulPlan(const CudaProblem& problem)
      : first_(layout(problem.operands, problem.depth, problem.columns, problem.b_transposed, problem.b_leading,
                      problem.count, problem.b_stride)),
        second_(layout(problem.operands, problem.rows, problem.depth, problem.a_transposed, problem.a_leading,
                       problem.count, problem.a_stride)),
        result_(layout(problem.result, problem.rows, problem.columns, false, problem.result_leading, problem.count,
                       problem.result_stride)),
        beta_(problem.accumulates ? 1.0f : 0.0f) {
    cublasLtMatmulDesc_t operation = nullptr;
    check_blas(cublasLtMatmulDescCreate(&operation, problem.arithmetic, CUDA_R_32F), "cublasLtMatmulDescCreate");
    operation_.reset(operation);
    set(CUBLASLT_MATMUL_DESC_TRANSA, problem.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, problem.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (problem.adds_bias()) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  }

  /// Asks cuBLASLt for its best algorithm. CUBLAS_STATUS_NOT_SUPPORTED where it offers none. Partial sums must be in
  /// float: of the ways to split the inner dimension that leaves none at all and partial sums in the compute type.
  cublasStatus_t choose(cublasLtHandle_t handle, const CudaProblem& problem, const CudaOperands& operands,
                        std::size_t workspace_bytes) {
    const BlasPreference preference = preference_for(problem, workspace_bytes);
    // Its alignment is read off the pointer.
    point_at_bias(operands.bias);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, operation_.get(), first_.get(), second_.get(), result_.get(),
                                       result_.get(), preference.get(), 1, &best, &found);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (found == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    algorithm_ = best.algo;
    return best.state;
  }

  /// Gives the product to the stream; nothing else touches it. The operands must have the problem's alignments.
  cublasStatus_t run(cublasLtHandle_t handle, const CudaOperands& operands, void* workspace,
                     std::size_t workspace_bytes, cudaStream_t stream) {
    point_at_bias(operands.bias);
    const float alpha = 1.0f;
    return cublasLtMatmul(handle, operation_.get(), &alpha, operands.b, first_.get(), operands.a, second_.get(), &beta_,
                          operands.result, result_.get(), operands.result, result_.get(), &algorithm_, workspace,
                          workspace_bytes, stream);
  }

 private:
  /// Of a matrix that one sees as rows x columns, stored by rows.
  static BlasLayout layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns, bool is_transposed,
                           std::int64_t leading, std::int64_t count, std::int64_t stride) {
    const std::int64_t stored_rows = is_transposed ? columns : rows;
    const std::int64_t stored_columns = is_transposed ? rows : columns;
    cublasLtMatrixLayout_t made = nullptr;
    check_blas(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(stored_columns),
                                          static_cast<std::uint64_t>(stored_rows), leading),
               "cublasLtMatrixLayoutCreate",
               {{"rows", stored_columns}, {"columns", stored_rows}, {"leading dimension", leading}});
    BlasLayout layout(made);
    if (count > 1) {
      const auto batch_count = static_cast<std::int32_t>(count);
      check_blas(
          cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch_count, sizeof(batch_count)),
          "cublasLtMatrixLayoutSetAttribute", {{"batch count", count}});
      check_blas(
          cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
          "cublasLtMatrixLayoutSetAttribute", {{"strided batch offset", stride}});
    }
    return layout;
  }

  static BlasPreference preference_for(const CudaProblem& problem, std::size_t workspace_bytes) {
    cublasLtMatmulPreference_t made = nullptr;
    check_blas(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
    BlasPreference preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check_blas(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute",
                 {{"attribute", static_cast<int>(attribute)}, {"value", static_cast<std::int64_t>(value)}});
    };
    constexpr std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.b_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.a_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem.result_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem.result_alignment);
    return preference;
  }

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    check_blas(cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute", {{"attribute", static_cast<int>(attribute)}});
  }
  void point_at_bias(const void* bias) {
    if (bias == bias_) return;
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    bias_ = bias;
  }

  BlasLayout first_, second_, result_;
  BlasOperation operation_;
  cublasLtMatmulAlgo_t algorithm_{};
  const void* bias_ = nullptr;
  float beta_;
};

}  // namespace halfstep::compute::detail
