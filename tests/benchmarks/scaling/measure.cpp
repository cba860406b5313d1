// The measuring pass over 32 Mi gradients (unscale, look for what is not finite, sum the squares) against a plain sum
// of as many floats, which can do no more than read them. of_sum is the share of the sum's speed.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include <halfstep/compute/reduce.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/scaling/measure.hpp>

#include "benchmarks/against.hpp"

namespace {

using namespace halfstep;

void measure_gradients(benchmark::State& state) {
  constexpr std::int64_t elements = std::int64_t{32} << 20;
  Host host;
  Arena<Host> arena(host);
  Buffer<float, Host> gradients(host, elements);
  for (std::int64_t i = 0; i < elements; ++i) gradients.data()[i] = static_cast<float>(i % 1000) - 500.0f;
  const std::vector<compute::Segment> segments{{0, elements / 2}, {elements / 2, elements / 2}};
  const auto chunks = compute::cut_into_chunks(segments);
  const std::vector<std::uint8_t> has_gradient{1, 1};
  std::vector<MeasurePartial> partials(chunks.size());
  const auto count = static_cast<std::int64_t>(chunks.size());
  const float inverse_scale = 1.0f / 65536.0f;
  const float* values = gradients.data();
  float sum = 0;

  const auto best = against::in_turn(
      state,
      [&] {
        compute::for_each_chunk(host, count,
                                MeasureChunk{chunks.data(), segments.data(), has_gradient.data(), values,
                                             &inverse_scale, partials.data()});
        benchmark::DoNotOptimize(join_partials(partials.data(), chunks.data(), count, true, true));
      },
      [&] {
        arena.reset();
        compute::reduce(host, arena, elements, [values](std::int64_t i) { return values[i]; }, 0.0f, compute::Plus{},
                        &sum);
        benchmark::DoNotOptimize(sum);
      });
  state.counters["GB/s"] = static_cast<double>(elements) * 4e-9 / best.ours;
  state.counters["sum_GB/s"] = static_cast<double>(elements) * 4e-9 / best.reference;
  state.counters["of_sum"] = best.reference / best.ours;
}
BENCHMARK(measure_gradients)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
