// Applying a window gives its gradients up, so that they cannot be applied once more.
// expect: halfstep: a window is applied once, and its gradients are given up by it; write
// expect: `trainer.apply(std::move(unscaled))`
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <support/given_gradients.hpp>
#include <utility>

using TheTrainer = halfstep::Trainer<halfstep::test::GivenGradients, halfstep::SGD, halfstep::Float16ScaledPolicy>;

void update(TheTrainer& trainer) {
  auto unscaled = trainer.close_window().unscale();
#if defined(HALFSTEP_CONTROL)
  trainer.apply(std::move(unscaled));
#else
  trainer.apply(unscaled);
  trainer.apply(unscaled);
#endif
}
