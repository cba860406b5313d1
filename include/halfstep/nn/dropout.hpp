#pragma once

#include <cstdint>
#include <string>

#include <halfstep/nn/tape.hpp>
#include <halfstep/numeric/philox.hpp>

namespace halfstep {

namespace operation {
struct Dropout : Activation {};
}  // namespace operation

namespace detail {

/// Keeps or drops four elements by one block of random words. The backward pass draws the same words again, so
/// nothing is stored. Works on values going forward and, the same way, on gradients coming back.
template <class T>
struct DropoutFour {
  const T* from;
  T* to;
  std::int64_t size;
  RandomStream random;
  float drop;
  float kept_factor;
  bool accumulate;

  void operator()(std::int64_t four) const {
    const PhiloxBlock block = random_block(random.seed, random.stream, static_cast<std::uint64_t>(four));
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::int64_t i = 4 * four + k;
      if (i >= size) return;
      const float kept = uniform(block.words[k]) < drop ? 0.0f : static_cast<float>(from[i]) * kept_factor;
      to[i] = T(accumulate ? static_cast<float>(to[i]) + kept : kept);
    }
  }
};

}  // namespace detail

/// In training, sets each element to zero with probability `drop` and multiplies the others by 1 / (1 - drop)
/// (Srivastava et al., Dropout, 2014, in the inverted form); in inference, the input as it is. Which elements drop
/// depends on the trainer's seed, the number of training passes before and the operation's place in the model: the
/// same on every device and thread count, and after a resume. Throws ConfigurationError unless 0 <= drop < 1.
template <class Tape, class Input>
auto dropout(Tape& tape, const Input& input, float drop) {
  if (!(drop >= 0.0f && drop < 1.0f)) {
    throw ConfigurationError("dropout: the probability is " + std::to_string(drop) +
                             "; it must be at least 0 and less than 1");
  }
  const auto x = tape.variable(input);
  using T = typename decltype(x)::value_type;
  const RandomStream random = tape.next_random_stream();
  if (!tape.recording() || drop == 0.0f) return x;

  const auto y = tape.template allocate<T>(x.shape());
  const float kept_factor = 1.0f / (1.0f - drop);
  const std::int64_t fours = (x.size() + 3) / 4;
  compute::for_each(tape.device(), fours,
                    detail::DropoutFour<T>{x.data(), y.data(), x.size(), random, drop, kept_factor, false});
  return tape.record(operation::Dropout{}, y, x.requires_gradient(),
                     [x, fours, random, drop, kept_factor](Tape& backward, Tensor<const T> gradient) {
                       if (const auto target = backward.gradient_target(x)) {
                         compute::for_each(backward.device(), fours,
                                           detail::DropoutFour<T>{gradient.data(), target.data, x.size(), random, drop,
                                                                  kept_factor, target.accumulate});
                       }
                     });
}

}  // namespace halfstep
