#pragma once

#include <halfstep/compute/matmul.hpp>

#include "figures.hpp"

/// Products through our interface, as shares of cuBLASLt called bare and of the best rate that the card
/// shows.
namespace figures {

using halfstep::Buffer, halfstep::Cuda;

/// result = a b by rows, with nothing between the program and cuBLASLt: its first choice, 32 MiB of
/// workspace.
template <class T>
class BareProduct {
 public:
  BareProduct(Cuda& cuda, std::int64_t m, std::int64_t n, std::int64_t k, bool tensor_float32)
      : cuda_(cuda), handle_(make_blas_handle()), workspace_(cuda, workspace_bytes) {
    cublasLtMatmulDesc_t operation = nullptr;
    const cublasComputeType_t arithmetic = tensor_float32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_blas(cublasLtMatmulDescCreate(&operation, arithmetic, CUDA_R_32F), "cublasLtMatmulDescCreate");
    operation_.reset(operation);
    // Matrices by rows are their own transposes by columns.
    first_ = layout(n, k);
    second_ = layout(k, m);
    result_ = layout(n, m);
    cublasLtMatmulPreference_t made = nullptr;
    check_blas(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
    const BlasPreference preference(made);
    const std::uint64_t most = workspace_bytes;
    check_blas(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                                    sizeof most),
               "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    check_blas(cublasLtMatmulAlgoGetHeuristic(handle_.get(), operation_.get(), first_.get(), second_.get(),
                                              result_.get(), result_.get(), made, 1, &best, &found),
               "cublasLtMatmulAlgoGetHeuristic");
    check_blas(found == 1 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED,
               "cublasLtMatmulAlgoGetHeuristic");
    algorithm_ = best.algo;
  }

  void operator()(const T* a, const T* b, T* result) const {
    const float alpha = 1.0f, beta = 0.0f;
    check_blas(cublasLtMatmul(handle_.get(), operation_.get(), &alpha, b, first_.get(), a, second_.get(),
                              &beta, result, result_.get(), result, result_.get(), &algorithm_,
                              workspace_.data(), workspace_bytes, cuda_.stream()),
               "cublasLtMatmul");
  }

 private:
  using Layout = halfstep::compute::detail::BlasLayout;
  using BlasPreference = halfstep::compute::detail::BlasPreference;
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  static void check_blas(cublasStatus_t status, const char* call) {
    halfstep::compute::detail::check_blas(status, call);
  }
  static auto make_blas_handle() { return halfstep::compute::detail::make_blas_handle(); }
  static Layout layout(std::int64_t rows, std::int64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    check_blas(cublasLtMatrixLayoutCreate(&made, halfstep::compute::detail::cuda_data_type<T>(),
                                          static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), rows),
               "cublasLtMatrixLayoutCreate");
    return Layout(made);
  }

  Cuda& cuda_;
  halfstep::compute::detail::BlasHandle handle_;
  Buffer<char, Cuda> workspace_;
  halfstep::compute::detail::BlasOperation operation_;
  Layout first_, second_, result_;
  cublasLtMatmulAlgo_t algorithm_{};
};

struct ProductShape {
  std::int64_t m, n, k;
  double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

template <class T>
void products_of(Cuda& cuda, Report& report, const std::string& type, bool tensor_float32 = false) {
  constexpr std::int64_t most = 8192;
  const auto a = scattered<T>(cuda, most * most, 1), b = scattered<T>(cuda, most * most, 2);
  const Buffer<T, Cuda> result(cuda, most * most);
  Stopwatch stopwatch(cuda);

  const ProductShape largest{most, most, most};
  double peak = 0;
  {
    const BareProduct<T> bare(cuda, largest.m, largest.n, largest.k, tensor_float32);
    const auto product = [&] { bare(a.data(), b.data(), result.data()); };
    product();
    for (int round = 0; round < 7; ++round)
      peak = (std::max)(peak, largest.operations() / stopwatch.seconds(product));
  }
  report.tell(
      "products, " + type + ", the card's peak",
      fmt::format("{:.1f} TFLOP/s (cuBLASLt's best of 7, {} x {} x {})", peak * 1e-12, most, most, most),
      {{"TFLOP/s", peak * 1e-12}});

  for (const ProductShape& shape : {ProductShape{1024, 1024, 1024}, {4096, 4096, 4096}, {512, 2048, 512}}) {
    const BareProduct<T> bare(cuda, shape.m, shape.n, shape.k, tensor_float32);
    const auto by_itself = [&] { bare(a.data(), b.data(), result.data()); };
    const auto through_us = [&] {
      using halfstep::compute::matrix;
      halfstep::compute::matmul(
          cuda, matrix<const T>(a.data(), shape.m, shape.k), matrix<const T>(b.data(), shape.k, shape.n),
          matrix<T>(result.data(), shape.m, shape.n), {.tensor_float32 = tensor_float32});
    };
    through_us();
    const std::int64_t calls = stopwatch.calls_for(3e-3, by_itself);
    const Times times = in_turn(cuda, 21, calls, through_us, by_itself);
    const double rate = shape.operations() / times.ours;
    const std::string name = fmt::format("product {} x {} x {}, {}", shape.m, shape.n, shape.k, type);
    const double share = times.reference / times.ours;
    const std::string of_what = fmt::format("cuBLASLt called bare; {:.1f} TFLOP/s, {:.1f} % of the card's peak",
                                            rate * 1e-12, 100 * rate / peak);
    const nlohmann::json details{{"TFLOP/s", rate * 1e-12},
                                 {"share of peak", rate / peak},
                                 {"seconds", times.ours},
                                 {"bare seconds", times.reference}};
    // The small ones take the GPU about as long as a call takes the program.
    if (shape.m >= 4096) {
      report.compare(name, share, 0.9, of_what, details);
    } else {
      report.tell(name, fmt::format("{:.1f} % of {}", 100 * share, of_what), details);
    }
  }
}

inline void products(Report& report) {
  Cuda cuda;
  products_of<halfstep::float16>(cuda, report, "float16");
  products_of<halfstep::bfloat16>(cuda, report, "bfloat16");
  products_of<float>(cuda, report, "float32");
  products_of<float>(cuda, report, "float32 as TensorFloat-32", true);
}

}  // namespace figures
