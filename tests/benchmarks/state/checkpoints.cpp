// Saving and loading a run of 1 GiB (master weights and the two moments of AdamW) in the folder that TMPDIR names, or
// /tmp: against writing as many bytes with fsync, as dd conv=fsync does, and against reading the file once, both in blocks
// of 1 MiB. Each is best of its turns; files leave the page cache before they are read.
//
// A background save holds up training for as long as its snapshot takes: against a copy of the bytes into new memory.

#include <benchmark/benchmark.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <halfstep/halfstep.hpp>
#include <halfstep/state/checkpoints.hpp>

#include "benchmarks/against.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace halfstep;

constexpr std::int64_t state_bytes = std::int64_t{1} << 30;
constexpr std::int64_t tensors = 32;
constexpr std::int64_t elements = state_bytes / (3 * 4 * tensors);
constexpr std::size_t block = std::size_t{1} << 20;

struct Weights {
  std::vector<Parameter> all;
  Weights() {
    for (std::int64_t i = 0; i < tensors; ++i) all.emplace_back(Shape{elements}, Initializer::constant(0.5f));
  }
  template <class Visitor>
  void parameters(Visitor&& visit) {
    for (std::size_t i = 0; i < all.size(); ++i) visit("weight" + std::to_string(i), all[i]);
  }
};
using Run = Trainer<Weights, AdamW, Float32Policy>;

Run& run() {
  static Run trainer{Weights{}};
  return trainer;
}

void require(bool holds, const char* call) {
  if (holds) return;
  std::perror(call);
  std::exit(1);
}

void write_plainly(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  require(file >= 0, "open");
  for (std::int64_t done = 0; done < state_bytes; done += static_cast<std::int64_t>(block)) {
    require(::write(file, bytes.data(), block) == static_cast<ssize_t>(block), "write");
  }
  require(::fsync(file) == 0, "fsync");
  ::close(file);
}

void read_plainly(const std::filesystem::path& path, std::vector<std::byte>& bytes) {
  const int file = ::open(path.c_str(), O_RDONLY);
  require(file >= 0, "open");
  while (::read(file, bytes.data(), block) > 0) {
  }
  ::close(file);
}

void leave_page_cache(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  require(file >= 0, "open");
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

void save(benchmark::State& state) {
  const std::vector<std::byte> bytes(block, std::byte{1});
  against::Best best;
  for (auto _ : state) {
    // New files each time: to free a former one's blocks takes as long for both.
    const test::TemporaryFolder folder;
    best.reference = (std::min)(best.reference, against::seconds([&] { write_plainly(folder / "plain", bytes); }));
    Checkpoints checkpoints(folder / "run");
    const double time = against::seconds([&] { checkpoints.save(run()); });
    best.ours = (std::min)(best.ours, time);
    state.SetIterationTime(time);
  }
  state.counters["MB/s"] = state_bytes * 1e-6 / best.ours;
  state.counters["plain_MB/s"] = state_bytes * 1e-6 / best.reference;
  state.counters["of_plain"] = best.reference / best.ours;
}
BENCHMARK(save)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(4);

void load(benchmark::State& state) {
  const test::TemporaryFolder folder;
  std::vector<std::byte> bytes(block);
  Checkpoints checkpoints(folder.path(), {.keep_last = 1});
  checkpoints.save(run());
  const auto path = checkpoints.generations().list().back().path;
  against::Best best;
  for (auto _ : state) {
    leave_page_cache(path);
    best.reference = (std::min)(best.reference, against::seconds([&] { read_plainly(path, bytes); }));
    leave_page_cache(path);
    const double time = against::seconds([&] { benchmark::DoNotOptimize(checkpoints.resume(run())); });
    best.ours = (std::min)(best.ours, time);
    state.SetIterationTime(time);
  }
  state.counters["MB/s"] = state_bytes * 1e-6 / best.ours;
  state.counters["plain_MB/s"] = state_bytes * 1e-6 / best.reference;
  state.counters["of_plain"] = best.reference / best.ours;
}
BENCHMARK(load)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(4);

void save_in_background(benchmark::State& state) {
  const test::TemporaryFolder folder;
  const std::vector<std::byte> bytes(state_bytes, std::byte{1});
  Checkpoints checkpoints(folder.path(), {.keep_last = 1, .background = true});
  against::Best best;
  for (auto _ : state) {
    best.reference = (std::min)(best.reference, against::seconds([&] {
                                  const auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
                                  std::memcpy(copy.get(), bytes.data(), bytes.size());
                                  benchmark::DoNotOptimize(copy.get());
                                }));
    const double time = against::seconds([&] { checkpoints.save(run()); });
    checkpoints.wait();
    best.ours = (std::min)(best.ours, time);
    state.SetIterationTime(time);
  }
  state.counters["stall_ms"] = best.ours * 1e3;
  state.counters["copy_ms"] = best.reference * 1e3;
  state.counters["of_copy"] = best.reference / best.ours;
}
BENCHMARK(save_in_background)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(4);

void checksum(benchmark::State& state) {
  const std::vector<std::byte> bytes(std::size_t{64} << 20, std::byte{1});
  const auto best = against::in_turn(
      state, [&] { benchmark::DoNotOptimize(crc32(bytes)); },
      [&] { benchmark::DoNotOptimize(halfstep::detail::zlib_crc32(bytes, 0)); });
  state.counters["GB/s"] = static_cast<double>(bytes.size()) * 1e-9 / best.ours;
  state.counters["zlib_GB/s"] = static_cast<double>(bytes.size()) * 1e-9 / best.reference;
}
BENCHMARK(checksum)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
