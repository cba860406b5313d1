#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <vector>

#include "sizes.hpp"

namespace gpt {

/// Floating-point operations a second of a large product of float matrices on this machine: the best of some
/// tries, a tenth of a second in all. What a training step's share of the peak is told by, under every
/// policy.
inline double measured_peak() {
  using halfstep::compute::matrix;
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t size = 1024;
  constexpr int tries = 3;
  halfstep::Host host;
  const std::vector<float> a(size * size, 0.5f), b(size * size, 0.25f);
  std::vector<float> c(size * size);
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    const auto start = Clock::now();
    halfstep::compute::matmul(host, matrix(a.data(), size, size), matrix(b.data(), size, size),
                              matrix(c.data(), size, size));
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
