#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>
#include <vector>

/// The calls of cuBLASLt that need a GPU, without one, for programs linked with it and with NVIDIA's library, whose
/// own descriptors are read back. It multiplies on the CPU, in the order of a stream, and is as strict as NVIDIA's
/// documentation: what that does not allow is refused and recorded.
namespace halfstep_test {

struct BlasCalls {
  std::int64_t handles_made = 0;
  std::int64_t handles_destroyed = 0;
  std::int64_t heuristics = 0;
  std::int64_t matmuls = 0;
  std::int64_t tensor_float32_matmuls = 0;
  std::int64_t fused_biases = 0;
};

BlasCalls& blas_calls();
inline void reset_blas_calls() { blas_calls() = BlasCalls{}; }

/// What was not allowed since the last call of this, one sentence each. A right program has none.
std::vector<std::string> take_blas_violations();

/// What the heuristic offers from now on: all that is documented, only products without an epilogue, or nothing.
enum class Offer { everything, nothing_fused, nothing };
void set_offer(Offer offer);

/// The next call of this name ("cublasLtCreate", "cublasLtMatmulAlgoGetHeuristic" or "cublasLtMatmul") returns this.
void fail_blas_call(const std::string& call, cublasStatus_t status);

}  // namespace halfstep_test
