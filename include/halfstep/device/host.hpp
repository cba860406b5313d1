#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include <halfstep/device/services.hpp>
#include <halfstep/error.hpp>

namespace halfstep {

struct HostOptions {
  /// Products whose bits do not depend on the number of threads, at the price of speed where the matmul library
  /// splits the inner dimension among threads.
  bool deterministic = false;
};

/// The CPU: memory that the program can touch, work that is done when the call returns. One object serves one
/// thread at a time; two trainers use two. The number of worker threads is OpenMP's (OMP_NUM_THREADS,
/// omp_set_num_threads).
class Host {
 public:
  using Options = HostOptions;
  static constexpr std::string_view name = "host";
  static constexpr std::size_t alignment = 256;
  /// A tensor in the program's memory is already where the device works.
  static constexpr bool shares_host_memory = true;

  explicit Host(Options options = {}) : options_(options) {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const Options& options() const { return options_; }

  /// Uninitialised memory aligned to `alignment`; never null. Throws DeviceError when there is none.
  void* allocate(std::size_t bytes) {
    void* memory = ::operator new((bytes + (bytes == 0)), std::align_val_t{alignment}, std::nothrow);
    if (memory == nullptr) {
      throw DeviceError("host: no memory for " + std::to_string(bytes) +
                        " bytes; use a smaller model, batch or window");
    }
    return memory;
  }
  void deallocate(void* memory) noexcept { ::operator delete(memory, std::align_val_t{alignment}); }

  void clear(void* memory, std::size_t bytes) {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  /// From the program's memory to the device's, and back.
  void upload(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  /// Waits until all work given to the device is done: on the host it always is.
  void synchronize() {}

  template <class Service>
  Service& service() {
    return services_.get<Service>();
  }
  /// Memory that the services hold.
  std::size_t service_bytes() const { return services_.bytes(); }

 private:
  Options options_;
  detail::Services services_;
};

}  // namespace halfstep
