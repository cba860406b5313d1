#pragma once

#include <cstdint>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/device/cuda.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/traits.hpp>

namespace halfstep::compute::detail {

/// Of a batch whose matrices are no transposed views: the index-th element, row by row and matrix by matrix.
template <class Out>
HALFSTEP_HOST_DEVICE Out& element_of(const MatrixBatch<Out>& batch, std::int64_t index) {
  const std::int64_t row = index / batch.first.columns, item = row / batch.first.rows;
  return batch.first.data[item * batch.stride + (row - item * batch.first.rows) * batch.first.leading +
                          (index - row * batch.first.columns)];
}

/// What the result of a product starts from: its bias, or zeros where that is null, plus what was there if the
/// product accumulates.
template <class Out>
struct StartFromBias {
  MatrixBatch<Out> result;
  const Out* bias;
  bool accumulate;

  HALFSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    Out& out = element_of(result, index);
    const float start = bias == nullptr ? 0.0f : convert_to<float>(bias[index % result.first.columns]);
    out = convert_to<Out>(accumulate ? start + convert_to<float>(out) : start);
  }
};

/// Adds a product, its bias and what was there in float, and rounds the sum once.
template <class Out>
struct AddProductAndBias {
  MatrixBatch<Out> result;
  const Out* bias;
  const float* products;

  HALFSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    Out& out = element_of(result, index);
    const float added = convert_to<float>(bias[index % result.first.columns]);
    out = convert_to<Out>(products[index] + added + convert_to<float>(out));
  }
};

}  // namespace halfstep::compute::detail
