// The update pass over 32 Mi parameters against memcpy of as many bytes, read and written together. AdamW reads gradient,
// master and two moments, writes master, two moments and the 16-bit copy: 30 bytes a parameter. of_copy is the share of
// the copy's bandwidth.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include <halfstep/device/buffer.hpp>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/optim/update_pass.hpp>

#include "benchmarks/against.hpp"

namespace {

using namespace halfstep;

template <class Optimizer, class Compute>
void update(benchmark::State& state) {
  constexpr std::int64_t elements = std::int64_t{32} << 20;
  constexpr bool has_copy = sizeof(Compute) == 2;
  Host host;
  Buffer<float, Host> gradients(host, elements), masters(host, elements);
  Buffer<Compute, Host> working(host, has_copy ? elements : 0);
  std::vector<Buffer<float, Host>> moments;
  for (int m = 0; m < Optimizer::moments; ++m) moments.emplace_back(host, elements);
  for (std::int64_t i = 0; i < elements; ++i) gradients.data()[i] = static_cast<float>(i % 1000) - 500.0f;
  const std::vector<compute::Segment> segments{{0, elements}};
  const auto chunks = compute::cut_into_chunks(segments);
  const std::uint8_t has_gradient = 1;
  const ParameterOptions options;
  const Optimizer optimizer{.learning_rate = 1e-3f};
  UpdateFacts<typename Optimizer::Coefficients> facts{true, 1.0f / 65536.0f, 0.5f, 1e30f,
                                                      optimizer.coefficients(1e-3f, 10)};
  UpdateChunk<Optimizer, Compute> pass{chunks.data(), &has_gradient,  &options,
                                       gradients.data(), masters.data(), has_copy ? working.data() : nullptr,
                                       {}, &facts};
  for (std::size_t m = 0; m < moments.size(); ++m) pass.moments[m] = moments[m].data();

  constexpr std::int64_t bytes = elements * (4 + 8 + 8 * Optimizer::moments + (has_copy ? 2 : 0));
  Buffer<char, Host> from(host, bytes / 2), to(host, bytes / 2);
  const auto best = against::in_turn(
      state, [&] { compute::for_each_chunk(host, static_cast<std::int64_t>(chunks.size()), pass); },
      [&] {
        against::on_all_threads(bytes / 2, [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
        });
        benchmark::DoNotOptimize(to.data());
      });
  state.counters["GB/s"] = static_cast<double>(bytes) * 1e-9 / best.ours;
  state.counters["copy_GB/s"] = static_cast<double>(bytes) * 1e-9 / best.reference;
  state.counters["of_copy"] = best.reference / best.ours;
}
BENCHMARK(update<AdamW, float16>)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(update<AdamW, bfloat16>)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(update<AdamW, float>)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(update<SGD, float16>)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
