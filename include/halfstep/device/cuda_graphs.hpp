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
    if (status == cudaSuccess) return;
    release();
    throw_cuda_error(status, call, {{"commands", commands.size()}});
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  /// Launches that are under way are finished first, by CUDA.
  ~CudaGraph() { release(); }

  /// Does other commands, where they differ from those that the graph last did. Requires that they are alike.
  void launch(cudaStream_t stream, const CudaCommands& before, const CudaCommands& now) {
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
    launch(stream);
  }
  /// Does the commands that it was captured from.
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
/// most of what comes once does not come again; the second time a graph is made; from then on it is launched again, with
/// the arguments of its kernels set to what was recorded. So whatever the program does differently in a step, a random
/// stream or a length, is done differently by the graph as well. Remembers as many lists as `capacity`; the one unused
/// for longest makes room.
class CudaGraphs {
 public:
  static constexpr std::size_t capacity = 64;
  /// Fewer commands than this are not worth a graph.
  static constexpr std::size_t smallest = 3;

  /// Throws DeviceError where the device fails. The list is left as any list.
  void give(Cuda& device, cudaStream_t stream, CudaCommands& commands) {
    if (commands.size() >= smallest && by_graph(device, stream, commands)) return;
    commands.give(device, stream, [](std::size_t) {});
    use_.one_by_one += 1;
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

  /// False where there is no graph of the like: then nothing was done.
  bool by_graph(Cuda& device, cudaStream_t stream, CudaCommands& commands) {
    ++clock_;
    const std::size_t hash = commands.hash();
    Known* known = find(hash, commands);
    if (known == nullptr) {
      remember(hash);
      return false;
    }
    known->last_use = clock_;
    if (known->is_refused) return false;
    if (known->graph == nullptr) return capture(device, stream, *known, commands);
    try {
      known->graph->launch(stream, known->commands, commands);
    } catch (...) {  // some of its kernels have their new arguments, some do not
      known->graph.reset();
      throw;
    }
    std::swap(known->commands, commands);
    use_.replayed += 1;
    return true;
  }
  bool capture(Cuda& device, cudaStream_t stream, Known& known, CudaCommands& commands) {
    try {
      known.graph = std::make_unique<CudaGraph>(device, stream, commands);
    } catch (const DeviceError& error) {
      known.is_refused = true;
      use_.refusal = error.what();
      return false;
    }
    known.graph->launch(stream);
    std::swap(known.commands, commands);
    use_.captured += 1;
    return true;
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
