// Products through the library's interface against oneDNN called bare (a primitive built before, float), turn
// by turn in one run, so that what else the machine does meets both. The time of a benchmark is ours; its
// counters:
//
//   GFLOP/s       ours, best of the run        bare_GFLOP/s  oneDNN's float primitive, best of the run
//   of_bare       ours / oneDNN's              peak_GFLOP/s  fused multiply-adds in registers, all threads
//   of_bare_bfloat16  ours / oneDNN's primitive for bfloat16, where that is what is multiplied

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <halfstep/compute/matmul.hpp>
#include <memory>
#include <type_traits>
#include <vector>

#if HALFSTEP_WITH_ONEDNN
#include <halfstep/compute/onednn_primitive.hpp>
#endif

namespace {

using namespace halfstep;
using compute::Matrix;
using compute::matrix;

template <class Function>
double seconds(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What the micro-kernel reaches on panels that stay in the first-level cache, on all threads at once.
double measure_peak(Host& host) {
  constexpr std::int64_t depth = 256, rows = compute::detail::kernel_rows,
                         columns = compute::detail::kernel_columns;
  constexpr std::int64_t calls = 2000;
  const std::int64_t threads = compute::detail::max_threads();
  double best = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const double time = seconds([&] {
      compute::for_each_task(host, threads, [&](std::int64_t) {
        alignas(64) float a[depth * rows] = {}, b[depth * columns] = {}, sums[rows * columns] = {};
        for (std::int64_t call = 0; call < calls; ++call)
          compute::detail::micro_kernel()(depth, a, b, sums, columns);
        benchmark::DoNotOptimize(sums[0]);
      });
    });
    best = (std::max)(best, 2e-9 * static_cast<double>(calls * threads * depth * rows * columns) / time);
  }
  return best;
}

double peak(Host& host) {
  static const double measured = measure_peak(host);
  return measured;
}

enum class Way { fastest, deterministic };

template <class T>
void product(benchmark::State& state, Way way) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  Host host({.deterministic = way == Way::deterministic});
  // The layout of a linear layer: inputs times weights that are stored by output.
  const std::vector<T> x(size(m, k), T(1.0f)), w(size(n, k), T(0.5f));
  std::vector<T> y(size(m, n));
  const auto ours = [&] {
    compute::matmul(host, matrix(x.data(), m, k), matrix(w.data(), n, k).transposed(),
                    matrix(y.data(), m, n));
  };
  ours();
#if HALFSTEP_WITH_ONEDNN
  using Data = dnnl::memory::data_type;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::stream stream(engine);
  std::vector<float> bare_x(x.size(), 1.0f), bare_w(w.size(), 0.5f), bare_y(y.size());
  compute::detail::OnednnMatmul prepared(engine, {m, n, k, k, k, n, Data::f32, Data::f32, false, true, false,
                                                  false, compute::detail::max_threads()});
  const auto bare = [&] { prepared.execute(stream, bare_x.data(), bare_w.data(), nullptr, bare_y.data()); };
  bare();
  double native_best = 1e9;
  std::unique_ptr<compute::detail::OnednnMatmul> native;
  if constexpr (std::is_same_v<T, bfloat16>) {
    native = std::make_unique<compute::detail::OnednnMatmul>(
        engine, compute::detail::OnednnProblem{m, n, k, k, k, n, Data::bf16, Data::bf16, false, true, false, false,
                                               compute::detail::max_threads()});
    native->execute(stream, x.data(), w.data(), nullptr, y.data());
  }
#endif
  // Small products are timed many at once.
  const double work = 2e-9 * static_cast<double>(m * n * k);
  const int repeats = static_cast<int>((std::max)(1.0, 4e-3 / work));
  double best = 1e9, bare_best = 1e9;
  for (auto _ : state) {
    const double time = seconds([&] {
      for (int i = 0; i < repeats; ++i) ours();
    });
    state.SetIterationTime(time / repeats);
    best = (std::min)(best, time / repeats);
#if HALFSTEP_WITH_ONEDNN
    bare_best = (std::min)(bare_best, seconds([&] {
                                        for (int i = 0; i < repeats; ++i) bare();
                                      }) / repeats);
    if (native != nullptr) {
      native_best = (std::min)(native_best, seconds([&] {
                                              for (int i = 0; i < repeats; ++i) {
                                                native->execute(stream, x.data(), w.data(), nullptr, y.data());
                                              }
                                            }) / repeats);
    }
#endif
  }
  state.counters["GFLOP/s"] = work / best;
  state.counters["bare_GFLOP/s"] = work / bare_best;
  state.counters["of_bare"] = bare_best / best;
#if HALFSTEP_WITH_ONEDNN
  if (native != nullptr) state.counters["of_bare_bfloat16"] = native_best / best;
#endif
  state.counters["peak_GFLOP/s"] = peak(host);
}

void product_of_float(benchmark::State& state, Way way) { product<float>(state, way); }
void product_of_bfloat16(benchmark::State& state, Way way) { product<bfloat16>(state, way); }
void product_of_float16(benchmark::State& state, Way way) { product<float16>(state, way); }

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1024, 1024, 1024})->Args({512, 2048, 512})->Args({64, 256, 10})->Args({64, 256, 64});
  benchmark->UseManualTime()->Iterations(40);
}

}  // namespace

BENCHMARK_CAPTURE(product_of_float, fastest, Way::fastest)->Apply(shapes);
BENCHMARK_CAPTURE(product_of_bfloat16, fastest, Way::fastest)->Apply(shapes);
BENCHMARK_CAPTURE(product_of_float16, fastest, Way::fastest)->Apply(shapes);
BENCHMARK_CAPTURE(product_of_float, deterministic, Way::deterministic)->Apply(shapes);
BENCHMARK_CAPTURE(product_of_bfloat16, deterministic, Way::deterministic)->Apply(shapes);
BENCHMARK_CAPTURE(product_of_float16, deterministic, Way::deterministic)->Apply(shapes);
