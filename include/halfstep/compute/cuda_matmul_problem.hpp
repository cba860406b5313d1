#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include <halfstep/compute/cuda_blas.hpp>
#include <halfstep/compute/matmul_options.hpp>
#include <halfstep/compute/matrix.hpp>

namespace halfstep::compute::detail {

/// Where the matrices of one product lie, and its bias if it has one.
struct CudaOperands {
  const void* a;
  const void* b;
  void* result;
  const void* bias;

  bool operator==(const CudaOperands&) const = default;
};

/// Everything that an algorithm of cuBLASLt is chosen by: all of a product but the addresses, of which only the
/// alignments count. As halfstep sees it, stored by rows.
struct CudaProblem {
  std::int64_t rows, columns, depth;
  std::int64_t a_leading, b_leading, result_leading;
  std::int64_t count, a_stride, b_stride, result_stride;
  /// In bytes, 256 at most. That of the bias is 0 where the product adds none.
  std::uint32_t a_alignment, b_alignment, result_alignment, bias_alignment;
  cudaDataType_t operands, result;
  cublasComputeType_t arithmetic;
  bool a_transposed, b_transposed, accumulates;

  bool adds_bias() const { return bias_alignment != 0; }
  bool operator==(const CudaProblem&) const = default;
};

/// The largest power of two that divides an address and the distance in bytes to the next matrix; 256 at most, more
/// than which cuBLASLt does not ask for (CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES).
inline std::uint32_t cuda_alignment(const void* data, std::int64_t bytes_between = 0) {
  const std::uint64_t bits =
      reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uint64_t>(bytes_between) | std::uint64_t{256};
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// The product without its bias. TensorFloat-32 is for float operands alone.
template <class In, class Out>
CudaProblem cuda_problem(std::int64_t count, const MatrixBatch<const In>& a, const MatrixBatch<const In>& b,
                         const MatrixBatch<Out>& result, const MatmulOptions<Out>& options) {
  const auto stride = [&](std::int64_t between) { return count > 1 ? between : std::int64_t{0}; };
  const auto alignment = [&](const auto& batch) {
    constexpr auto size = static_cast<std::int64_t>(sizeof(*batch.first.data));
    return cuda_alignment(batch.first.data, stride(batch.stride) * size);
  };
  const bool tensor_float32 = std::is_same_v<In, float> && options.tensor_float32;
  return {.rows = result.first.rows,
          .columns = result.first.columns,
          .depth = a.first.columns,
          .a_leading = a.first.leading,
          .b_leading = b.first.leading,
          .result_leading = result.first.leading,
          .count = count,
          .a_stride = stride(a.stride),
          .b_stride = stride(b.stride),
          .result_stride = stride(result.stride),
          .a_alignment = alignment(a),
          .b_alignment = alignment(b),
          .result_alignment = alignment(result),
          .bias_alignment = 0,
          .operands = cuda_data_type<In>(),
          .result = cuda_data_type<Out>(),
          .arithmetic = tensor_float32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
          .a_transposed = a.first.is_transposed,
          .b_transposed = b.first.is_transposed,
          .accumulates = options.accumulate};
}

struct CudaProblemHash {
  std::size_t operator()(const CudaProblem& problem) const {
    std::uint64_t hash = 0;
    const auto mix = [&](auto value) {
      hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 32;
    };
    mix(problem.rows), mix(problem.columns), mix(problem.depth);
    mix(problem.a_leading), mix(problem.b_leading), mix(problem.result_leading);
    mix(problem.count), mix(problem.a_stride), mix(problem.b_stride), mix(problem.result_stride);
    mix(problem.a_alignment), mix(problem.b_alignment), mix(problem.result_alignment);
    mix(problem.bias_alignment), mix(problem.operands), mix(problem.result), mix(problem.arithmetic);
    mix(problem.a_transposed * 4 + problem.b_transposed * 2 + problem.accumulates);
    return static_cast<std::size_t>(hash);
  }
};

inline std::string cuda_type_text(cudaDataType_t type) {
  return type == CUDA_R_16F ? "float16" : type == CUDA_R_16BF ? "bfloat16" : "float32";
}

/// What a message says of a problem.
inline std::string describe(const CudaProblem& problem) {
  const auto matrix = [&](const char* name, bool transposed, std::int64_t leading, std::int64_t stride,
                          std::uint32_t alignment) {
    return std::string(name) + (transposed ? " is transposed," : " is") + " with rows " + std::to_string(leading) +
           " apart" + (problem.count > 1 ? ", matrices " + std::to_string(stride) + " apart" : "") + ", aligned to " +
           std::to_string(alignment) + " bytes";
  };
  return "m " + std::to_string(problem.rows) + ", n " + std::to_string(problem.columns) + ", k " +
         std::to_string(problem.depth) +
         (problem.count > 1 ? ", a batch of " + std::to_string(problem.count) : std::string()) + ", " +
         cuda_type_text(problem.operands) + " to " + cuda_type_text(problem.result) +
         (problem.arithmetic == CUBLAS_COMPUTE_32F_FAST_TF32 ? " by TensorFloat-32" : "") +
         (problem.accumulates ? ", accumulating" : "") +
         (problem.adds_bias() ? ", with a bias aligned to " + std::to_string(problem.bias_alignment) + " bytes" : "") +
         "; " + matrix("a", problem.a_transposed, problem.a_leading, problem.a_stride, problem.a_alignment) + "; " +
         matrix("b", problem.b_transposed, problem.b_leading, problem.b_stride, problem.b_alignment) + "; " +
         matrix("the result", false, problem.result_leading, problem.result_stride, problem.result_alignment);
}

}  // namespace halfstep::compute::detail
