#pragma once

#include <cstdint>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep {

/// How a window's gradients are scaled and brought back. The gradient of a window is that of the mean loss
/// over all its valid samples, whose number is known only when the window closes. Until then its buffers hold
///
///     (scale / normalizer) * sum over the valid samples seen so far of d loss / d w
///
/// and the division by the number of samples is part of unscaling. The normalizer is fixed by the first
/// micro-batch: the power of two next below its valid samples. Being a power of two it costs no bit; being
/// close to their number it gives the 16-bit gradients the size that those of a mean have, which is what the
/// loss scale is about.

/// 2^floor(log2 n) for n valid samples in the window's first micro-batch that has any; 1 if there are none.
HALFSTEP_HOST_DEVICE constexpr double window_normalizer(std::int64_t first_count) {
  double normalizer = 1;
  for (std::int64_t rest = first_count; rest > 1; rest /= 2) normalizer *= 2;
  return normalizer;
}

/// What the backward pass starts from, per sample: d (scaled loss) / d (loss of one sample).
HALFSTEP_HOST_DEVICE constexpr float loss_seed(float scale, double normalizer) {
  return static_cast<float>(static_cast<double>(scale) / normalizer);
}

/// What turns a window's scaled gradients into those of the mean loss: normalizer / (scale * valid_count), in
/// double and rounded once. With one micro-batch of 2^k samples it is PyTorch's float(1.0 / double(scale)).
/// Requires: a scale that validate(scaler) admits; valid_count >= the count that gave the normalizer.
/// Ensures: greater than zero and finite. (Above scales of 2^126 it is a subnormal float, with fewer bits.)
HALFSTEP_HOST_DEVICE constexpr float inverse_scale(float scale, double normalizer, std::int64_t valid_count) {
  constexpr double smallest_float = 0x1p-149;
  const double count = valid_count > 0 ? static_cast<double>(valid_count) : 1.0;
  const double inverse = normalizer / (static_cast<double>(scale) * count);
  return static_cast<float>(inverse > smallest_float ? inverse : smallest_float);
}

}  // namespace halfstep
