#pragma once

#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cublaslt_problem.hpp"
#include "cuda_runtime.hpp"

/// What the double of cuBLASLt multiplies with.
namespace halfstep_test {

/// Nearest, as the conversion instruction does; ties away from zero.
inline float tensor_float32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u);
}
inline float load(cudaDataType_t type, const void* data, std::int64_t index) {
  if (type == CUDA_R_16F) return static_cast<float>(static_cast<const halfstep::float16*>(data)[index]);
  if (type == CUDA_R_16BF) return static_cast<float>(static_cast<const halfstep::bfloat16*>(data)[index]);
  return static_cast<const float*>(data)[index];
}
inline void store(cudaDataType_t type, void* data, std::int64_t index, float value) {
  if (type == CUDA_R_16F) {
    static_cast<halfstep::float16*>(data)[index] = halfstep::float16(value);
  } else if (type == CUDA_R_16BF) {
    static_cast<halfstep::bfloat16*>(data)[index] = halfstep::bfloat16(value);
  } else {
    static_cast<float*>(data)[index] = value;
  }
}

/// The numbers of one matrix as float, by columns and without gaps.
inline std::vector<float> gather(const BlasLayout& layout, const void* data, std::int64_t item,
                                 bool as_tensor_float32) {
  std::vector<float> values;
  values.reserve(layout.rows * layout.columns);
  for (std::int64_t j = 0; j < static_cast<std::int64_t>(layout.columns); ++j) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(layout.rows); ++i) {
      const float value = load(layout.type, data, item * layout.stride + j * layout.leading + i);
      values.push_back(as_tensor_float32 ? tensor_float32(value) : value);
    }
  }
  return values;
}

struct BlasProduct {
  BlasProblem problem;
  float alpha, beta;
  const void *a, *b, *c, *bias;
  void* d;
  std::byte* workspace;
  std::size_t workspace_bytes;

  /// Sums in float, in whose precision the order of terms is seen; C is not read where beta is 0.
  void operator()() const {
    const DeviceMemoryOpen open;
    // An algorithm may leave anything in its workspace.
    if (workspace_bytes > 0) {
      std::memset(workspace, 0xff, (std::min)(workspace_bytes, std::size_t{4096}));
      workspace[workspace_bytes - 1] = std::byte{0xff};
    }
    const auto& [operation, a_layout, b_layout, c_layout, d_layout] = problem;
    const bool rounded = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    const auto rows = static_cast<std::int64_t>(d_layout.rows), columns = static_cast<std::int64_t>(d_layout.columns);
    const auto depth = static_cast<std::int64_t>(problem.depth());
    const auto step = [](bool as_is, const BlasLayout& layout) {
      const auto stored = static_cast<std::int64_t>(layout.rows);
      return as_is ? std::array{std::int64_t{1}, stored} : std::array{stored, std::int64_t{1}};
    };
    const auto [a_row, a_column] = step(operation.a == CUBLAS_OP_N, a_layout);
    const auto [b_row, b_column] = step(operation.b == CUBLAS_OP_N, b_layout);
    for (std::int64_t item = 0; item < d_layout.count; ++item) {
      const std::vector<float> left = gather(a_layout, a, item, rounded), right = gather(b_layout, b, item, rounded);
      for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) {
          float sum = 0;
          for (std::int64_t k = 0; k < depth; ++k) {
            sum += left[static_cast<std::size_t>(i * a_row + k * a_column)] *
                   right[static_cast<std::size_t>(k * b_row + j * b_column)];
          }
          sum *= alpha;
          const std::int64_t place = item * d_layout.stride + j * d_layout.leading + i;
          if (beta != 0.0f) sum += beta * load(c_layout.type, c, place);
          if (operation.epilogue == CUBLASLT_EPILOGUE_BIAS) sum += load(d_layout.type, bias, i);
          store(d_layout.type, d, place, sum);
        }
      }
    }
  }
};

}  // namespace halfstep_test
