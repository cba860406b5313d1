// The arguments of Trainer are model, optimizer, policy.
// expect: halfstep: the second argument of Trainer must be an optimizer: SGD, Adam, AdamW, or a type of yours
#include <halfstep/optim/sgd.hpp>
#include <halfstep/trainer.hpp>
#include <support/given_gradients.hpp>

using namespace halfstep;

#if defined(HALFSTEP_CONTROL)
using TheTrainer = Trainer<test::GivenGradients, SGD, Float32Policy>;
#else
using TheTrainer = Trainer<test::GivenGradients, Float32Policy, Float32Policy>;
#endif

StepState state_of(const TheTrainer& trainer) { return trainer.state(); }
