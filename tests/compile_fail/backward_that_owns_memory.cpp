// What an operation keeps for its backward pass lies in an arena, which runs no destructors.
// expect: must need no destruction: keep views and pointers
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/tape.hpp>

#if !defined(HALFSTEP_CONTROL)
#include <vector>
#endif

using TheTape = halfstep::Tape<halfstep::Float32Policy, halfstep::Host>;

struct Double {};

struct Backward {
#if defined(HALFSTEP_CONTROL)
  halfstep::Tensor<const float> kept;
#else
  std::vector<float> kept;
#endif
  void operator()(TheTape&, halfstep::Tensor<const float>) const {}
};

halfstep::Variable<float> record(TheTape& tape, halfstep::Tensor<float> result) {
  return tape.record(Double{}, result, true, Backward{});
}
