// In float16, gradients under 2^-24 are zero unless they are scaled. The trainer is where a user meets the rules.
// expect: halfstep policy: float16 compute needs a loss scaler, because gradients under 2^-24 round to
// expect: write `static constexpr DynamicScaler scaler{};`, or compute in bfloat16
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <support/given_gradients.hpp>

using namespace halfstep;

struct Mine : Float16ScaledPolicy {
#if !defined(HALFSTEP_CONTROL)
  static constexpr NoScaler scaler{};
#endif
};

StepState state_of(const Trainer<test::GivenGradients, SGD, Mine>& trainer) { return trainer.state(); }
