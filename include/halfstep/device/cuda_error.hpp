#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>
#include <type_traits>

#include <halfstep/error.hpp>

namespace halfstep::detail {

/// What a message says of one argument: a name and a number, or a name and an address.
struct CudaArgument {
  std::string text;

  template <class T>
  CudaArgument(const char* name, T value) : text(std::string(name) + " ") {
    if constexpr (std::is_pointer_v<T>) {
      text += value == nullptr ? "null" : "at " + std::to_string(reinterpret_cast<unsigned long long>(value));
    } else {
      text += std::to_string(value);
    }
  }
};

inline std::string describe_arguments(std::initializer_list<CudaArgument> arguments) {
  std::string text;
  for (const CudaArgument& argument : arguments) text += (text.empty() ? "" : ", ") + argument.text;
  return text;
}

/// No GPU, or none that this program can use: everything else follows from it, so it has a sentence of its own.
inline bool is_without_gpu(cudaError_t status) {
  return status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
         status == cudaErrorInitializationError || status == cudaErrorStubLibrary;
}

[[noreturn]] inline void throw_cuda_error(cudaError_t status, std::string_view call,
                                          std::initializer_list<CudaArgument> arguments) {
  std::string message = "cuda: " + std::string(call) + "(" + describe_arguments(arguments) + ") failed: " +
                        cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
  if (is_without_gpu(status)) {
    message += "; there is no NVIDIA GPU with a driver that fits this CUDA runtime: install one, or train on the CPU by "
               "naming the device, Trainer<Model, Optimizer, Policy, Host>";
  } else if (status == cudaErrorMemoryAllocation) {
    message += "; use a smaller model, batch or window";
  }
  throw DeviceError(message);
}

/// Throws DeviceError, with the call and its arguments, unless the status is success.
inline void check_cuda(cudaError_t status, std::string_view call, std::initializer_list<CudaArgument> arguments = {}) {
  if (status != cudaSuccess) throw_cuda_error(status, call, arguments);
}

}  // namespace halfstep::detail
