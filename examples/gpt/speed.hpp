#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <vector>

#include "sizes.hpp"

namespace gpt {

/// Floating-point operations a second of a large product of float matrices on the device that trains: the best of
/// some tries, a tenth of a second in all. What a training step's share of the peak is told by, under every
/// policy.
template <halfstep::Device D>
double measured_peak() {
  using halfstep::compute::matrix;
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t size = D::shares_host_memory ? 1024 : 4096;
  constexpr int tries = 3;
  D device;
  const std::vector<float> halves(size * size, 0.5f);
  const halfstep::Buffer<float, D> a(device, size * size), b(device, size * size), c(device, size * size);
  device.upload(a.data(), halves.data(), a.bytes());
  device.upload(b.data(), halves.data(), b.bytes());
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    device.synchronize();
    const auto start = Clock::now();
    halfstep::compute::matmul(device, matrix<const float>(a.data(), size, size),
                              matrix<const float>(b.data(), size, size), matrix(c.data(), size, size));
    device.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, 2.0 * size * size * size / seconds);
  }
  return best;
}

/// Operations of forward and backward pass a token: 6 for every weight that takes part in a product, and 12
/// layers width length for attention (Chowdhery et al., PaLM, 2022, appendix B: the half that a causal mask
/// saves is counted).
inline double operations_per_token(const ModelSizes& sizes, std::int64_t weights_in_products,
                                   std::int64_t length) {
  return 6.0 * static_cast<double>(weights_in_products) + 12.0 * static_cast<double>(sizes.layers) *
                                                              static_cast<double>(sizes.width) *
                                                              static_cast<double>(length);
}

}  // namespace gpt
