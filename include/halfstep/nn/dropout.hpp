#pragma once

#include <cstdint>
#include <string>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/nn/tape.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/philox.hpp>
#include <halfstep/numeric/simd.hpp>

namespace halfstep {

namespace operation {
/// Works in the type of its input whatever the policy says, and so belongs to no group.
struct Dropout {};
}  // namespace operation

namespace detail {

/// Keeps or drops one chunk of elements, four by each block of random words. The backward pass draws the same words
/// again, so nothing is stored. Works on values going forward and, the same way, on gradients coming back.
template <class T>
struct DropoutChunk {
  const T* from;
  T* to;
  std::int64_t size;
  RandomStream random;
  float drop;
  float kept_factor;
  bool accumulate;

  static constexpr std::int64_t fours = 64;
  static_assert(compute::chunk_size % (4 * fours) == 0);

  void operator()(std::int64_t chunk) const {
    const std::int64_t begin = chunk * compute::chunk_size;
    const std::int64_t end = begin + compute::chunk_size < size ? begin + compute::chunk_size : size;
    for (std::int64_t i = begin; i < end; i += 4 * fours) {
      keep_or_drop(i, end - i < 4 * fours ? end - i : 4 * fours);
    }
  }

  std::int64_t team_tasks() const { return (size + compute::warp_elements - 1) / compute::warp_elements; }
  std::int64_t team_width() const { return compute::warp_elements; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const bool aligned = compute::begins_a_four(from) && compute::begins_a_four(to);
    const auto words = [this](std::int64_t i) {
      return random_block(random.seed, random.stream, static_cast<std::uint64_t>(i / 4));
    };
    const auto on_four = [&](std::int64_t i) {
      const PhiloxBlock block = words(i);
      const auto source = compute::load_four(from + i);
      auto result = source;
      if (accumulate) result = compute::load_four(to + i);
      for (int k = 0; k < 4; ++k) keep_or_drop(block.words[k], source.of[k], result.of[k]);
      compute::store_four(to + i, result);
    };
    const auto on_rest = [&](std::int64_t i, std::int64_t count) {
      const PhiloxBlock block = words(i);
      for (std::int64_t k = 0; k < count; ++k) keep_or_drop(block.words[k], from[i + k], to[i + k]);
    };
    compute::for_each_four(team, task * compute::warp_elements, size, aligned, on_four, on_rest);
  }

 private:
  HALFSTEP_HOST_DEVICE void keep_or_drop(std::uint32_t word, const T& value, T& result) const {
    const float factor = uniform(word) < drop ? 0.0f : kept_factor;
    if (accumulate) {
      add(factor, value, result);
    } else {
      set(factor, value, result);
    }
  }

  void keep_or_drop(std::int64_t begin, std::int64_t count) const {
    float factors[4 * fours];
    const RandomStream stream = random;
    const float limit = drop, factor = kept_factor;
    for (std::int64_t four = 0; four < fours; ++four) {
      const PhiloxBlock block =
          random_block(stream.seed, stream.stream, static_cast<std::uint64_t>(begin / 4 + four));
      for (int k = 0; k < 4; ++k) factors[4 * four + k] = uniform(block.words[k]) < limit ? 0.0f : factor;
    }
    const T* const source = from + begin;
    T* const target = to + begin;
    if (accumulate) {
      HALFSTEP_SIMD
      for (std::int64_t i = 0; i < count; ++i) add(factors[i], source[i], target[i]);
    } else {
      HALFSTEP_SIMD
      for (std::int64_t i = 0; i < count; ++i) set(factors[i], source[i], target[i]);
    }
  }

  // A dropped infinity is zero, not NaN: the factor chooses, by its bits, before it multiplies.
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE static float kept(float factor, float value) {
    const std::uint32_t mask = mask_if_less(0u, bits_of(factor));
    return float_of(bits_of(value) & mask) * factor;
  }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE static void set(float factor, const T& value, T& result) {
    result = T(kept(factor, static_cast<float>(value)));
  }
  HALFSTEP_INLINE HALFSTEP_HOST_DEVICE static void add(float factor, const T& value, T& result) {
    result = T(static_cast<float>(result) + kept(factor, static_cast<float>(value)));
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
  const std::int64_t chunks = (x.size() + compute::chunk_size - 1) / compute::chunk_size;
  compute::for_each_chunk(tape.device(), chunks,
                          detail::DropoutChunk<T>{x.data(), y.data(), x.size(), random, drop, kept_factor, false});
  return tape.record(operation::Dropout{}, y, x.requires_gradient(),
                     [x, chunks, random, drop, kept_factor](Tape& backward, Tensor<const T> gradient) {
                       if (const auto target = backward.gradient_target(x)) {
                         compute::for_each_chunk(backward.device(), chunks,
                                                 detail::DropoutChunk<T>{gradient.data(), target.data, x.size(), random,
                                                                         drop, kept_factor, target.accumulate});
                       }
                     });
}

}  // namespace halfstep
