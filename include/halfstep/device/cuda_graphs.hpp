#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <halfstep/device/cuda_commands.hpp>
#include <halfstep/device/cuda_error.hpp>
#include <halfstep/error.hpp>

namespace halfstep {

/// What became of the work that was recorded, in pieces: a window of a trainer that captures is one.
struct GraphUse {
  std::int64_t captured = 0;    ///< pieces that were made a CUDA graph
  std::int64_t replayed = 0;    ///< pieces that an earlier graph did, by one launch
  std::int64_t one_by_one = 0;  ///< pieces whose kernels were launched one by one: those met for the first time
  /// Why a piece could not be captured, in CUDA's words; empty where all could.
  std::string refusal;
};

namespace detail {

/// Commands as one CUDA graph.
class CudaGraph {
 public:
  /// Captures them from the stream. Throws DeviceError where CUDA refuses; then nothing was done.
  CudaGraph(Cuda& device, cudaStream_t stream, const CudaCommands& commands) : nodes_(commands.size()) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
      commands.give(device, stream, [&](std::size_t i) { nodes_[i] = last_node(stream); });
    } catch (...) {
      (void)cudaStreamEndCapture(stream, &graph_);
      release();
      throw;
    }
    cudaError_t status = cudaStreamEndCapture(stream, &graph_);
    const char* call = "cudaStreamEndCapture";
    if (status == cudaSuccess) {
      status = cudaGraphInstantiate(&executable_, graph_, 0);
      call = "cudaGraphInstantiate";
    }
    if (status == cudaSuccess) {  // takes the memory that a launch needs now, when nothing is lost if there is none
      status = cudaGraphUpload(executable_, stream);
      call = "cudaGraphUpload";
    }
    if (status == cudaSuccess) return;
    release();
    throw_cuda_error(status, call, {{"commands", commands.size()}});
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  /// Launches that are under way are finished first, by CUDA.
  ~CudaGraph() { release(); }

  /// From now on does other commands than before. Requires that they are alike. Where this throws the graph is useless.
  void set(const CudaCommands& before, const CudaCommands& now) {
    before.compare(
        now,
        [this](std::size_t i, const CudaLaunch& launch) {
          void* arguments[] = {const_cast<void*>(launch.carried)};
          cudaKernelNodeParams parameters{};
          parameters.func = const_cast<void*>(launch.function);
          parameters.gridDim = dim3(launch.blocks);
          parameters.blockDim = dim3(launch.threads);
          parameters.kernelParams = arguments;
          check_cuda(cudaGraphExecKernelNodeSetParams(executable_, nodes_[i], &parameters),
                     "cudaGraphExecKernelNodeSetParams", {{"command", i}, {"blocks", launch.blocks}});
        },
        [this](std::size_t i, const CudaCopy& copy) {
          check_cuda(
              cudaGraphExecMemcpyNodeSetParams1D(executable_, nodes_[i], copy.to, copy.from, copy.bytes, copy.kind),
              "cudaGraphExecMemcpyNodeSetParams1D", {{"command", i}, {"bytes", copy.bytes}});
        });
  }
  void launch(cudaStream_t stream) { check_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); }

 private:
  /// The node of the command that was captured last: what the next one would wait for.
  static cudaGraphNode_t last_node(cudaStream_t stream) {
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    std::size_t count = 0;
#if CUDART_VERSION >= 13000
    const auto ask = &cudaStreamGetCaptureInfo;
#else
    const auto ask = &cudaStreamGetCaptureInfo_v3;
#endif
    check_cuda(ask(stream, &capturing, nullptr, nullptr, &nodes, &edges, &count), "cudaStreamGetCaptureInfo");
    if (capturing != cudaStreamCaptureStatusActive || count != 1) {
      throw DeviceError("cuda: a command was captured as " + std::to_string(count) +
                        " nodes that the next would wait for, not one");
    }
    return nodes[0];
  }
  void release() {
    if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

/// Recorded commands, done by graphs where the like of them has been met before: the first time one by one, because
/// most of what comes once does not come again; the second time a graph is made; from then on it is launched again,
/// with the arguments of its kernels set to what was recorded. So whatever the program does differently in a step, a
/// random stream or a length, is done differently by the graph as well. Remembers as many lists as `capacity`; the one
/// unused for longest makes room.
class CudaGraphs {
 public:
  static constexpr std::size_t capacity = 64;
  /// Fewer commands than this are not worth a graph.
  static constexpr std::size_t smallest = 3;

  /// A graph that does these commands, for one launch; null where they are to be given one by one. Gives nothing itself
  /// and does not throw: where a graph cannot be made or changed, or there is no memory to think of it, there is none.
  /// A list that a graph is given for is left as any list.
  CudaGraph* ready(Cuda& device, cudaStream_t stream, CudaCommands& commands) noexcept {
    CudaGraph* graph = nullptr;
    try {
      if (commands.size() >= smallest) graph = find_or_make(device, stream, commands);
    } catch (...) {
    }
    if (graph == nullptr) use_.one_by_one += 1;
    return graph;
  }

  const GraphUse& use() const { return use_; }

 private:
  struct Known {
    std::size_t hash;
    std::uint64_t last_use;
    bool is_refused;
    /// What the graph does as it is now.
    CudaCommands commands;
    std::unique_ptr<CudaGraph> graph;
  };

  CudaGraph* find_or_make(Cuda& device, cudaStream_t stream, CudaCommands& commands) {
    ++clock_;
    const std::size_t hash = commands.hash();
    Known* const known = find(hash, commands);
    if (known == nullptr) {
      remember(hash);
      return nullptr;
    }
    known->last_use = clock_;
    if (known->is_refused) return nullptr;
    try {
      if (known->graph == nullptr) {
        known->graph = std::make_unique<CudaGraph>(device, stream, commands);
        use_.captured += 1;
      } else {
        known->graph->set(known->commands, commands);
        use_.replayed += 1;
      }
    } catch (const DeviceError& error) {
      known->graph.reset();
      known->is_refused = true;
      (void)cudaGetLastError();  // it was told; the program's own kernels need not hear of it
      use_.refusal = error.what();
      return nullptr;
    }
    std::swap(known->commands, commands);
    return known->graph.get();
  }

  Known* find(std::size_t hash, const CudaCommands& commands) {
    for (Known& known : known_) {
      if (known.hash == hash && (known.graph == nullptr || known.commands.is_like(commands))) return &known;
    }
    return nullptr;
  }
  void remember(std::size_t hash) {
    if (known_.size() == capacity) {
      known_.erase(std::min_element(known_.begin(), known_.end(),
                                    [](const Known& a, const Known& b) { return a.last_use < b.last_use; }));
    }
    known_.push_back({hash, clock_, false, {}, nullptr});
  }

  std::vector<Known> known_;
  std::uint64_t clock_ = 0;
  GraphUse use_;
};

}  // namespace detail

}  // namespace halfstep
