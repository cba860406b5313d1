#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <halfstep/data/hash.hpp>
#include <halfstep/numeric/traits.hpp>
#include <span>

namespace halfstep {

/// What is kept of a tensor so that another can be held against it: its Euclidean norm, and its products with
/// a few fixed vectors of random signs. The differences of two tensors' products tell how far apart the
/// tensors are (Alon, Matias and Szegedy, "The space complexity of approximating the frequency moments",
/// 1999), which their norms do not: a gradient with its sign turned round has the same norm.
struct TensorSketch {
  static constexpr std::size_t signs = 8;
  double norm = 0;
  std::array<double, signs> products{};

  friend bool operator==(const TensorSketch&, const TensorSketch&) = default;
};

/// Sums in double, in the order of the elements; each is multiplied by `factor` in float first, as unscaling
/// does.
inline TensorSketch sketch_of(std::span<const float> values, float factor = 1.0f) {
  TensorSketch sketch;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i] * factor);
    const std::uint64_t random = detail::mix_bits(i + 1);
    squares += value * value;
    for (std::size_t k = 0; k < TensorSketch::signs; ++k) {
      sketch.products[k] += (random >> k & 1u) != 0 ? value : -value;
    }
  }
  sketch.norm = std::sqrt(squares);
  return sketch;
}

/// About the Euclidean distance of the two tensors: unbiased in its square, within a factor of two nearly
/// always. 0 if all bits of the sketches agree; not finite where a sketch is not.
inline double distance(const TensorSketch& a, const TensorSketch& b) {
  double squares = 0;
  for (std::size_t k = 0; k < TensorSketch::signs; ++k) {
    const double difference = a.products[k] - b.products[k];
    squares += difference * difference;
  }
  const double estimate = std::sqrt(squares / static_cast<double>(TensorSketch::signs));
  const double norms = std::fabs(a.norm - b.norm);
  return estimate > norms || !is_finite(estimate) ? estimate : norms;
}

}  // namespace halfstep
