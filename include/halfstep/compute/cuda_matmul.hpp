#pragma once

/// Products by cuBLASLt, for files that a CUDA compiler builds.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <halfstep/compute/cuda_matmul_bias.hpp>
#include <halfstep/compute/cuda_matmul_cache.hpp>
#include <halfstep/compute/cuda_matmul_problem.hpp>
#include <halfstep/compute/matmul_options.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/device/cuda.hpp>
#include <halfstep/numeric/traits.hpp>

namespace halfstep::compute {

namespace detail {

/// Products that one call takes: cuBLASLt declines many more than this for some kernels, whose grids end at 65535. A
/// power of two, so that the next call's matrices are aligned as the first's.
inline constexpr std::int64_t largest_cuda_batch = 32768;

/// cuBLASLt's kernels read a bias 16 bytes at a time, also where they were chosen for one that is aligned to less
/// (pytorch/pytorch#194497), and before the Ampere GPUs they forgot it in places where a column by itself has gaps.
template <class Out>
bool can_fuse_bias(const Cuda& device, const MatrixBatch<Out>& result, const Out* bias) {
  return device.options().fused_bias && cuda_alignment(bias) >= 16 && result.first.columns > 1;
}

/// The bias first, and the product added to it, so that the sum is rounded once. Where a 16-bit result accumulates as
/// well the product goes to float memory, for the same reason.
template <class In, class Out>
void cuda_matmul_after_bias(Cuda& device, std::int64_t count, const MatrixBatch<const In>& a,
                            const MatrixBatch<const In>& b, const MatrixBatch<Out>& result,
                            const MatmulOptions<Out>& options) {
  auto& matmuls = device.service<CudaMatmuls>();
  const std::int64_t rows = result.first.rows, columns = result.first.columns, size = count * rows * columns;
  if (is_16bit<Out> && options.accumulate) {
    float* const sums = matmuls.reserve_sums(device, size);
    const MatrixBatch<float> products{matrix(sums, rows, columns), rows * columns};
    const CudaProblem problem = cuda_problem<In, float>(count, a, b, products, {});
    const CudaOperands operands{a.first.data, b.first.data, sums, nullptr};
    matmuls.run(device, problem, operands);
    for_each(device, size, AddProductAndBias<Out>{result, options.bias, sums});
  } else {
    CudaProblem problem = cuda_problem<In, Out>(count, a, b, result, options);
    problem.accumulates = true;
    const CudaOperands operands{a.first.data, b.first.data, result.first.data, nullptr};
    // Before anything is written, because it may throw.
    matmuls.require(device, problem, operands);
    for_each(device, size, StartFromBias<Out>{result, options.bias, options.accumulate});
    matmuls.run(device, problem, operands);
  }
}

template <class In, class Out>
void cuda_matmul(Cuda& device, std::int64_t count, const MatrixBatch<const In>& a, const MatrixBatch<const In>& b,
                 const MatrixBatch<Out>& result, const MatmulOptions<Out>& options) {
  auto& matmuls = device.service<CudaMatmuls>();
  CudaProblem problem = cuda_problem<In, Out>(count, a, b, result, options);
  const CudaOperands operands{a.first.data, b.first.data, result.first.data, options.bias};
  if (options.bias == nullptr) return matmuls.run(device, problem, operands);
  if (can_fuse_bias(device, result, options.bias)) {
    problem.bias_alignment = cuda_alignment(options.bias);
    if (matmuls.offers(device, problem, operands)) return matmuls.run(device, problem, operands);
  }
  cuda_matmul_after_bias(device, count, a, b, result, options);
}

}  // namespace detail

/// See matmul.hpp. Throws DeviceError, with sizes, types, strides and alignments, where cuBLASLt has no algorithm.
template <class A, class B, class Out>
requires MatmulTypes<A, B, Out>
void batched_matmul(Cuda& device, std::int64_t count, MatrixBatch<A> a, MatrixBatch<B> b, MatrixBatch<Out> result,
                    std::type_identity_t<MatmulOptions<Out>> options = {}) {
  using In = std::remove_const_t<A>;
  detail::check_batched_matmul(count, a, b, result);
  const std::int64_t area = result.first.rows * result.first.columns;
  if (count == 0 || area == 0) return;
  if (a.first.columns == 0) {
    if (options.bias == nullptr && options.accumulate) return;
    return for_each(device, count * area, detail::StartFromBias<Out>{result, options.bias, options.accumulate});
  }
  for (std::int64_t first = 0; first < count; first += detail::largest_cuda_batch) {
    detail::cuda_matmul<In, Out>(device, (std::min)(detail::largest_cuda_batch, count - first), {a[first], a.stride},
                                 {b[first], b.stride}, {result[first], result.stride}, options);
  }
}

/// See matmul.hpp.
template <class A, class B, class Out>
requires MatmulTypes<A, B, Out>
void matmul(Cuda& device, Matrix<A> a, Matrix<B> b, Matrix<Out> result,
            std::type_identity_t<MatmulOptions<Out>> options = {}) {
  batched_matmul(device, 1, MatrixBatch<A>{a}, MatrixBatch<B>{b}, MatrixBatch<Out>{result}, options);
}

}  // namespace halfstep::compute
