#pragma once

#include <cstdint>
#include <halfstep/data/hash.hpp>
#include <halfstep/error.hpp>
#include <string>

namespace halfstep {

/// A pseudo-random order of 0 .. size-1 that needs no memory of itself: position i is computed when it is
/// asked for, in any order. A keyed Feistel network over the next even number of bits, walked along its cycle
/// until it lands inside the range (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002). Expected
/// cost: fewer than four walks.
class Permutation {
 public:
  /// Throws ConfigurationError for a negative size.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch) : size_(size) {
    if (size < 0) throw ConfigurationError("a permutation of " + std::to_string(size) + " elements");
    const auto elements = static_cast<std::uint64_t>(size);
    while (half_bits_ < 31 && (std::uint64_t{1} << (2 * half_bits_)) < elements) ++half_bits_;
    std::uint64_t key = detail::mix_bits(seed ^ detail::mix_bits(epoch + 0x9e3779b97f4a7c15U));
    for (std::uint64_t& round : keys_) round = key = detail::mix_bits(key);
  }

  std::int64_t size() const { return size_; }

  /// The element at a position in [0, size).
  std::int64_t operator[](std::int64_t position) const {
    auto value = static_cast<std::uint64_t>(position);
    do {
      value = encrypt(value);
    } while (value >= static_cast<std::uint64_t>(size_));
    return static_cast<std::int64_t>(value);
  }

 private:
  static constexpr int rounds = 6;

  std::uint64_t encrypt(std::uint64_t value) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t next = left ^ (detail::mix_bits(right + key) & mask);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  std::int64_t size_;
  int half_bits_ = 1;
  std::uint64_t keys_[rounds] = {};
};

}  // namespace halfstep
