// An update takes true gradients.
// expect: halfstep: apply needs unscaled gradients; write `trainer.apply(std::move(scaled).unscale())`
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <support/given_gradients.hpp>
#include <utility>

using TheTrainer = halfstep::Trainer<halfstep::test::GivenGradients, halfstep::SGD, halfstep::Float16ScaledPolicy>;

void update(TheTrainer& trainer) {
  auto scaled = trainer.close_window();
#if defined(HALFSTEP_CONTROL)
  trainer.apply(std::move(scaled).unscale());
#else
  trainer.apply(std::move(scaled));
#endif
}
