#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

/// A CUDA runtime without a GPU, for programs built with HALFSTEP_CUDA_EMULATION: linked in the place of NVIDIA's, it
/// runs kernels on the CPU, counts what is called, and is strict where a GPU would be:
///
/// - memory of the device cannot be touched by the program (it faults), only by kernels and copies; behind every
///   allocation lies a page that nobody may touch;
/// - new memory of the device is full of NaN;
/// - work that was given to a stream is done when somebody waits for it and not before (`lazy`, the default): what
///   reads a result without waiting reads the bytes of before;
/// - kernels are started on the thread's current GPU, and events recorded on their own;
/// - while a stream is captured nothing may wait, ask, allocate or free.
namespace halfstep_test {

/// How often each kind of call was made since `reset`.
struct CudaCalls {
  std::int64_t launches = 0;
  std::int64_t matmuls = 0;
  std::int64_t graph_launches = 0;
  std::int64_t graphs_instantiated = 0;
  std::int64_t graph_nodes_updated = 0;
  std::int64_t device_allocations = 0;
  std::int64_t device_frees = 0;
  std::int64_t host_allocations = 0;
  std::int64_t objects_made = 0;  // streams, events, pools
  std::int64_t copies_to_device = 0;
  std::int64_t copies_to_host = 0;
  std::int64_t copies_on_device = 0;
  std::int64_t memsets = 0;
  std::int64_t stream_waits = 0;  // the program waits for a stream
  std::int64_t event_waits = 0;   // the program waits for an event
  std::int64_t bytes_to_device = 0;
  std::int64_t bytes_to_host = 0;
};

CudaCalls& cuda_calls();
inline void reset_cuda_calls() { cuda_calls() = CudaCalls{}; }

/// Is work done late (true, as at first), or at once?
void set_lazy(bool lazy);
/// The n-th who asks an event sees the work before it done; 3 at first.
void set_queries_until_done(int queries);

/// The `after`-th next call of this name fails with this status (0: the next).
void fail_cuda_call(const std::string& call, cudaError_t status, int after = 0);

/// How many GPUs there seem to be: 2 at first. 0 is a machine without.
void set_device_count(int count);

/// Bytes of device memory in use, and objects alive: what a program has not given back.
std::size_t device_bytes_in_use();
std::int64_t objects_alive();

/// For the other doubles: work in the order of a stream, and access to device memory while it is done.
cudaError_t give_to_stream(cudaStream_t stream, std::function<void()> work);
class DeviceMemoryOpen {
 public:
  DeviceMemoryOpen();
  ~DeviceMemoryOpen();
  DeviceMemoryOpen(const DeviceMemoryOpen&) = delete;
  DeviceMemoryOpen& operator=(const DeviceMemoryOpen&) = delete;
};
/// Does [memory, memory + bytes) lie in one allocation of the device?
bool is_device_memory(const void* memory, std::size_t bytes);

}  // namespace halfstep_test
