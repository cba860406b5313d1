#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HALFSTEP_TEST_UNDER_SANITIZERS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HALFSTEP_TEST_UNDER_SANITIZERS 1
#endif

namespace halfstep::test {

/// Whether this is the flavour asan, which takes twenty times as long. A test that tries every one of many values, all on
/// the same way through the code, does so in the flavour plain; here, where accesses are checked rather than results, a
/// few on each way do.
#if defined(HALFSTEP_TEST_UNDER_SANITIZERS)
inline constexpr bool under_sanitizers = true;
#else
inline constexpr bool under_sanitizers = false;
#endif

}  // namespace halfstep::test
