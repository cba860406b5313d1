// A training step of the example gpt's GPT-2 (loss, gradients, clipping, AdamW) under each policy, beside the same step in
// PyTorch, both in turn: of_pytorch is how many times as fast. Where there is no PyTorch that figure is missing;
// HALFSTEP_PYTHON in the environment names a Python that has it.
//
//   MB, pytorch_MB   by how much the process grew at most since the model was made
//   of_peak          the model's operations in a second, attention's full square counted, over those of a large float product
//
// Names are gpt<type>/tokens of a sequence/width. With --plot=FOLDER the float32 times against both are drawn there.

#include <benchmark/benchmark.h>

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <halfstep/evidence/detail/svg_chart.hpp>
#include <halfstep/halfstep.hpp>

#include "benchmarks/against.hpp"
#include "benchmarks/pytorch_peer.hpp"
#include "examples/gpt/model.hpp"
#include "examples/gpt/speed.hpp"

namespace {

using namespace halfstep;

constexpr std::int64_t sequences = 8;

struct Batch {
  Tensor<const std::int32_t> inputs, targets;
};

/// Of this process, in bytes: a line of /proc/self/status.
double memory(const std::string& line) {
  std::ifstream status("/proc/self/status");
  for (std::string text; std::getline(status, text);) {
    if (text.starts_with(line + ":")) return 1024.0 * std::stod(text.substr(line.size() + 1));
  }
  return 0;
}
void forget_peak() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

int threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/// What is drawn: milliseconds of a step, this library's and PyTorch's, at one width and at one length.
constexpr std::int64_t one_length = 256, one_width = 256;
struct Curves {
  std::vector<detail::ChartPoint> ours, pytorch;
};
Curves against_length, against_width;

void remember(Curves& curves, std::int64_t x, const against::Best& best, bool with_pytorch) {
  curves.ours.push_back({static_cast<double>(x), best.ours * 1e3});
  if (with_pytorch) curves.pytorch.push_back({static_cast<double>(x), best.reference * 1e3});
}

void draw(const std::string& path, Curves curves, const std::string& title, const std::string& x_name) {
  detail::Chart chart{.title = title, .mark_name = {}, .series = {}, .x_name = x_name};
  std::string legend;
  double place = 76;
  for (auto& [name, line] : {std::pair{"halfstep", &curves.ours}, std::pair{"PyTorch", &curves.pytorch}}) {
    if (line->empty()) continue;
    std::sort(line->begin(), line->end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    legend += fmt::format("<text x=\"{}\" y=\"44\" style=\"fill:{}\">{}</text>\n", place,
                          detail::color_of(chart.series.size()), name);
    place += 80;
    chart.series.push_back({name, *line, *line});
  }
  std::string text = detail::SvgChart(chart).text();
  text.insert(text.find('>') + 1,
              "\n<title>" + title + "</title>\n<style>text { font: 12px sans-serif; fill: #555 } "
              ".grid { stroke: #ddd }</style>\n" + legend);
  text.insert(text.find("<svg") + 4, " xmlns=\"http://www.w3.org/2000/svg\"");
  std::ofstream(path) << text;
}

template <class Policy>
void gpt_step(benchmark::State& state) {
  const gpt::ModelSizes sizes{.width = state.range(1), .heads = 8, .context = state.range(0)};
  forget_peak();
  const double before = memory("VmRSS");
  Trainer<gpt::Model, AdamW, Policy> trainer(gpt::Model(sizes), AdamW{.learning_rate = 1e-3f}, {.clip_norm = 1.0f});
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequences * (sizes.context + 1)));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 2654435761U >> 7 & 255);
  const Shape shape{sequences, sizes.context};
  const Batch batch{{tokens.data(), shape}, {tokens.data() + sequences, shape}};
  const auto step = [&] { benchmark::DoNotOptimize(trainer.step(batch).report()); };
  step();

  against::PyTorchPeer pytorch(
      "gpt_step.py", {std::string(Policy::name), std::to_string(sizes.layers), std::to_string(sizes.width),
                      std::to_string(sizes.heads), std::to_string(sizes.context), std::to_string(sequences),
                      std::to_string(sizes.vocabulary), std::to_string(threads())});
  against::Best best;
  for (auto _ : state) {
    if (pytorch) best.reference = (std::min)(best.reference, pytorch.ask("step"));
    const double time = against::seconds(step);
    best.ours = (std::min)(best.ours, time);
    state.SetIterationTime(time);
  }
  if (std::is_same_v<Policy, Float32Policy>) {
    if (sizes.width == one_width) remember(against_length, sizes.context, best, bool(pytorch));
    if (sizes.context == one_length) remember(against_width, sizes.width, best, bool(pytorch));
  }
  const double grown = memory("VmHWM") - before;
  std::int64_t in_products = 0;
  for (const ParameterInfo& parameter : trainer.parameters()) {
    if (parameter.shape.rank() == 2 && parameter.name != "wpe.weight") in_products += parameter.shape.size();
  }
  const auto count = static_cast<double>(sequences * sizes.context);
  state.counters["ms"] = best.ours * 1e3;
  state.counters["tokens/s"] = count / best.ours;
  state.counters["of_peak"] =
      count * gpt::operations_per_token(sizes, in_products, sizes.context) / best.ours / gpt::measured_peak<Host>();
  state.counters["MB"] = grown * 1e-6;
  if (!pytorch) return;
  state.counters["pytorch_ms"] = best.reference * 1e3;
  state.counters["of_pytorch"] = best.reference / best.ours;
  state.counters["pytorch_MB"] = pytorch.ask("memory") * 1e-6;
}

void one(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({one_length, one_width})->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(4);
}
/// Against the length at one width, against the width at one length.
void all(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t tokens : {64, 128, 256, 512, 1024}) benchmark->Args({tokens, one_width});
  for (const std::int64_t width : {64, 128, 512}) benchmark->Args({one_length, width});
  benchmark->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);
}
BENCHMARK(gpt_step<Float32Policy>)->Name("gpt<float32>")->Apply(all);
BENCHMARK(gpt_step<BFloat16Policy>)->Name("gpt<bfloat16>")->Apply(one);
BENCHMARK(gpt_step<Float16ScaledPolicy>)->Name("gpt<float16>")->Apply(one);

}  // namespace

int main(int argc, char** argv) {
  const std::string option = "--plot=";
  std::string folder;
  char** const end = std::remove_if(argv + 1, argv + argc, [&](const std::string& argument) {
    if (!argument.starts_with(option)) return false;
    folder = argument.substr(option.size());
    return true;
  });
  argc = static_cast<int>(end - argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  if (folder.empty()) return 0;
  draw(folder + "/gpt-length.svg", against_length, "milliseconds a step against tokens of a sequence", "tokens");
  draw(folder + "/gpt-width.svg", against_width, "milliseconds a step against width", "width");
}
