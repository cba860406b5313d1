#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace halfstep::detail {

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a bijection of 64 bits.
constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Tells one content from another: 64 bits over any number of pieces, their lengths included. Not meant to
/// withstand people who look for two contents with one hash.
class ContentHash {
 public:
  ContentHash& add(std::span<const std::byte> bytes) {
    std::size_t i = 0;
    for (; i + sizeof(std::uint64_t) <= bytes.size(); i += sizeof(std::uint64_t))
      add_word(bytes.data() + i, 8);
    if (i < bytes.size()) add_word(bytes.data() + i, bytes.size() - i);
    return add(bytes.size());
  }
  template <class T>
  ContentHash& add(std::span<const T> values) {
    return add(std::as_bytes(values));
  }
  ContentHash& add(std::uint64_t number) {
    state_ = mix_bits(state_ ^ number) + 0x9e3779b97f4a7c15U;
    return *this;
  }

  /// 16 hexadecimal digits.
  std::string text() const {
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[state_ >> shift & 15];
    return digits;
  }

 private:
  void add_word(const std::byte* bytes, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, size);
    add(word);
  }

  std::uint64_t state_ = 0;
};

}  // namespace halfstep::detail
