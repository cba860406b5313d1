#pragma once

#if !defined(__CUDACC__) && !defined(HALFSTEP_CUDA_EMULATION)
#error "halfstep/device/cuda.hpp is for files that nvcc compiles, or clang as a CUDA compiler: rename the file to .cu"
#endif

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include <halfstep/device/cuda_commands.hpp>
#include <halfstep/device/cuda_error.hpp>
#include <halfstep/device/cuda_graphs.hpp>
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
///
/// Between `begin_recording` and `end_recording` work is written down and not given, until the end, or until somebody
/// waits or asks for the stream; then it is given at once, by a CUDA graph where the like of it was recorded before
/// (see cuda_graphs.hpp). Nothing else changes for those who give work.
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
  /// Waits for what is still under way: it may use memory that the program is about to give back. What is recorded and
  /// not given is forgotten.
  ~Cuda() {
    is_recording_ = false;
    free_recorded();
    (void)cudaStreamSynchronize(stream_.get());
  }

  const Options& options() const { return options_; }
  /// For work that is given by other means than this object, which comes after all that was given or recorded so far.
  /// Ask anew before each launch: a stream asked for earlier knows nothing of what was recorded since.
  cudaStream_t stream() {
    give_recorded();
    return stream_.get();
  }

  /// Makes this GPU the one that the calling thread's next launches go to.
  void select() const { detail::check_cuda(cudaSetDevice(options_.device), "cudaSetDevice", {{"device", options_.device}}); }

  /// Uninitialised memory aligned to `alignment`; never null. Throws DeviceError when there is none.
  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if (!freed_.empty()) give_recorded();  // what was given back while recording may be what is missing now
    select();
    detail::check_cuda(cudaMallocFromPoolAsync(&memory, bytes + (bytes == 0), pool_.get(), stream_.get()),
                       "cudaMallocFromPoolAsync", {{"bytes", bytes}});
    return memory;
  }
  void deallocate(void* memory) noexcept {
    if (memory == nullptr) return;
    is_recording_ ? keep_until_given(memory) : (void)cudaFreeAsync(memory, stream_.get());
  }

  void clear(void* memory, std::size_t bytes) {
    if (bytes != 0) give(detail::CudaClear{memory, bytes});
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes != 0) give(detail::CudaCopy{to, from, bytes, cudaMemcpyDeviceToDevice});
  }
  /// From the program's memory, which may change as soon as this returns.
  void upload(void* to, const void* from, std::size_t bytes) {
    using Staging = detail::CudaStaging;
    for (std::size_t done = 0; done < bytes; done += Staging::largest_piece) {
      const std::size_t count = bytes - done < Staging::largest_piece ? bytes - done : Staging::largest_piece;
      select();
      if (!staging_.has_room(count)) give_recorded();
      Staging::Piece& piece = staging_.fill(static_cast<const std::byte*>(from) + done, count);
      give(detail::CudaCopy{static_cast<std::byte*>(to) + done, piece.memory.data(), count, cudaMemcpyHostToDevice});
      if (!is_recording_) staging_.let_go(stream_.get());
    }
  }
  /// To the program's memory. Waits until it is there.
  void download(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    give_recorded();
    detail::CudaCopy{to, from, bytes, cudaMemcpyDeviceToHost}.give(stream_.get());
    synchronize();
  }
  /// Waits until all work given to the device is done.
  void synchronize() {
    give_recorded();
    detail::check_cuda(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }

  /// Gives a kernel (CudaLaunch), a copy (CudaCopy) or a call (see CudaCallTable) to the stream, or records it.
  template <class Work>
  void give(const Work& work) {
    require_all_given();
    if (is_recording_) {
      recorded_.add(work);
    } else if constexpr (requires { work.give(stream_.get()); }) {
      select();
      work.give(stream_.get());
    } else {
      select();
      work.give(*this, stream_.get());
    }
  }

  /// From here on work is recorded. Has no effect where it already is.
  void begin_recording() {
    require_all_given();
    is_recording_ = true;
  }
  /// Gives what was recorded, and records no more. Throws DeviceError where that fails; then what was recorded is lost,
  /// and with it this object's use: everything that gives work throws from then on.
  void end_recording() {
    is_recording_ = false;
    give_recorded();
  }
  const GraphUse& graph_use() const { return graphs_.use(); }

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

  void require_all_given() const {
    if (!is_lost_) return;
    throw DeviceError(
        "cuda: recorded work was lost when the GPU failed earlier; make a new trainer, and load its last checkpoint");
  }
  void give_recorded() {
    require_all_given();
    if (!recorded_.empty()) {
      select();
      detail::CudaGraph* const graph = graphs_.ready(*this, stream_.get(), recorded_);
      is_lost_ = true;
      graph != nullptr ? graph->launch(stream_.get()) : recorded_.give(*this, stream_.get(), [](std::size_t) {});
      staging_.let_go(stream_.get());
      is_lost_ = false;
      recorded_.clear();
    }
    free_recorded();
  }
  void keep_until_given(void* memory) noexcept {
    try {
      freed_.push_back(memory);
    } catch (...) {  // no memory to remember it: it is the GPU's until the pool goes
    }
  }
  void free_recorded() noexcept {
    for (void* const memory : freed_) (void)cudaFreeAsync(memory, stream_.get());
    freed_.clear();
  }

  Options options_;
  Selected selected_;
  detail::CudaStream stream_;
  detail::CudaPool pool_;
  detail::CudaStaging staging_;
  detail::CudaGraphs graphs_;
  detail::CudaCommands recorded_;
  /// Memory that recorded work may use and that was given back since.
  std::vector<void*> freed_;
  bool is_recording_ = false;
  /// Was recorded work dropped because giving it failed?
  bool is_lost_ = false;
  /// Goes first: it gives memory back to this object.
  detail::Services services_;
};

}  // namespace halfstep
