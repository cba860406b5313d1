#pragma once

#if !defined(__CUDACC__) && !defined(HALFSTEP_CUDA_EMULATION)
#error "halfstep/device/cuda.hpp is for files that nvcc compiles, or clang as a CUDA compiler: rename the file to .cu"
#endif

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <halfstep/device/cuda_error.hpp>
#include <halfstep/device/cuda_staging.hpp>
#include <halfstep/device/services.hpp>

namespace halfstep {

struct CudaOptions {
  /// Which GPU, as CUDA counts those that the program sees.
  int device = 0;
  /// Memory that a matrix product may use besides operands and result. NVIDIA advises 32 MiB from Hopper on.
  std::size_t workspace_bytes = std::size_t{32} << 20;
  /// Whether a matrix product adds its bias itself, where cuBLASLt offers that. False: a pass of its own does, with the
  /// same rounding.
  bool fused_bias = true;
};

namespace detail {

class CudaStream {
 public:
  CudaStream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() { (void)cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Memory that a GPU was asked for once and that stays with the program until the pool is gone.
class CudaPool {
 public:
  explicit CudaPool(int device) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    check_cuda(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate", {{"device", device}});
    std::uint64_t keep_all = ~std::uint64_t{0};
    const cudaError_t status = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all);
    if (status == cudaSuccess) return;
    (void)cudaMemPoolDestroy(pool_);
    throw_cuda_error(status, "cudaMemPoolSetAttribute", {{"device", device}});
  }
  CudaPool(const CudaPool&) = delete;
  CudaPool& operator=(const CudaPool&) = delete;
  ~CudaPool() { (void)cudaMemPoolDestroy(pool_); }
  cudaMemPool_t get() const { return pool_; }

 private:
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace detail

/// An NVIDIA GPU: work is done in the order in which it is given, on a stream of the object's own, and calls return
/// before it is done. Only `download` and `synchronize` wait. One object serves one thread at a time; two trainers use
/// two. Everything throws DeviceError where CUDA reports a fault, which may be one of work that was given earlier.
class Cuda {
 public:
  using Options = CudaOptions;
  static constexpr std::string_view name = "cuda";
  static constexpr std::size_t alignment = 256;
  static constexpr bool shares_host_memory = false;

  /// Throws DeviceError where there is no such GPU or no driver for it.
  explicit Cuda(Options options = {}) : options_(options), selected_(options.device), pool_(options.device) {}
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  /// Waits for what is still under way: it may use memory that the program is about to give back.
  ~Cuda() { (void)cudaStreamSynchronize(stream_.get()); }

  const Options& options() const { return options_; }
  cudaStream_t stream() const { return stream_.get(); }

  /// Makes this GPU the one that the calling thread's next launches go to.
  void select() const { detail::check_cuda(cudaSetDevice(options_.device), "cudaSetDevice", {{"device", options_.device}}); }

  /// Uninitialised memory aligned to `alignment`; never null. Throws DeviceError when there is none.
  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    select();
    detail::check_cuda(cudaMallocFromPoolAsync(&memory, bytes + (bytes == 0), pool_.get(), stream()),
                       "cudaMallocFromPoolAsync", {{"bytes", bytes}});
    return memory;
  }
  void deallocate(void* memory) noexcept {
    if (memory != nullptr) (void)cudaFreeAsync(memory, stream());
  }

  void clear(void* memory, std::size_t bytes) {
    if (bytes == 0) return;
    detail::check_cuda(cudaMemsetAsync(memory, 0, bytes, stream()), "cudaMemsetAsync", {{"bytes", bytes}});
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    detail::check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()),
                       "cudaMemcpyAsync on the device", {{"bytes", bytes}});
  }
  /// From the program's memory, which may change as soon as this returns.
  void upload(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    select();
    staging_.upload(to, from, bytes, stream());
  }
  /// To the program's memory. Waits until it is there.
  void download(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    detail::check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()),
                       "cudaMemcpyAsync from the device", {{"bytes", bytes}});
    synchronize();
  }
  /// Waits until all work given to the device is done.
  void synchronize() { detail::check_cuda(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

  template <class Service>
  Service& service() {
    return services_.get<Service>();
  }
  /// Memory that the services hold, and that uploads go through.
  std::size_t service_bytes() const { return services_.bytes() + staging_.bytes(); }

 private:
  /// Selects the device before the first object is made on it.
  struct Selected {
    explicit Selected(int device) {
      int count = 0;
      detail::check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
      detail::check_cuda(device < 0 || device >= count ? cudaErrorInvalidDevice : cudaSuccess, "CudaOptions",
                         {{"device", device}, {"of", count}});
      detail::check_cuda(cudaSetDevice(device), "cudaSetDevice", {{"device", device}});
    }
  };

  Options options_;
  Selected selected_;
  detail::CudaStream stream_;
  detail::CudaPool pool_;
  detail::CudaStaging staging_;
  detail::Services services_;
};

}  // namespace halfstep
