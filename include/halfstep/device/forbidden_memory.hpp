#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HALFSTEP_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HALFSTEP_ADDRESS_SANITIZER 1
#endif
#if defined(HALFSTEP_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace halfstep::detail {

/// Under AddressSanitizer: from here on whoever touches this memory is stopped. No effect elsewhere.
inline void forbid([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(HALFSTEP_ADDRESS_SANITIZER)
  __asan_poison_memory_region(memory, bytes);
#endif
}
/// And allowed again.
inline void allow([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(HALFSTEP_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace halfstep::detail
