#include "cuda_runtime.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda_runtime_state.hpp"

struct CUevent_st {
  int device;
  bool recorded = false;
  bool passed = true;
  cudaStream_t stream = nullptr;
  int queries = 0;
};
struct CUmemPoolHandle_st {
  int device;
};

using namespace halfstep_test;

namespace {

/// What was answered to the thread's last question whether an event has passed.
thread_local cudaError_t last_error = cudaSuccess;

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void protect_all(int protection) {
  for (auto& [begin, allocation] : state().allocations) {
    if (mprotect(allocation.mapped, allocation.mapped_bytes, protection) != 0) std::abort();
  }
}

void flush(cudaStream_t stream) {
  if (stream->waiting.empty()) return;
  const DeviceMemoryOpen open;
  while (!stream->waiting.empty()) {
    const Work work = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    work();
  }
}

using KernelOnHost = void (*)(void**, std::int64_t);

/// Asked for block -1, a kernel tells how many bytes it carries.
std::size_t bytes_carried(const void* function) {
  void* answer = nullptr;
  reinterpret_cast<KernelOnHost>(const_cast<void*>(function))(&answer, -1);
  return reinterpret_cast<std::size_t>(answer);
}

}  // namespace

namespace halfstep_test {

CudaState& state() {
  static CudaState* const one = new CudaState;
  return *one;
}
int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaError_t planned(const char* call) {
  auto& failures = state().failures;
  const auto found = failures.find(call);
  if (found == failures.end()) return cudaSuccess;
  if (found->second.after-- > 0) return cudaSuccess;
  const cudaError_t status = found->second.status;
  failures.erase(found);
  return status;
}

cudaError_t give(cudaStream_t stream, Node node) {
  if (stream == nullptr) std::abort();  // the legacy stream would wait for all others
  if (stream->captured != nullptr) {
    stream->captured->nodes.emplace_back(new CUgraphNode_st{std::move(node)});
    stream->last = stream->captured->nodes.back().get();
  } else if (state().lazy) {
    stream->waiting.push_back(std::move(node.work));
  } else {
    node.work();
  }
  return cudaSuccess;
}

Node kernel_node(const void* function, std::int64_t blocks, void** arguments) {
  const auto* carried = static_cast<const std::byte*>(arguments[0]);
  const auto kept = std::make_shared<const std::vector<std::byte>>(carried, carried + bytes_carried(function));
  Node node;
  node.function = function;
  node.work = [function, blocks, kept] {
    const DeviceMemoryOpen open;
    // Aligned as a kernel's parameters are.
    void* memory = std::aligned_alloc(64, (kept->size() + 63) / 64 * 64);
    std::memcpy(memory, kept->data(), kept->size());
    void* again[] = {memory};
    for (std::int64_t block = 0; block < blocks; ++block) {
      reinterpret_cast<KernelOnHost>(const_cast<void*>(function))(again, block);
    }
    std::free(memory);
  };
  return node;
}

bool is_launchable(dim3 grid, dim3 block) {
  return grid.x > 0 && grid.x <= 0x7fffffffu && grid.y == 1 && grid.z == 1 && block.x * block.y * block.z <= 1024;
}

bool are_of(cudaMemcpyKind kind, const void* to, const void* from, std::size_t bytes) {
  return is_device_memory(to, bytes) == (kind != cudaMemcpyDeviceToHost) &&
         is_device_memory(from, bytes) == (kind != cudaMemcpyHostToDevice);
}
Node copy_node(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  Node node;
  node.is_copy = true;
  node.kind = kind;
  node.work = [=] {
    const DeviceMemoryOpen open;
    std::memcpy(to, from, bytes);
  };
  return node;
}

bool spoils_a_capture() {
  bool spoils = false;
  for (const cudaStream_t stream : state().capturing) {
    if (stream->by != std::this_thread::get_id()) continue;
    stream->is_spoilt = true;
    spoils = true;
  }
  return spoils;
}

CudaCalls& cuda_calls() { return state().calls; }
void set_lazy(bool lazy) { state().lazy = lazy; }
void set_queries_until_done(int queries) { state().queries_until_done = queries; }
void fail_cuda_call(const std::string& call, cudaError_t status, int after) {
  const Lock lock(state().mutex);
  state().failures[call] = {status, after};
}
void set_device_count(int count) { state().devices = count; }
std::size_t device_bytes_in_use() { return state().bytes_in_use; }
std::int64_t objects_alive() { return state().objects; }

cudaError_t give_to_stream(cudaStream_t stream, std::function<void()> work) {
  const Lock lock(state().mutex);
  Node node;
  node.work = std::move(work);
  return give(stream, std::move(node));
}

DeviceMemoryOpen::DeviceMemoryOpen() {
  state().mutex.lock();
  if (state().open++ == 0) protect_all(PROT_READ | PROT_WRITE);
}
DeviceMemoryOpen::~DeviceMemoryOpen() {
  if (--state().open == 0) protect_all(PROT_NONE);
  state().mutex.unlock();
}

bool is_device_memory(const void* memory, std::size_t bytes) {
  const Lock lock(state().mutex);
  const auto* place = static_cast<const std::byte*>(memory);
  auto after = state().allocations.upper_bound(place);
  if (after == state().allocations.begin()) return false;
  const auto& [begin, allocation] = *std::prev(after);
  return place + bytes <= begin + allocation.bytes;
}

}  // namespace halfstep_test

extern "C" {

const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaErrorNoDevice           ? "no CUDA-capable device is detected"
         : status == cudaErrorMemoryAllocation ? "out of memory"
         : status == cudaErrorInvalidDevice    ? "invalid device ordinal"
                                               : "a status of the test's CUDA runtime";
}
const char* cudaGetErrorName(cudaError_t status) {
  return status == cudaErrorNoDevice           ? "cudaErrorNoDevice"
         : status == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : status == cudaErrorInvalidDevice    ? "cudaErrorInvalidDevice"
                                               : "cudaErrorUnknown";
}

cudaError_t cudaGetLastError(void) { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaGetDeviceCount(int* count) {
  HALFSTEP_TEST_CALL(cudaGetDeviceCount);
  *count = state().devices;
  return state().devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  HALFSTEP_TEST_CALL(cudaSetDevice);
  if (device < 0 || device >= state().devices) return cudaErrorInvalidDevice;
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaStreamCreateWithFlags);
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = new CUstream_st{};
  (*stream)->device = current_device();
  ++state().objects;
  ++state().calls.objects_made;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaStreamDestroy);
  flush(stream);
  delete stream;
  --state().objects;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaStreamSynchronize);
  ++state().calls.stream_waits;
  flush(stream);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaEventCreateWithFlags);
  *event = new CUevent_st{};
  (*event)->device = current_device();
  ++state().objects;
  ++state().calls.objects_made;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaEventDestroy);
  if (event->stream != nullptr && !event->passed) flush(event->stream);
  delete event;
  --state().objects;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaEventRecord);
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  event->recorded = true;
  event->passed = false;
  event->stream = stream;
  event->queries = 0;
  Node node;
  node.work = [event] { event->passed = true; };
  return give(stream, std::move(node));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaEventQuery);
  if (event->passed) return cudaSuccess;
  // A GPU gets on with its work by itself; here whoever asks often enough sees it done.
  if (++event->queries >= state().queries_until_done) flush(event->stream);
  if (event->passed) return cudaSuccess;
  return last_error = cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaEventSynchronize);
  ++state().calls.event_waits;
  if (event->passed) return cudaSuccess;
  flush(event->stream);
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaMemPoolCreate);
  if (properties->location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
  *pool = new CUmemPoolHandle_st{properties->location.id};
  ++state().objects;
  ++state().calls.objects_made;
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaMemPoolDestroy);
  delete pool;
  --state().objects;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  HALFSTEP_TEST_CALL(cudaMemPoolSetAttribute);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t, cudaStream_t) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaMallocFromPoolAsync);
  if (bytes > (std::size_t{1} << 40)) return cudaErrorMemoryAllocation;
  // As near to the forbidden page behind as an alignment of 256 bytes allows.
  const std::size_t rounded = (bytes + 255) / 256 * 256;
  const std::size_t mapped = (rounded + page() - 1) / page() * page();
  void* region = mmap(nullptr, mapped + page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) return cudaErrorMemoryAllocation;
  if (mprotect(region, mapped, PROT_READ | PROT_WRITE) != 0) return cudaErrorMemoryAllocation;
  std::memset(region, 0xff, mapped);
  if (state().open == 0 && mprotect(region, mapped, PROT_NONE) != 0) return cudaErrorMemoryAllocation;
  std::byte* begin = static_cast<std::byte*>(region) + (mapped - rounded);
  state().allocations[begin] = {region, mapped, rounded};
  state().bytes_in_use += rounded;
  ++state().calls.device_allocations;
  *memory = begin;
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaFreeAsync);
  ++state().calls.device_frees;
  Node node;
  node.work = [memory] {
    const auto found = state().allocations.find(static_cast<const std::byte*>(memory));
    if (found == state().allocations.end()) std::abort();
    state().bytes_in_use -= found->second.bytes;
    munmap(found->second.mapped, found->second.mapped_bytes + page());
    state().allocations.erase(found);
  };
  return give(stream, std::move(node));
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaHostAlloc);
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  ++state().calls.host_allocations;
  ++state().objects;
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaFreeHost);
  std::free(memory);
  --state().objects;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  HALFSTEP_TEST_CALL(cudaMemsetAsync);
  if (!is_device_memory(memory, bytes)) return cudaErrorInvalidValue;
  ++state().calls.memsets;
  Node node;
  node.work = [=] {
    const DeviceMemoryOpen open;
    std::memset(memory, value, bytes);
  };
  return give(stream, std::move(node));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  HALFSTEP_TEST_CALL(cudaMemcpyAsync);
  if (!are_of(kind, to, from, bytes)) return cudaErrorInvalidMemcpyDirection;
  auto& calls = state().calls;
  ++(kind == cudaMemcpyDeviceToDevice ? calls.copies_on_device
     : kind == cudaMemcpyHostToDevice ? calls.copies_to_device
                                      : calls.copies_to_host);
  if (kind == cudaMemcpyHostToDevice) calls.bytes_to_device += static_cast<std::int64_t>(bytes);
  if (kind == cudaMemcpyDeviceToHost) calls.bytes_to_host += static_cast<std::int64_t>(bytes);
  return give(stream, copy_node(to, from, bytes, kind));
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t, cudaStream_t stream) {
  HALFSTEP_TEST_CALL(cudaLaunchKernel);
  if (!is_launchable(grid, block)) return cudaErrorInvalidConfiguration;
  if (stream->device != current_device()) return cudaErrorInvalidResourceHandle;
  ++state().calls.launches;
  return give(stream, kernel_node(function, static_cast<std::int64_t>(grid.x), arguments));
}

}  // extern "C"
