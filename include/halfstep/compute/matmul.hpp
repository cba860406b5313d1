#pragma once

/// Products of matrices on a device:
///
///     matmul(device, a, b, result, options);                         // result = a * b
///     matmul(device, matrix(x, n, in), matrix(w, out, in).transposed(), matrix(y, n, out), {.bias = bias});
///     batched_matmul(device, count, a, b, result, options);          // result[i] = a[i] * b[i]
///
/// Operands are both float, both float16 or both bfloat16; the result has their type or is float. Products of
/// 16-bit operands are summed in float. With a bias (one value per column of the result, of the result's
/// type) and with `accumulate` the sum becomes  sum + bias + former result, in float, and is rounded once
/// when it is stored.
///
/// Every view may have gaps between its rows and may start at any element; operands may be transposed views,
/// the result may not. The result must not share memory with the operands. Without `accumulate` what was in
/// the result does not matter, NaN included; infinities and NaN of the operands propagate.
///
/// A result without elements: nothing happens. An inner dimension of 0: the sum is zero. Throws ShapeError,
/// with sizes, types and strides, for views that do not fit together; nothing has been written then.
///
/// The same inputs give the same bits, call after call. On the host they are also the same for every number
/// of threads where the portable loop computes: for products of fewer than `portable_limit` multiply-adds,
/// without oneDNN, and always if HostOptions::deterministic asks for it. oneDNN divides some shapes by the
/// number of threads, mostly small results with a long inner dimension, as gradients of weights are. On a GPU
/// cuBLASLt computes, which chooses its algorithm by the alignment of the matrices too: the bits are the same
/// where that is, by one version of cuBLASLt on one kind of GPU.

#include <halfstep/compute/host_matmul.hpp>
#include <halfstep/numeric/host_device.hpp>
#if HALFSTEP_WITH_CUDA
#include <halfstep/compute/cuda_matmul.hpp>
#endif
