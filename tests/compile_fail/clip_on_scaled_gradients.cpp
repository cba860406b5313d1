// While the loss scale is in the gradients, a threshold means another one.
// expect: halfstep: clip_norm needs unscaled gradients, else the threshold is divided by the loss scale
// expect: write `auto unscaled = std::move(scaled).unscale();` and clip that
// expect: halfstep: clip_value needs unscaled gradients, else the threshold is divided by the loss scale
#include <halfstep/scaling/gradients.hpp>
#include <utility>

void clip(halfstep::Gradients<halfstep::Scaled> scaled) {
#if defined(HALFSTEP_CONTROL)
  auto unscaled = std::move(scaled).unscale();
  unscaled.clip_norm(1.0f);
  unscaled.clip_value(0.1f);
#else
  scaled.clip_norm(1.0f);
  scaled.clip_value(0.1f);
#endif
}
