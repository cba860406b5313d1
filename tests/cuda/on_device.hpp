#pragma once

#include <halfstep/compute/matmul.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/device/device.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/double/cublaslt.hpp"
#include "cuda/double/cuda_runtime.hpp"

namespace matmul_test {

using namespace halfstep;
using namespace halfstep::compute;
using namespace halfstep_test;

/// Numbers of the program on the device, as far from a multiple of 16 bytes as they are, or `shift` elements from it.
template <class T>
class OnDevice {
 public:
  OnDevice(Cuda& cuda, const T* numbers, std::int64_t count, std::int64_t shift = -1)
      : cuda_(cuda),
        count_(count),
        shift_(shift >= 0 ? shift
                          : static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(numbers) % 16 / sizeof(T))),
        memory_(cuda, count + shift_) {
    cuda_.upload(data(), numbers, static_cast<std::size_t>(count) * sizeof(T));
  }
  T* data() const { return memory_.data() + shift_; }
  void download(T* numbers) const { cuda_.download(numbers, data(), static_cast<std::size_t>(count_) * sizeof(T)); }

 private:
  Cuda& cuda_;
  std::int64_t count_, shift_;
  Buffer<T, Cuda> memory_;
};

template <class T>
std::int64_t extent(const Matrix<T>& view) {
  const std::int64_t stored_rows = view.is_transposed ? view.columns : view.rows;
  return stored_rows == 0 ? 0 : (stored_rows - 1) * view.leading + view.stored_columns();
}

/// A matmul of matrices of the program that is done on the device.
struct Multiply {
  Cuda& cuda;
  std::int64_t bias_shift = 0;

  template <class In, class Out>
  void operator()(Matrix<const In> a, Matrix<const In> b, Matrix<Out> result, MatmulOptions<Out> options) const {
    const OnDevice<In> a_there(cuda, a.data, extent(a)), b_there(cuda, b.data, extent(b));
    const OnDevice<Out> result_there(cuda, result.data, extent(result));
    const OnDevice<Out> bias_there(cuda, options.bias, options.bias == nullptr ? 0 : result.columns, bias_shift);
    a.data = a_there.data(), b.data = b_there.data();
    if (options.bias != nullptr) options.bias = bias_there.data();
    Matrix<Out> there = result;
    there.data = result_there.data();
    matmul(cuda, a, b, there, options);
    result_there.download(result.data);
  }
};

inline CudaOptions options_with(bool fused_bias, std::size_t workspace_bytes = 4096) {
  return {.workspace_bytes = workspace_bytes, .fused_bias = fused_bias};
}

/// No sentence of the double's, at the end of every test.
struct NothingForbidden {
  NothingForbidden() {
    reset_blas_calls();
    reset_cuda_calls();
    (void)take_blas_violations();
  }
  ~NothingForbidden() {
    set_offer(Offer::everything);
    for (const std::string& sentence : take_blas_violations()) BOOST_ERROR(sentence);
  }
};

}  // namespace matmul_test
