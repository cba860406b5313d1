#include "model.hpp"

double sixteen_bits_on_gpu() { return train_under<halfstep::Float16ScaledPolicy, halfstep::BFloat16Policy>(); }
