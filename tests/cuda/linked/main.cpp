// One program of two files that nvcc compiles and one that the host's compiler does: it trains on the CPU, and on a GPU
// where there is one. Ends with 0 where it can, and 77 where the only thing missing is a GPU.
#include <cstdio>

#include "model.hpp"

static_assert(std::is_same_v<halfstep::DefaultDevice, halfstep::Host>);

int main() {
  std::printf("host: %g\n", train_under<halfstep::Float32Policy, halfstep::BFloat16Policy>());
  try {
    std::printf("gpu: %g and %g\n", float_on_gpu(), sixteen_bits_on_gpu());
  } catch (const halfstep::DeviceError& error) {
    std::printf("%s\n", error.what());
    return std::string(error.what()).find("there is no NVIDIA GPU") == std::string::npos ? 1 : 77;
  }
}
