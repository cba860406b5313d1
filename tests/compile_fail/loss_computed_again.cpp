// What is computed again has one result whose gradient comes back: a loss is computed from it, outside.
// expect: halfstep: the function of recompute must return one variable; compute a loss after it
#include <cstdint>
#include <halfstep/nn/cross_entropy.hpp>
#include <halfstep/nn/gelu.hpp>
#include <halfstep/nn/recompute.hpp>

using TheTape = halfstep::Tape<halfstep::Float32Policy, halfstep::Host>;

halfstep::Loss loss(TheTape& tape, const halfstep::Variable<float>& x,
                    halfstep::Tensor<const std::int32_t> labels) {
#if defined(HALFSTEP_CONTROL)
  const auto y = halfstep::recompute(tape, x, [](auto& t, const auto& v) { return halfstep::gelu(t, v); });
  return halfstep::cross_entropy(tape, y, labels);
#else
  halfstep::recompute(tape, x, [labels](auto& t, const auto& v) {
    return halfstep::cross_entropy(t, halfstep::gelu(t, v), labels);
  });
  return {};
#endif
}
