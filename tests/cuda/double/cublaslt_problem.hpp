#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

/// What cuBLASLt is asked for, read back from NVIDIA's descriptors, and whether its documentation allows it.
namespace halfstep_test {

struct BlasLayout {
  cudaDataType_t type;
  std::int32_t order;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t count;
  std::int64_t stride;

  bool operator==(const BlasLayout&) const = default;

  /// Elements from the first to behind the last.
  std::int64_t extent() const {
    return (count - 1) * stride + (static_cast<std::int64_t>(columns) - 1) * leading + static_cast<std::int64_t>(rows);
  }
  std::size_t element_bytes() const { return type == CUDA_R_32F ? 4 : 2; }
  std::string text(const char* name) const {
    return std::string(name) + " " + std::to_string(rows) + " x " + std::to_string(columns) +
           " with leading dimension " + std::to_string(leading) + ", type " + std::to_string(static_cast<int>(type)) +
           ", batch count " + std::to_string(count) + ", stride " + std::to_string(stride);
  }
};

struct BlasOperation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t pointer_mode, a, b, c, fill;
  std::uint32_t epilogue;
  std::int64_t bias_stride;
  std::int32_t bias_type;
  std::int8_t fast_accumulation;

  bool operator==(const BlasOperation&) const = default;
};

struct BlasProblem {
  BlasOperation operation;
  BlasLayout a, b, c, d;

  bool operator==(const BlasProblem&) const = default;

  std::uint64_t depth() const { return operation.a == CUBLAS_OP_N ? a.columns : a.rows; }
  std::string text() const {
    return a.text("A") + (operation.a == CUBLAS_OP_N ? "" : " transposed") + "; " + b.text("B") +
           (operation.b == CUBLAS_OP_N ? "" : " transposed") + "; " + c.text("C") + "; " + d.text("D") +
           "; compute type " + std::to_string(static_cast<int>(operation.compute)) + "; epilogue " +
           std::to_string(operation.epilogue);
  }
};

template <class T>
T attribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name) {
  T value{};
  std::size_t written = 0;
  if (cublasLtMatrixLayoutGetAttribute(layout, name, &value, sizeof(value), &written) != CUBLAS_STATUS_SUCCESS ||
      written != sizeof(value)) {
    throw std::logic_error("layout attribute " + std::to_string(name) + " cannot be read back");
  }
  return value;
}
template <class T>
T attribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name) {
  T value{};
  std::size_t written = 0;
  if (cublasLtMatmulDescGetAttribute(operation, name, &value, sizeof(value), &written) != CUBLAS_STATUS_SUCCESS ||
      written != sizeof(value)) {
    throw std::logic_error("operation attribute " + std::to_string(name) + " cannot be read back");
  }
  return value;
}
template <class T>
T attribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name) {
  T value{};
  std::size_t written = 0;
  if (cublasLtMatmulPreferenceGetAttribute(preference, name, &value, sizeof(value), &written) !=
          CUBLAS_STATUS_SUCCESS ||
      written != sizeof(value)) {
    throw std::logic_error("preference attribute " + std::to_string(name) + " cannot be read back");
  }
  return value;
}

inline BlasLayout read(cublasLtMatrixLayout_t layout) {
  return {static_cast<cudaDataType_t>(attribute<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE)),
          attribute<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER),
          attribute<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS),
          attribute<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS),
          attribute<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD),
          attribute<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),
          attribute<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)};
}
inline BlasOperation read(cublasLtMatmulDesc_t operation) {
  return {static_cast<cublasComputeType_t>(attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE)),
          static_cast<cudaDataType_t>(attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE)),
          attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_POINTER_MODE),
          attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSA),
          attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSB),
          attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSC),
          attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_FILL_MODE),
          attribute<std::uint32_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE),
          attribute<std::int64_t>(operation, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE),
          attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE),
          attribute<std::int8_t>(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM)};
}

namespace blas_rules {

/// cuBLAS documentation, cublasLtMatmul(), the table of types for A, B, C and D in regular order, rows of
/// CUBLAS_COMPUTE_32F and CUBLAS_COMPUTE_32F_FAST_TF32 that are in floating point.
inline std::string fault_of_types(const BlasProblem& problem) {
  const auto& [operation, a, b, c, d] = problem;
  const bool plain = operation.compute == CUBLAS_COMPUTE_32F;
  if (!plain && operation.compute != CUBLAS_COMPUTE_32F_FAST_TF32) return "sums must be in float: CUBLAS_COMPUTE_32F";
  if (operation.scale != CUDA_R_32F) return "alpha and beta must be CUDA_R_32F with this compute type";
  if (a.type != b.type) return "A and B must have one type";
  if (c.type != d.type) return "C and D must have one type";
  const bool is_16bit = a.type == CUDA_R_16F || a.type == CUDA_R_16BF;
  if (!is_16bit && a.type != CUDA_R_32F) return "A has a type that the table does not list";
  if (d.type != a.type && d.type != CUDA_R_32F) return "D must have A's type or be CUDA_R_32F";
  if (!plain && is_16bit) return "CUBLAS_COMPUTE_32F_FAST_TF32 is for CUDA_R_32F alone";
  return "";
}

/// cublasLt.h, at cublasLtMatrixLayoutAttribute_t and CUBLASLT_MATMUL_DESC_TRANSC; NVIDIA/CUDALibrarySamples#185 for
/// the batch counts, tensorflow/tensorflow#44175 for the largest.
inline std::string fault_of_layouts(const BlasProblem& problem) {
  const auto& [operation, a, b, c, d] = problem;
  for (const BlasLayout* layout : {&a, &b, &c, &d}) {
    if (layout->order != CUBLASLT_ORDER_COL) return "every matrix must be ordered by columns";
    if (layout->rows == 0 || layout->columns == 0) return "a matrix has no elements";
    if (layout->leading < static_cast<std::int64_t>(layout->rows)) return "a leading dimension is less than the rows";
    if (layout->count != d.count) return "batch counts must be equal";
    if (layout->count < 1 || layout->count > 65535) return "a batch count is outside [1, 65535]";
    if (layout->count > 1 && layout->stride < 0) return "a stride between the matrices of a batch is negative";
  }
  if (d.count > 1 &&
      d.stride < (static_cast<std::int64_t>(d.columns) - 1) * d.leading + static_cast<std::int64_t>(d.rows)) {
    return "the matrices of D overlap";
  }
  if (!(c == d)) return "C and D in one place must have one layout";
  const bool a_as_is = operation.a == CUBLAS_OP_N, b_as_is = operation.b == CUBLAS_OP_N;
  if ((!a_as_is && operation.a != CUBLAS_OP_T) || (!b_as_is && operation.b != CUBLAS_OP_T))
    return "an unknown transform";
  if (operation.c != CUBLAS_OP_N) return "C must not be transposed";
  if (operation.fill != CUBLAS_FILL_MODE_FULL) return "the fill mode must be full";
  if ((a_as_is ? a.rows : a.columns) != d.rows) return "op(A) and D differ in rows";
  if ((b_as_is ? b.columns : b.rows) != d.columns) return "op(B) and D differ in columns";
  if ((b_as_is ? b.rows : b.columns) != problem.depth()) return "op(A) and op(B) differ in the inner dimension";
  return "";
}

/// cublasLt.h, at CUBLASLT_EPILOGUE_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER and _BIAS_DATA_TYPE;
/// pytorch/pytorch#194497 for the alignment.
inline std::string fault_of_epilogue(const BlasProblem& problem, const void* bias) {
  const BlasOperation& operation = problem.operation;
  if (operation.pointer_mode != CUBLASLT_POINTER_MODE_HOST) return "alpha and beta must be read on the host";
  if (operation.fast_accumulation != 0) return "fast accumulation is for 8-bit types, and less than float";
  if (operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return "";
  if (operation.epilogue != CUBLASLT_EPILOGUE_BIAS) return "an epilogue that these tests do not know";
  if (bias == nullptr) return "an epilogue with a bias, and no bias";
  if (operation.bias_type != -1 && operation.bias_type != problem.d.type) return "the bias must have D's type";
  if (operation.bias_stride != 0) return "one bias is for every matrix of a batch";
  if (reinterpret_cast<std::uintptr_t>(bias) % 16 != 0) return "the bias is not aligned to 16 bytes";
  return "";
}

}  // namespace blas_rules

/// A sentence, or none if the documentation allows it.
inline std::string fault_of(const BlasProblem& problem, const void* bias) {
  for (const std::string& fault : {blas_rules::fault_of_types(problem), blas_rules::fault_of_layouts(problem),
                                   blas_rules::fault_of_epilogue(problem, bias)}) {
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace halfstep_test
