// What the tests ask of the doubles, of NVIDIA's own runtime and cuBLASLt: how often each call was made. The
// linker puts these functions before theirs (--wrap, for each that CMakeLists.txt names), so that a step's
// launches, allocations and waits are counted on the GPU as they are without one. Calls that the two
// libraries make themselves are not seen.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <mutex>
#include <string>
#include <vector>

#include "cuda/double/cublaslt.hpp"
#include "cuda/double/cuda_runtime.hpp"

namespace halfstep_test {

CudaCalls& cuda_calls() {
  static CudaCalls calls;
  return calls;
}
BlasCalls& blas_calls() {
  static BlasCalls calls;
  return calls;
}
/// NVIDIA's library refuses what is not allowed; the caller throws.
std::vector<std::string> take_blas_violations() { return {}; }
/// What it offers is its own affair.
void set_offer(Offer) {}

}  // namespace halfstep_test

using halfstep_test::blas_calls, halfstep_test::cuda_calls;

/// Tests use several threads.
static std::mutex& mutex() {
  static std::mutex one;
  return one;
}

/// Defines what stands before `call`, with these parameters and arguments; `note` says what is counted.
#define HALFSTEP_COUNTED(Status, call, parameters, arguments, note) \
  Status __real_##call parameters;                                  \
  Status __wrap_##call parameters {                                 \
    {                                                               \
      const std::lock_guard lock(mutex());                          \
      note;                                                         \
    }                                                               \
    return __real_##call arguments;                                 \
  }

extern "C" {

HALFSTEP_COUNTED(cudaError_t, cudaLaunchKernel,
                 (const void* kernel, dim3 grid, dim3 block, void** values, size_t shared,
                  cudaStream_t stream),
                 (kernel, grid, block, values, shared, stream), ++cuda_calls().launches)
HALFSTEP_COUNTED(cudaError_t, cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream),
                 ++cuda_calls().graph_launches)
HALFSTEP_COUNTED(cudaError_t, cudaGraphInstantiate,
                 (cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags),
                 (executable, graph, flags), ++cuda_calls().graphs_instantiated)
HALFSTEP_COUNTED(cudaError_t, cudaGraphExecKernelNodeSetParams,
                 (cudaGraphExec_t graph, cudaGraphNode_t node, const cudaKernelNodeParams* parameters),
                 (graph, node, parameters), ++cuda_calls().graph_nodes_updated)
HALFSTEP_COUNTED(cudaError_t, cudaGraphExecMemcpyNodeSetParams1D,
                 (cudaGraphExec_t graph, cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                  cudaMemcpyKind kind),
                 (graph, node, to, from, bytes, kind), ++cuda_calls().graph_nodes_updated)
HALFSTEP_COUNTED(cudaError_t, cudaMallocFromPoolAsync,
                 (void** memory, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                 (memory, bytes, pool, stream), ++cuda_calls().device_allocations)
HALFSTEP_COUNTED(cudaError_t, cudaFreeAsync, (void* memory, cudaStream_t stream), (memory, stream),
                 ++cuda_calls().device_frees)
HALFSTEP_COUNTED(cudaError_t, cudaHostAlloc, (void** memory, size_t bytes, unsigned flags),
                 (memory, bytes, flags), ++cuda_calls().host_allocations)
HALFSTEP_COUNTED(cudaError_t, cudaStreamCreateWithFlags, (cudaStream_t* stream, unsigned flags),
                 (stream, flags), ++cuda_calls().objects_made)
HALFSTEP_COUNTED(cudaError_t, cudaEventCreateWithFlags, (cudaEvent_t* event, unsigned flags), (event, flags),
                 ++cuda_calls().objects_made)
HALFSTEP_COUNTED(cudaError_t, cudaMemPoolCreate, (cudaMemPool_t* pool, const cudaMemPoolProps* properties),
                 (pool, properties), ++cuda_calls().objects_made)
HALFSTEP_COUNTED(cudaError_t, cudaMemsetAsync, (void* memory, int value, size_t bytes, cudaStream_t stream),
                 (memory, value, bytes, stream), ++cuda_calls().memsets)
HALFSTEP_COUNTED(cudaError_t, cudaStreamSynchronize, (cudaStream_t stream), (stream),
                 ++cuda_calls().stream_waits)
HALFSTEP_COUNTED(cudaError_t, cudaEventSynchronize, (cudaEvent_t event), (event), ++cuda_calls().event_waits)

cudaError_t __real_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  const auto count = static_cast<std::int64_t>(bytes);
  if (kind == cudaMemcpyHostToDevice) {
    ++cuda_calls().copies_to_device;
    cuda_calls().bytes_to_device += count;
  } else if (kind == cudaMemcpyDeviceToHost) {
    ++cuda_calls().copies_to_host;
    cuda_calls().bytes_to_host += count;
  } else {
    ++cuda_calls().copies_on_device;
  }
  return __real_cudaMemcpyAsync(to, from, bytes, kind, stream);
}

HALFSTEP_COUNTED(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle),
                 ++blas_calls().handles_made)
HALFSTEP_COUNTED(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), (handle),
                 ++blas_calls().handles_destroyed)
HALFSTEP_COUNTED(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                  cublasLtMatmulPreference_t preference, int requested,
                  cublasLtMatmulHeuristicResult_t results[], int* returned),
                 (handle, operation, a, b, c, d, preference, requested, results, returned),
                 ++blas_calls().heuristics)

cublasStatus_t __real_cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                     const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                                     const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                                     const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                     cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                                     void* workspace, size_t workspace_bytes, cudaStream_t stream);
cublasStatus_t __wrap_cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                     const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                                     const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                                     const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                     cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                                     void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const auto attribute = [operation](cublasLtMatmulDescAttributes_t name) {
    std::int32_t value = 0;
    size_t written = 0;
    (void)cublasLtMatmulDescGetAttribute(operation, name, &value, sizeof value, &written);
    return value;
  };
  const std::lock_guard lock(mutex());
  ++cuda_calls().matmuls;
  ++blas_calls().matmuls;
  blas_calls().tensor_float32_matmuls +=
      attribute(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) == CUBLAS_COMPUTE_32F_FAST_TF32;
  blas_calls().fused_biases += attribute(CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_BIAS;
  return __real_cublasLtMatmul(handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
                               d_layout, algorithm, workspace, workspace_bytes, stream);
}

}  // extern "C"
