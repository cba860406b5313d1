#pragma once

#include <cstdint>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/math.hpp>
#include <string_view>

/// Random numbers as a pure function of (seed, stream, index): nothing to store but the seed, the same for
/// any number of threads and any order of asking, on host and device.
namespace halfstep {

/// Four random words; also the generator's counter.
struct PhiloxBlock {
  std::uint32_t words[4];
  friend constexpr bool operator==(const PhiloxBlock&, const PhiloxBlock&) = default;
};

struct PhiloxKey {
  std::uint32_t words[2];
};

/// Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
HALFSTEP_HOST_DEVICE constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) noexcept {
  PhiloxBlock block = counter;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xd2511f53u} * block.words[0];
    const std::uint64_t second = std::uint64_t{0xcd9e8d57u} * block.words[2];
    block = {{static_cast<std::uint32_t>(second >> 32) ^ block.words[1] ^ key.words[0],
              static_cast<std::uint32_t>(second),
              static_cast<std::uint32_t>(first >> 32) ^ block.words[3] ^ key.words[1],
              static_cast<std::uint32_t>(first)}};
    key.words[0] += 0x9e3779b9u;
    key.words[1] += 0xbb67ae85u;
  }
  return block;
}

/// Block number `index` of a stream. Streams of one seed, such as the initial values of one parameter
/// (`hash_name` of its name) or the dropout of one update, never meet.
HALFSTEP_HOST_DEVICE constexpr PhiloxBlock random_block(std::uint64_t seed, std::uint64_t stream,
                                                        std::uint64_t index) noexcept {
  const PhiloxBlock counter{{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                             static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
  return philox(counter, {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
}

/// A multiple of 2^-24 in [0, 1), each as likely as the other.
HALFSTEP_HOST_DEVICE constexpr float uniform(std::uint32_t word) noexcept {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
}

/// Two independent numbers of the normal distribution.
struct NormalPair {
  float first;
  float second;
};

/// From two random words by the method of Box and Muller: radius sqrt(-2 ln u), angle 2 pi v. Magnitudes
/// reach 6.6. The bits are the same wherever the compiler does not fuse multiplications with additions.
HALFSTEP_HOST_DEVICE inline NormalPair normal(std::uint32_t radius_word, std::uint32_t angle_word) noexcept {
  // u in (0, 1], the middle of one of 2^31 cells.
  const float u = static_cast<float>(static_cast<std::int32_t>(radius_word >> 1)) * 0x1p-31f + 0x1p-32f;
  const float radius = __builtin_sqrtf(-2.0f * math::log(u));

  // A turn is 2^32 of the word: the nearest quarter turn exactly, and what is left in [-1/8, 1/8) of a turn.
  const std::uint32_t shifted = angle_word + 0x20000000u;
  const std::uint32_t quarter = shifted >> 30;
  const auto rest = static_cast<std::int32_t>(shifted & 0x3fffffffu) - 0x20000000;
  const float angle = static_cast<float>(rest) * (6.28318531f * 0x1p-32f);
  // Cephes' sinf and cosf on [-pi/4, pi/4].
  const float z = angle * angle;
  const float sine = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * angle + angle;
  const float cosine =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z +
      1.0f;

  const bool swapped = (quarter & 1u) != 0;
  const float across = swapped ? sine : cosine;
  const float along = swapped ? cosine : sine;
  const float cosine_sign = quarter == 1 || quarter == 2 ? -1.0f : 1.0f;
  const float sine_sign = quarter >= 2 ? -1.0f : 1.0f;
  return {radius * across * cosine_sign, radius * along * sine_sign};
}

/// 64-bit FNV-1a. Names the random stream of a parameter, so that adding one parameter leaves the others'
/// initial values alone.
constexpr std::uint64_t hash_name(std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char character : name) {
    hash ^= static_cast<unsigned char>(character);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace halfstep
