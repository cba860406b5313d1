// Conversions of arrays far larger than the caches, on all threads, against memcpy moving as many bytes (read
// and written) on the same threads, measured in turn. The counter of_copy is the share of the copy's
// bandwidth, from the best time of each.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include <halfstep/numeric/convert.hpp>

#include "benchmarks/against.hpp"

namespace {

using namespace halfstep;

constexpr std::int64_t elements = std::int64_t{64} << 20;

using against::on_all_threads;
using against::seconds;

template <class From, class To, Stores stores>
void convert_array(benchmark::State& state) {
  const auto from = std::make_unique_for_overwrite<From[]>(elements);
  const auto to = std::make_unique_for_overwrite<To[]>(elements);
  constexpr std::int64_t bytes = elements * (sizeof(From) + sizeof(To));
  const auto copy_from = std::make_unique_for_overwrite<char[]>(bytes / 2);
  const auto copy_to = std::make_unique_for_overwrite<char[]>(bytes / 2);
  on_all_threads(elements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      from[i] = convert_to<From>(static_cast<float>(i % 4096) * 0.01f);
      to[i] = convert_to<To>(0.0f);
    }
  });
  on_all_threads(bytes / 2, [&](std::int64_t begin, std::int64_t end) {
    std::memset(copy_from.get() + begin, 1, static_cast<std::size_t>(end - begin));
    std::memset(copy_to.get() + begin, 2, static_cast<std::size_t>(end - begin));
  });

  double best_copy = 1e9, best_conversion = 1e9;
  for (auto _ : state) {
    const double copy = seconds([&] {
      on_all_threads(bytes / 2, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(copy_to.get() + begin, copy_from.get() + begin, static_cast<std::size_t>(end - begin));
      });
    });
    const double conversion = seconds([&] {
      on_all_threads(elements, [&](std::int64_t begin, std::int64_t end) {
        convert(from.get() + begin, to.get() + begin, end - begin, stores);
      });
    });
    benchmark::DoNotOptimize(to.get());
    benchmark::DoNotOptimize(copy_to.get());
    state.SetIterationTime(conversion);
    best_copy = (std::min)(best_copy, copy);
    best_conversion = (std::min)(best_conversion, conversion);
  }
  state.counters["GB/s"] = static_cast<double>(bytes) / best_conversion * 1e-9;
  state.counters["copy_GB/s"] = static_cast<double>(bytes) / best_copy * 1e-9;
  state.counters["of_copy"] = best_copy / best_conversion;
}

#define HALFSTEP_CONVERSION(From, To)                                                                    \
  BENCHMARK(convert_array<From, To, Stores::automatic>)->UseManualTime()->Unit(benchmark::kMillisecond); \
  BENCHMARK(convert_array<From, To, Stores::cached>)->UseManualTime()->Unit(benchmark::kMillisecond)

HALFSTEP_CONVERSION(float, float16);
HALFSTEP_CONVERSION(float, bfloat16);
HALFSTEP_CONVERSION(float16, float);
HALFSTEP_CONVERSION(bfloat16, float);
HALFSTEP_CONVERSION(float16, bfloat16);
HALFSTEP_CONVERSION(bfloat16, float16);

}  // namespace
