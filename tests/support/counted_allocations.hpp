#pragma once

// Counts what is allocated: operator new in all its forms and, on glibc, malloc and its kin, in every thread. What
// oneDNN allocates within its own two entry points is not ours and is not counted: it builds its threads' shared state,
// or a primitive's table of arguments, anew in each call. counted_allocations.cpp replaces those functions: one program
// has the files that count, <what>_allocation.cpp.

#include <atomic>
#include <cstdint>

#if defined(__GLIBC__)
#define HALFSTEP_TEST_COUNTS_MALLOC 1
#else
#define HALFSTEP_TEST_COUNTS_MALLOC 0
#endif

namespace halfstep::test {

extern std::atomic<bool> counting;
extern std::atomic<std::int64_t> allocations;
/// Calls of oneDNN's entry points, counted or not.
extern std::atomic<std::int64_t> onednn_calls;

/// Allocations during a call.
template <class Function>
std::int64_t allocations_of(const Function& function) {
  allocations = 0;
  counting = true;
  function();
  counting = false;
  return allocations;
}

}  // namespace halfstep::test
