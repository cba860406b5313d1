// gpu_figures <part> [<JSON file>]: device (which GPU, driver and libraries), passes, products or training.
// Prints lines for the table of gpu_check.sh. Ends with 0 where all goals are reached, 77 where there is no
// GPU.
#include <cublasLt.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <halfstep/version.hpp>
#include <map>

#include "passes.hpp"
#include "products.hpp"
#include "training.hpp"

namespace {

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void device(figures::Report& report) {
  const halfstep::Cuda cuda;
  cudaDeviceProp properties{};
  halfstep::detail::check_cuda(cudaGetDeviceProperties(&properties, cuda.options().device),
                               "cudaGetDeviceProperties");
  int driver = 0, runtime = 0;
  halfstep::detail::check_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  halfstep::detail::check_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const std::string text = fmt::format(
      "{}, compute capability {}.{}, {} multiprocessors, {:.0f} GiB; driver for CUDA {}, CUDA runtime {}, "
      "cuBLASLt {}",
      properties.name, properties.major, properties.minor, properties.multiProcessorCount,
      static_cast<double>(properties.totalGlobalMem) / (1 << 30),
      version_text(static_cast<std::size_t>(driver)), version_text(static_cast<std::size_t>(runtime)),
      cublasLtGetVersion());
  report.tell("device", text, {{"text", text}});
}

}  // namespace

int main(int count, char** words) {
  const std::map<std::string, void (*)(figures::Report&)> parts{{"device", device},
                                                                {"passes", figures::passes},
                                                                {"products", figures::products},
                                                                {"training", figures::training}};
  const auto part = count == 2 || count == 3 ? parts.find(words[1]) : parts.end();
  if (part == parts.end()) {
    fmt::print(stderr, "usage: gpu_figures device | passes | products | training [JSON file]\n");
    return 2;
  }
  figures::Report report;
  int status = 0;
  try {
    part->second(report);
    status = report.is_good() ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_figures {}: {}\n", part->first, error.what());
    // Where there is no GPU the error says so, and nothing was measured.
    const bool is_without_gpu = std::string(error.what()).find("there is no NVIDIA GPU") != std::string::npos;
    status = is_without_gpu ? 77 : 1;
  }
  if (count == 3 && status != 77) {
    std::ofstream file(words[2]);
    file << report.json().dump(2) << '\n';
    if (!file.flush()) {
      fmt::print(stderr, "gpu_figures {}: {} could not be written\n", part->first, words[2]);
      status = 1;
    }
  }
  return status;
}
