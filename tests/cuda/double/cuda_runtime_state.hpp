#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda_runtime.hpp"

/// What the parts of the double of CUDA's runtime share.
namespace halfstep_test {

using Work = std::function<void()>;

/// One piece of work, and what a graph may change of it.
struct Node {
  Work work;
  const void* function = nullptr;  // of a kernel
  bool is_copy = false;
  cudaMemcpyKind kind{};
};

struct Allocation {
  void* mapped;
  std::size_t mapped_bytes;  // without the page behind
  std::size_t bytes;
};

/// All of it is read and written under the mutex.
struct CudaState {
  std::recursive_mutex mutex;
  std::map<const std::byte*, Allocation> allocations;
  std::size_t bytes_in_use = 0;
  std::int64_t objects = 0;
  int open = 0;
  bool lazy = true;
  int queries_until_done = 3;
  int devices = 2;
  std::set<cudaStream_t> capturing;
  std::set<cudaGraph_t> graphs;
  CudaCalls calls;
  struct Failure {
    cudaError_t status;
    int after;
  };
  std::map<std::string, Failure> failures;
};
CudaState& state();
using Lock = std::lock_guard<std::recursive_mutex>;

/// The thread's GPU.
int& current_device();

/// What the call is to fail with, cudaSuccess if it is not to.
cudaError_t planned(const char* call);

/// While this thread captures, whatever waits, asks, allocates or frees spoils the capture. CUDA allows a few
/// of these; nobody needs them.
bool spoils_a_capture();

/// Work in the order of a stream, or into what the stream captures.
cudaError_t give(cudaStream_t stream, Node node);

/// Can a kernel be launched with these sizes?
bool is_launchable(dim3 grid, dim3 block);
Node kernel_node(const void* function, std::int64_t blocks, void** arguments);

/// Do both ends lie where the kind of the copy says?
bool are_of(cudaMemcpyKind kind, const void* to, const void* from, std::size_t bytes);
Node copy_node(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);

}  // namespace halfstep_test

struct CUgraphNode_st : halfstep_test::Node {};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};
struct CUstream_st {
  int device;
  std::deque<halfstep_test::Work> waiting;
  /// While it is captured: by whom, what, whether something was called that may not be, and the last node as
  /// an array.
  cudaGraph_t captured = nullptr;
  std::thread::id by;
  bool is_spoilt = false;
  cudaGraphNode_t last = nullptr;
};

#define HALFSTEP_TEST_CALL(call)                                \
  const halfstep_test::Lock lock(halfstep_test::state().mutex); \
  if (const cudaError_t status = halfstep_test::planned(#call); status != cudaSuccess) return status
/// The same for what may not be called while a stream is captured.
#define HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(call) \
  HALFSTEP_TEST_CALL(call);                       \
  if (halfstep_test::spoils_a_capture()) return cudaErrorStreamCaptureUnsupported
