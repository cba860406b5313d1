// Two files that nvcc compiles and this one, which the host's compiler does: trains on the CPU, and on a GPU where one
// is. Ends with 0 where it can, and 77 where the only thing missing is a GPU.
#include <cstdio>

#include "model.hpp"

static_assert(std::is_same_v<halfstep::DefaultDevice, halfstep::Host>);

int main() {
  std::printf("host: %g\n", train_under<halfstep::Float32Policy, halfstep::BFloat16Policy>());
  try {
    std::printf("gpu: %g\n", trained_on_gpu());
  } catch (const halfstep::DeviceError& error) {
    std::printf("%s\n", error.what());
    return std::string(error.what()).find("there is no NVIDIA GPU") == std::string::npos ? 1 : 77;
  }
}
