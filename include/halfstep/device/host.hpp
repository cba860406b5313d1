#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <string_view>

#include <halfstep/device/forbidden_memory.hpp>
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
  ///
  /// Blocks begin at a page's sixteen places in turn, which takes up to 4 KiB more of each. Left to the allocator large
  /// ones all begin at the same place; the first-level cache of AMD's Zen tells lines at one place of a page apart by a
  /// hash of their addresses (Lipp et al., "Take A Way", 2020, section 3) that is often equal then, and a pass over
  /// several arrays reads each line again and again.
  void* allocate(std::size_t bytes) {
    place_ = (place_ + 5) % places;  // neighbours in time lie five places apart
    const std::size_t skipped = alignment * (1 + place_);
    const bool fits = bytes <= (std::numeric_limits<std::size_t>::max)() - skipped;
    void* const base = fits ? ::operator new(skipped + bytes, std::align_val_t{alignment}, std::nothrow) : nullptr;
    if (base == nullptr) {
      throw DeviceError("host: no memory for " + std::to_string(bytes) +
                        " bytes; use a smaller model, batch or window");
    }
    std::byte* const memory = static_cast<std::byte*>(base) + skipped;
    // In front of the block, for deallocate.
    std::memcpy(memory - sizeof skipped, &skipped, sizeof skipped);
    detail::forbid(base, skipped);
    return memory;
  }
  /// Requires memory that `allocate` gave, or null.
  void deallocate(void* memory) noexcept {
    if (memory == nullptr) return;
    std::byte* const block = static_cast<std::byte*>(memory);
    std::size_t skipped = 0;
    detail::allow(block - sizeof skipped, sizeof skipped);
    std::memcpy(&skipped, block - sizeof skipped, sizeof skipped);
    detail::allow(block - skipped, skipped);
    ::operator delete(block - skipped, std::align_val_t{alignment});
  }

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
  static constexpr std::size_t places = 4096 / alignment;

  Options options_;
  std::size_t place_ = 0;
  detail::Services services_;
};

}  // namespace halfstep
