#pragma once

#include <concepts>
#include <cstdint>

#include <halfstep/data/permutation.hpp>

namespace halfstep {

/// The order of an epoch's samples: `in_epoch(epoch, size)` gives something that maps a position to a sample.
template <class T>
concept SampleOrder = requires(const T& order, std::int64_t epoch, std::int64_t size, std::int64_t position) {
  { order.in_epoch(epoch, size)[position] } -> std::convertible_to<std::int64_t>;
  { order.seed() } -> std::convertible_to<std::uint64_t>;
};

/// A new pseudo-random order every epoch, given by the seed and the epoch's number alone.
class Shuffled {
 public:
  explicit Shuffled(std::uint64_t seed = 0) : seed_(seed) {}
  std::uint64_t seed() const { return seed_; }
  Permutation in_epoch(std::int64_t epoch, std::int64_t size) const {
    return Permutation(size, seed_, static_cast<std::uint64_t>(epoch));
  }

 private:
  std::uint64_t seed_;
};

/// First to last, every epoch.
struct Sequential {
  struct Identity {
    std::int64_t operator[](std::int64_t position) const { return position; }
  };
  std::uint64_t seed() const { return 0; }
  Identity in_epoch(std::int64_t, std::int64_t) const { return {}; }
};

static_assert(SampleOrder<Shuffled> && SampleOrder<Sequential>);

}  // namespace halfstep
