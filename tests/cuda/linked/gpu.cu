#include "model.hpp"

static_assert(std::is_same_v<halfstep::DefaultDevice, halfstep::Cuda>);

double trained_on_gpu() {
  using namespace halfstep;
  return train_under<Float32Policy, TensorFloat32Policy, Float16ScaledPolicy, BFloat16Policy>();
}
