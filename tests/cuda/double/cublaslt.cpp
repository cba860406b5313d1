#include "cublaslt.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "cublaslt_problem.hpp"
#include "cublaslt_product.hpp"
#include "cuda_runtime.hpp"

using namespace halfstep_test;

struct cublasLtContext {
  cudaStream_t stream = nullptr;
};

namespace {

/// What an algorithm was offered for, and so what it may rely on.
struct Offered {
  BlasProblem problem;
  std::array<std::uint32_t, 4> alignments;  // of A, B, C, D
  std::uint32_t bias_alignment;
  std::size_t workspace_bytes;
};
constexpr std::uint64_t algorithm_mark = 0x68616c6673746570U;

struct State {
  std::recursive_mutex mutex;
  BlasCalls calls;
  std::vector<std::string> violations;
  std::vector<cublasLtContext*> handles;
  std::vector<Offered> offered;
  std::map<std::string, cublasStatus_t> failures;
  Offer offer = Offer::everything;
};
State& state() {
  static State* const one = new State;
  return *one;
}
using Lock = std::lock_guard<std::recursive_mutex>;

cublasStatus_t violate(const std::string& call, const std::string& sentence, const std::string& of,
                       cublasStatus_t status) {
  state().violations.push_back(call + ": " + sentence + (of.empty() ? "" : " (" + of + ")"));
  return status;
}
cublasStatus_t planned(const std::string& call) {
  const auto found = state().failures.find(call);
  if (found == state().failures.end()) return CUBLAS_STATUS_SUCCESS;
  const cublasStatus_t status = found->second;
  state().failures.erase(found);
  return status;
}
bool is_alive(cublasLtHandle_t handle) {
  return std::find(state().handles.begin(), state().handles.end(), handle) != state().handles.end();
}
std::uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory) | 256u;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

/// Of what is seen when the product is given: addresses and workspace.
std::string fault_of_memory(const BlasProduct& product, const Offered& offered, std::size_t workspace_given) {
  const BlasProblem& problem = product.problem;
  const auto bytes = [](const BlasLayout& layout) {
    return static_cast<std::size_t>(layout.extent()) * layout.element_bytes();
  };
  const std::array<std::pair<const void*, const BlasLayout*>, 4> matrices{
      {{product.a, &problem.a}, {product.b, &problem.b}, {product.c, &problem.c}, {product.d, &problem.d}}};
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto [memory, layout] = matrices[i];
    const std::string name(1, "ABCD"[i]);
    if (!is_device_memory(memory, bytes(*layout))) return name + " is not all within one allocation of the device";
    for (std::int64_t item = 0; item < (std::min)(layout->count, 64); ++item) {
      const auto* one = static_cast<const std::byte*>(memory) +
                        item * layout->stride * static_cast<std::int64_t>(layout->element_bytes());
      if (alignment_of(one) < offered.alignments[i]) {
        return name + " is aligned to " + std::to_string(alignment_of(one)) + " bytes, the algorithm needs " +
               std::to_string(offered.alignments[i]);
      }
    }
  }
  if (product.c != product.d) return "C and D must be one place here";
  if (overlap(product.d, bytes(problem.d), product.a, bytes(problem.a)) ||
      overlap(product.d, bytes(problem.d), product.b, bytes(problem.b))) {
    return "the result lies on an operand";
  }
  if (product.beta != 0.0f && product.beta != 1.0f) return "beta must be 0 or 1 here";
  if (problem.operation.epilogue == CUBLASLT_EPILOGUE_BIAS) {
    if (!is_device_memory(product.bias, static_cast<std::size_t>(problem.d.rows) * problem.d.element_bytes())) {
      return "the bias is not all within one allocation of the device";
    }
    if (alignment_of(product.bias) < offered.bias_alignment) return "the bias is less aligned than the algorithm needs";
  }
  // cuBLAS documentation, cublasLtMatmul(), parameter workspace.
  if (workspace_given < offered.workspace_bytes) return "the workspace is smaller than the algorithm needs";
  if (offered.workspace_bytes > 0 && !is_device_memory(product.workspace, workspace_given)) {
    return "the workspace is not all within one allocation of the device";
  }
  if (offered.workspace_bytes > 0 && alignment_of(product.workspace) < 256) {
    return "the workspace is not aligned to 256 bytes";
  }
  return "";
}

const void* bias_of(cublasLtMatmulDesc_t operation) {
  return attribute<const void*>(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
}

}  // namespace

namespace halfstep_test {

BlasCalls& blas_calls() { return state().calls; }
std::vector<std::string> take_blas_violations() {
  const Lock lock(state().mutex);
  return std::exchange(state().violations, {});
}
void set_offer(Offer offer) { state().offer = offer; }
void fail_blas_call(const std::string& call, cublasStatus_t status) {
  const Lock lock(state().mutex);
  state().failures[call] = status;
}

}  // namespace halfstep_test

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const Lock lock(state().mutex);
  if (const cublasStatus_t status = planned("cublasLtCreate"); status != CUBLAS_STATUS_SUCCESS) return status;
  ++state().calls.handles_made;
  state().handles.push_back(new cublasLtContext);
  *handle = state().handles.back();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const Lock lock(state().mutex);
  if (!is_alive(handle)) return violate("cublasLtDestroy", "no such handle", "", CUBLAS_STATUS_NOT_INITIALIZED);
  ++state().calls.handles_destroyed;
  std::erase(state().handles, handle);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* returned) {
  const std::string call = "cublasLtMatmulAlgoGetHeuristic";
  const Lock lock(state().mutex);
  ++state().calls.heuristics;
  *returned = 0;
  if (const cublasStatus_t status = planned(call); status != CUBLAS_STATUS_SUCCESS) return status;
  if (!is_alive(handle)) return violate(call, "no such handle", "", CUBLAS_STATUS_NOT_INITIALIZED);
  if (requested < 1) return violate(call, "no algorithm requested", "", CUBLAS_STATUS_INVALID_VALUE);
  const BlasProblem problem{read(operation), read(a), read(b), read(c), read(d)};
  const void* const bias = bias_of(operation);
  if (const std::string fault = fault_of(problem, bias); !fault.empty()) {
    return violate(call, fault, problem.text(), CUBLAS_STATUS_NOT_SUPPORTED);
  }
  const auto reductions = attribute<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  if ((reductions & ~std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) != 0) {
    return violate(call, "partial sums may be kept in the result's type", problem.text(), CUBLAS_STATUS_NOT_SUPPORTED);
  }
  const bool is_fused = problem.operation.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  if (state().offer == Offer::nothing || (state().offer == Offer::nothing_fused && is_fused)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // cublasLt.h: usually only sizes that int32_t holds are supported.
  if ((std::max)({problem.d.rows, problem.d.columns, problem.depth()}) > 0x7fffffffu)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto workspace = attribute<std::uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  const Offered offered{problem,
                        {attribute<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
                         attribute<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
                         attribute<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
                         attribute<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)},
                        is_fused ? alignment_of(bias) : 1,
                        static_cast<std::size_t>(workspace)};
  results[0] = cublasLtMatmulHeuristicResult_t{};
  results[0].algo.data[0] = algorithm_mark;
  results[0].algo.data[1] = state().offered.size();
  results[0].workspaceSize = offered.workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1.0f;
  *returned = 1;
  state().offered.push_back(offered);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const std::string call = "cublasLtMatmul";
  const Lock lock(state().mutex);
  if (const cublasStatus_t status = planned(call); status != CUBLAS_STATUS_SUCCESS) return status;
  if (!is_alive(handle)) return violate(call, "no such handle", "", CUBLAS_STATUS_NOT_INITIALIZED);
  if (handle->stream != nullptr && handle->stream != stream) {
    return violate(call, "one handle for two streams", "", CUBLAS_STATUS_INVALID_VALUE);
  }
  handle->stream = stream;
  const BlasProblem problem{read(operation), read(a_layout), read(b_layout), read(c_layout), read(d_layout)};
  const void* const bias = bias_of(operation);
  if (const std::string fault = fault_of(problem, bias); !fault.empty()) {
    return violate(call, fault, problem.text(), CUBLAS_STATUS_NOT_SUPPORTED);
  }
  if (algorithm == nullptr || algorithm->data[0] != algorithm_mark || algorithm->data[1] >= state().offered.size()) {
    return violate(call, "an algorithm that was not offered", problem.text(), CUBLAS_STATUS_INVALID_VALUE);
  }
  const Offered& offered = state().offered[algorithm->data[1]];
  if (!(offered.problem == problem)) {
    return violate(call, "an algorithm that was offered for " + offered.problem.text(), problem.text(),
                   CUBLAS_STATUS_INVALID_VALUE);
  }
  const BlasProduct product{
      problem, *static_cast<const float*>(alpha),  *static_cast<const float*>(beta), a, b, c, bias,
      d,       static_cast<std::byte*>(workspace), offered.workspace_bytes};
  if (const std::string fault = fault_of_memory(product, offered, workspace_bytes); !fault.empty()) {
    return violate(call, fault, problem.text(), CUBLAS_STATUS_INVALID_VALUE);
  }
  ++state().calls.matmuls;
  ++cuda_calls().matmuls;
  state().calls.tensor_float32_matmuls += problem.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  state().calls.fused_biases += problem.operation.epilogue == CUBLASLT_EPILOGUE_BIAS;
  return give_to_stream(stream, product) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
