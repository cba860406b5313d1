// The double of CUDA's graphs: what is given to a stream while it is captured is kept, and given again at
// every launch.

#include <cstdlib>
#include <utility>

#include "cuda_runtime_state.hpp"

using namespace halfstep_test;

struct CUgraphExec_st {
  cudaGraph_t graph;
  std::vector<Node> nodes;
};

namespace {

/// The place of a graph's node in what was made of the graph, or null.
Node* node_of(cudaGraphExec_t executable, cudaGraphNode_t node) {
  if (!state().graphs.contains(executable->graph)) return nullptr;
  for (std::size_t i = 0; i < executable->nodes.size(); ++i) {
    if (executable->graph->nodes[i].get() == node) return &executable->nodes[i];
  }
  return nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaStreamBeginCapture);
  // Global would forbid other threads' trainers to allocate, relaxed would let this one.
  if (mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;
  stream->captured = new CUgraph_st;
  stream->by = std::this_thread::get_id();
  stream->is_spoilt = false;
  stream->last = nullptr;
  state().capturing.insert(stream);
  state().graphs.insert(stream->captured);
  ++state().objects;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const Lock lock(state().mutex);
  if (stream->captured == nullptr) return cudaErrorIllegalState;
  state().capturing.erase(stream);
  CUgraph_st* const captured = std::exchange(stream->captured, nullptr);
  cudaError_t status = planned("cudaStreamEndCapture");
  if (status == cudaSuccess && stream->is_spoilt) status = cudaErrorStreamCaptureInvalidated;
  if (status != cudaSuccess) {
    cudaGraphDestroy(captured);
    return status;
  }
  *graph = captured;
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(
#else
cudaError_t cudaStreamGetCaptureInfo_v3(
#endif
    cudaStream_t stream, cudaStreamCaptureStatus* capturing, unsigned long long*, cudaGraph_t*,
    const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges, size_t* count) {
  HALFSTEP_TEST_CALL(cudaStreamGetCaptureInfo);
  *capturing = stream->captured == nullptr ? cudaStreamCaptureStatusNone
               : stream->is_spoilt         ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
  *dependencies = &stream->last;
  *count = stream->last == nullptr ? 0 : 1;
  // An edge may carry data, and who does not ask for it is refused.
  return edges == nullptr ? cudaErrorLossyQuery : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaGraphInstantiate);
  if (flags != 0) return cudaErrorInvalidValue;
  *executable = new CUgraphExec_st{graph, {}};
  for (const auto& node : graph->nodes) (*executable)->nodes.push_back(*node);
  ++state().objects;
  ++state().calls.graphs_instantiated;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaGraphUpload);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  HALFSTEP_TEST_CALL(cudaGraphDestroy);
  if (state().graphs.erase(graph) != 1) std::abort();
  delete graph;
  --state().objects;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  HALFSTEP_TEST_CALL(cudaGraphExecDestroy);
  delete executable;
  --state().objects;
  return cudaSuccess;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* parameters) {
  HALFSTEP_TEST_CALL(cudaGraphExecKernelNodeSetParams);
  Node* const place = node_of(executable, node);
  if (place == nullptr || place->function == nullptr || place->function != parameters->func) {
    return cudaErrorInvalidValue;
  }
  if (!is_launchable(parameters->gridDim, parameters->blockDim)) return cudaErrorInvalidConfiguration;
  *place = kernel_node(parameters->func, static_cast<std::int64_t>(parameters->gridDim.x),
                       parameters->kernelParams);
  ++state().calls.graph_nodes_updated;
  return cudaSuccess;
}
cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node, void* to,
                                               const void* from, size_t bytes, cudaMemcpyKind kind) {
  HALFSTEP_TEST_CALL(cudaGraphExecMemcpyNodeSetParams1D);
  Node* const place = node_of(executable, node);
  if (place == nullptr || !place->is_copy || place->kind != kind || bytes == 0 ||
      !are_of(kind, to, from, bytes)) {
    return cudaErrorInvalidValue;
  }
  *place = copy_node(to, from, bytes, kind);
  ++state().calls.graph_nodes_updated;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  HALFSTEP_TEST_CALL_OUTSIDE_CAPTURES(cudaGraphLaunch);
  if (stream->device != current_device()) return cudaErrorInvalidResourceHandle;
  ++state().calls.graph_launches;
  for (const Node& node : executable->nodes) give(stream, node);
  return cudaSuccess;
}

}  // extern "C"
