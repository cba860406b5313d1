#pragma once

#include <cstdint>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/device/cuda.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/traits.hpp>

namespace halfstep::compute::detail {

/// What the result of a product starts from: its bias, or zeros where that is null, plus what was there if the
/// product accumulates.
template <class Out>
struct StartFromBias {
  MatrixBatch<Out> result;
  const Out* bias;
  bool accumulate;

  HALFSTEP_HOST_DEVICE void operator()(std::int64_t index) const {
    const std::int64_t columns = result.first.columns, column = index % columns;
    const std::int64_t row = index / columns % result.first.rows, item = index / columns / result.first.rows;
    Out& out = result.first.data[item * result.stride + row * result.first.leading + column];
    const float start = bias == nullptr ? 0.0f : convert_to<float>(bias[column]);
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
    const std::int64_t columns = result.first.columns, column = index % columns;
    const std::int64_t row = index / columns % result.first.rows, item = index / columns / result.first.rows;
    Out& out = result.first.data[item * result.stride + row * result.first.leading + column];
    out = convert_to<Out>(products[index] + convert_to<float>(bias[column]) + convert_to<float>(out));
  }
};

}  // namespace halfstep::compute::detail
