#pragma once

#include <halfstep/device/forbidden_memory.hpp>

namespace halfstep::test {

/// Whether this is the flavour asan, which takes twenty times as long. A test that tries every one of many values, all
/// on the same way through the code, does so in the flavour plain, which every file that names this is built in; here,
/// where accesses are checked rather than results, a few on each way do.
#if defined(HALFSTEP_ADDRESS_SANITIZER)
inline constexpr bool under_sanitizers = true;
#else
inline constexpr bool under_sanitizers = false;
#endif

}  // namespace halfstep::test
