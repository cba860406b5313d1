#include "model.hpp"

static_assert(std::is_same_v<halfstep::DefaultDevice, halfstep::Cuda>);

double float_on_gpu() {
  return train_under<halfstep::Float32Policy, halfstep::TensorFloat32Policy, halfstep::Float16ScaledPolicy>();
}
