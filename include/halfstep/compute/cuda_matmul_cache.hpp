#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <halfstep/compute/cuda_blas.hpp>
#include <halfstep/compute/cuda_matmul_plan.hpp>
#include <halfstep/compute/cuda_matmul_problem.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/device/cuda.hpp>
#include <halfstep/error.hpp>

namespace halfstep::compute::detail {

/// A product as a device is given it.
struct CudaProduct {
  CudaProblem problem;
  CudaOperands operands;

  void give(Cuda& device, cudaStream_t stream) const;
  std::size_t hash() const {
    return CudaProblemHash()(problem) ^ reinterpret_cast<std::uintptr_t>(operands.result);
  }
  bool operator==(const CudaProduct&) const = default;
};

/// What a Cuda object keeps for its products: the cuBLASLt handle, the workspace, and the plans of the products that it
/// has met, so that a warm product is one launch: nothing is asked, made or allocated. It keeps as many plans as
/// `capacity`; the one unused for longest makes room.
class CudaMatmuls {
 public:
  static constexpr std::size_t capacity = 1024;

  /// Does cuBLASLt offer an algorithm?
  bool offers(Cuda& device, const CudaProblem& problem, const CudaOperands& operands) {
    return find(device, problem, operands) != nullptr;
  }
  /// Throws DeviceError where it does not.
  void require(Cuda& device, const CudaProblem& problem, const CudaOperands& operands) {
    (void)need(device, problem, operands);
  }

  /// Gives the product to the device. Throws DeviceError where cuBLASLt offers no algorithm.
  void run(Cuda& device, const CudaProblem& problem, const CudaOperands& operands) {
    require(device, problem, operands);
    device.give(CudaProduct{problem, operands});
  }
  /// Gives the product to the device's stream, now.
  void give(Cuda& device, const CudaProduct& product, cudaStream_t stream) {
    const bool has_workspace = workspace_.bytes() > 0;
    const cublasStatus_t status = need(device, product.problem, product.operands)
                                      .run(handle_.get(), product.operands, has_workspace ? workspace_.data() : nullptr,
                                           workspace_.bytes(), stream);
    if (status != CUBLAS_STATUS_SUCCESS) refuse("cublasLtMatmul", product.problem, product.operands, status, "");
  }

  /// Room for sums in float, in which is what an earlier product left. Where it is too small it gets a larger one
  /// beside it: a captured graph may still write to the first.
  float* reserve_sums(Cuda& device, std::int64_t count) {
    if (sums_.empty() || sums_.back().size() < count) {
      const std::int64_t twice = sums_.empty() ? 0 : 2 * sums_.back().size();
      sums_.emplace_back(device, (std::max)(count, twice));
    }
    return sums_.back().data();
  }

  std::size_t bytes() const {
    std::size_t total = workspace_.bytes();
    for (const auto& sums : sums_) total += sums.bytes();
    return total;
  }
  std::size_t size() const { return plans_.size(); }
  /// How often cuBLASLt was asked for an algorithm so far: constant once a program is warm.
  std::size_t asked() const { return asked_; }

 private:
  struct Entry {
    /// None: remembered as not offered, so that the question is asked once.
    std::optional<CudaMatmulPlan> plan;
    std::uint64_t last_use;
  };

  /// Null where cuBLASLt offers no algorithm. The plan stays valid until the next call.
  CudaMatmulPlan* find(Cuda& device, const CudaProblem& problem, const CudaOperands& operands) {
    ++clock_;
    if (const auto known = plans_.find(problem); known != plans_.end()) {
      known->second.last_use = clock_;
      return known->second.plan ? &*known->second.plan : nullptr;
    }
    return make(device, problem, operands);
  }
  /// Throws DeviceError where cuBLASLt offers no algorithm.
  CudaMatmulPlan& need(Cuda& device, const CudaProblem& problem, const CudaOperands& operands) {
    if (CudaMatmulPlan* const plan = find(device, problem, operands)) return *plan;
    refuse("cublasLtMatmulAlgoGetHeuristic", problem, operands, CUBLAS_STATUS_NOT_SUPPORTED,
           "; cuBLASLt offers no algorithm for such a product with a workspace of " +
               std::to_string(workspace_.bytes()) +
               " bytes: give it more (CudaOptions::workspace_bytes), align the matrices and their rows to 16 bytes, "
               "or compute in another type");
  }
  CudaMatmulPlan* make(Cuda& device, const CudaProblem& problem, const CudaOperands& operands) {
    prepare(device);
    ++asked_;
    Entry entry{std::optional<CudaMatmulPlan>(std::in_place, problem), clock_};
    const cublasStatus_t status = entry.plan->choose(handle_.get(), problem, operands, workspace_.bytes());
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
      entry.plan.reset();
    } else if (status != CUBLAS_STATUS_SUCCESS) {
      refuse("cublasLtMatmulAlgoGetHeuristic", problem, operands, status, "");
    }
    if (plans_.size() == capacity) {
      plans_.erase(std::min_element(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      }));
    }
    Entry& kept = plans_.emplace(problem, std::move(entry)).first->second;
    return kept.plan ? &*kept.plan : nullptr;
  }

  void prepare(Cuda& device) {
    device.select();
    if (handle_) return;
    BlasHandle handle = make_blas_handle();
    workspace_ = Buffer<std::byte, Cuda>(device, static_cast<std::int64_t>(device.options().workspace_bytes));
    handle_ = std::move(handle);
  }

  [[noreturn]] static void refuse(const char* call, const CudaProblem& problem, const CudaOperands& operands,
                                  cublasStatus_t status, const std::string& advice) {
    using halfstep::detail::describe_arguments;
    throw DeviceError(
        "cuda: matmul (" + describe(problem) + "): " + call + "(" +
        describe_arguments(
            {{"a", operands.a}, {"b", operands.b}, {"bias", operands.bias}, {"result", operands.result}}) +
        ") failed: " + describe_blas_status(status) + advice);
  }

  BlasHandle handle_;
  Buffer<std::byte, Cuda> workspace_;
  std::vector<Buffer<float, Cuda>> sums_;
  std::unordered_map<CudaProblem, Entry, CudaProblemHash> plans_;
  std::uint64_t clock_ = 0;
  std::size_t asked_ = 0;
};

inline void CudaProduct::give(Cuda& device, cudaStream_t stream) const {
  device.service<CudaMatmuls>().give(device, *this, stream);
}

}  // namespace halfstep::compute::detail
