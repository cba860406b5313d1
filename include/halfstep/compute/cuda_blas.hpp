#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <halfstep/device/cuda_error.hpp>
#include <halfstep/error.hpp>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>

namespace halfstep::compute::detail {

/// The status as cuBLASLt's own words and name.
inline std::string describe_blas_status(cublasStatus_t status) {
  return std::string(cublasLtGetStatusString(status)) + " (" + cublasLtGetStatusName(status) + ")";
}

/// Throws DeviceError, with the call and its arguments, unless the status is success.
inline void check_blas(cublasStatus_t status, std::string_view call,
                       std::initializer_list<halfstep::detail::CudaArgument> arguments = {}) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError("cuda: " + std::string(call) + "(" + halfstep::detail::describe_arguments(arguments) +
                    ") failed: " + describe_blas_status(status));
}

template <class T>
constexpr cudaDataType_t cuda_data_type() {
  if constexpr (std::is_same_v<T, float16>) return CUDA_R_16F;
  if constexpr (std::is_same_v<T, bfloat16>) return CUDA_R_16BF;
  return CUDA_R_32F;
}

/// What cuBLASLt makes and destroys, owned.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct BlasDestroy {
  using pointer = Handle;
  void operator()(Handle handle) const { (void)destroy(handle); }
};
template <class Handle, cublasStatus_t (*destroy)(Handle)>
using BlasObject = std::unique_ptr<std::remove_pointer_t<Handle>, BlasDestroy<Handle, destroy>>;

using BlasHandle = BlasObject<cublasLtHandle_t, &cublasLtDestroy>;
using BlasLayout = BlasObject<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using BlasOperation = BlasObject<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using BlasPreference = BlasObject<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

inline BlasHandle make_blas_handle() {
  cublasLtHandle_t handle = nullptr;
  check_blas(cublasLtCreate(&handle), "cublasLtCreate");
  return BlasHandle(handle);
}

}  // namespace halfstep::compute::detail
