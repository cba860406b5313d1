#pragma once

#include <cstdint>
#include <halfstep/numeric/host_device.hpp>

namespace halfstep::detail {

/// All ones where `a < b`, else zero; `a` and `b` not negative. A mask rather than `?:` because compilers
/// turn the latter into branches, move the arithmetic of one side into them, and then no longer vectorise the
/// loop around.
HALFSTEP_HOST_DEVICE constexpr std::uint32_t mask_if_less(std::uint32_t a, std::uint32_t b) noexcept {
  return static_cast<std::uint32_t>((static_cast<std::int32_t>(a) - static_cast<std::int32_t>(b)) >> 31);
}

HALFSTEP_HOST_DEVICE constexpr std::uint32_t select(std::uint32_t mask, std::uint32_t where_set,
                                                    std::uint32_t elsewhere) noexcept {
  return elsewhere ^ ((elsewhere ^ where_set) & mask);
}

}  // namespace halfstep::detail
