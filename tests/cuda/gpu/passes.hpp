#pragma once

#include <cmath>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/optim/update_pass.hpp>
#include <halfstep/scaling/measure.hpp>

#include "figures.hpp"

/// The passes of a step over the flat buffers, as shares of the bandwidth of a copy on the device: bytes that
/// must be read or written, over time.
namespace figures {

using halfstep::Buffer, halfstep::Cuda;

struct Flat {
  static constexpr std::int64_t size = std::int64_t{128}
                                       << 20;  // parameters: gigabytes, far beyond every cache
  std::vector<halfstep::compute::Segment> segments;
  std::vector<halfstep::compute::SegmentChunk> chunks;

  Flat() {
    // A model's: large matrices, and vectors between them.
    for (std::int64_t offset = 0; offset < size; offset += size / 32) {
      segments.push_back({offset, size / 32 - 4096});
      segments.push_back({offset + size / 32 - 4096, 4096});
    }
    chunks = halfstep::compute::cut_into_chunks(segments);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(chunks.size()); }
};

/// `pass()`, which moves `bytes`, against a copy of as many, read and written together.
template <class Pass>
void compare_with_copy(Cuda& cuda, Report& report, const std::string& name, double bytes, const Pass& pass) {
  const auto half = static_cast<std::int64_t>(bytes / 2);
  const auto from = scattered<float>(cuda, half / 4, 7);
  const Buffer<float, Cuda> to(cuda, half / 4);
  const Times times = in_turn(cuda, 31, 8, pass, [&] { cuda.copy(to.data(), from.data(), to.bytes()); });
  const double rate = bytes * 1e-9 / times.ours, copy_rate = bytes * 1e-9 / times.reference;
  report.compare(name, rate / copy_rate, 0.9,
                 fmt::format("copy bandwidth ({:.0f} of {:.0f} GB/s)", rate, copy_rate),
                 {{"GB/s", rate}, {"copy GB/s", copy_rate}, {"bytes", bytes}, {"seconds", times.ours}});
}

template <class Optimizer, class Compute>
void update_pass(Cuda& cuda, Report& report, const std::string& name) {
  const Flat flat;
  constexpr bool copies = sizeof(Compute) == 2;
  const auto chunks = sent(cuda, flat.chunks);
  const auto flags = sent(cuda, std::vector<std::uint8_t>(flat.segments.size(), 1));
  const auto options = sent(cuda, std::vector<halfstep::ParameterOptions>(flat.segments.size()));
  const auto gradients = scattered<float>(cuda, Flat::size, 1),
             masters = scattered<float>(cuda, Flat::size, 2);
  const Buffer<Compute, Cuda> working(cuda, copies ? Flat::size : 0);
  std::vector<Buffer<float, Cuda>> moments;
  for (std::size_t m = 0; m < Optimizer::moments; ++m) {
    moments.emplace_back(cuda, Flat::size);
    cuda.clear(moments.back().data(), moments.back().bytes());
  }
  const Optimizer optimizer{.learning_rate = 1e-4f};
  const auto facts = sent(cuda, std::vector<halfstep::UpdateFacts<typename Optimizer::Coefficients>>{
                                    {true, 1.0f / 1024.0f, 0.5f, 1e30f, optimizer.coefficients(1e-4f, 10)}});
  halfstep::UpdateChunk<Optimizer, Compute> pass{chunks.data(),
                                                 flags.data(),
                                                 options.data(),
                                                 gradients.data(),
                                                 masters.data(),
                                                 copies ? working.data() : nullptr,
                                                 {},
                                                 facts.data(),
                                                 flat.count()};
  for (std::size_t m = 0; m < moments.size(); ++m) pass.moments[m] = moments[m].data();
  // Gradient, master and moments are read; master, moments and the 16-bit copy are written.
  constexpr double bytes =
      static_cast<double>(Flat::size) * (4 + 8 + 8 * Optimizer::moments + (copies ? 2 : 0));
  compare_with_copy(cuda, report, name, bytes,
                    [&] { halfstep::compute::for_each_chunk(cuda, flat.count(), pass); });
  float weight = 0;
  cuda.download(&weight, masters.data() + Flat::size - 1, sizeof weight);
  report.require(name + ": weights are finite", std::isfinite(weight), fmt::format("the last is {}", weight));
}

inline void measure_pass(Cuda& cuda, Report& report) {
  const Flat flat;
  const auto chunks = sent(cuda, flat.chunks);
  const auto segments = sent(cuda, flat.segments);
  const auto flags = sent(cuda, std::vector<std::uint8_t>(flat.segments.size(), 1));
  const auto inverse = sent(cuda, std::vector<float>{1.0f});
  const auto gradients = scattered<float>(cuda, Flat::size, 3);
  const Buffer<halfstep::MeasurePartial, Cuda> partials(cuda, flat.count());
  const halfstep::MeasureChunk pass{chunks.data(),  segments.data(), flags.data(), gradients.data(),
                                    inverse.data(), partials.data(), flat.count()};
  compare_with_copy(cuda, report, "measure pass", 4.0 * static_cast<double>(Flat::size),
                    [&] { halfstep::compute::for_each_chunk(cuda, flat.count(), pass); });
  std::vector<halfstep::MeasurePartial> found(flat.chunks.size());
  cuda.download(found.data(), partials.data(), partials.bytes());
  double sum = 0;
  for (const auto& partial : found) sum += partial.sum_of_squares;
  // Of numbers spread evenly over [-1, 1) the mean square is a third.
  const double mean = sum / static_cast<double>(Flat::size);
  report.require("measure pass: the mean square is right", std::abs(mean - 1.0 / 3.0) < 1e-3,
                 fmt::format("{:.6f}, expected {:.6f}", mean, 1.0 / 3.0));
}

inline void passes(Report& report) {
  Cuda cuda;
  update_pass<halfstep::AdamW, halfstep::float16>(cuda, report, "update pass, AdamW, float16");
  update_pass<halfstep::AdamW, halfstep::bfloat16>(cuda, report, "update pass, AdamW, bfloat16");
  update_pass<halfstep::AdamW, float>(cuda, report, "update pass, AdamW, float32");
  update_pass<halfstep::SGD, halfstep::float16>(cuda, report, "update pass, SGD, float16");
  measure_pass(cuda, report);
}

}  // namespace figures
