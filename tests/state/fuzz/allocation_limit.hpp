#pragma once

// Include it in one unit of a program: it defines the sanitizer's hooks.

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace halfstep::test {

/// While one of these is alive, the program stops at a single request for more than `largest` bytes, and when
/// more than `together` bytes are held that were requested meanwhile. For fuzzers: AddressSanitizer reports
/// every allocation, malloc's too. One at a time.
class AllocationLimit {
 public:
  AllocationLimit(std::size_t largest, std::size_t together) { state() = {true, largest, together, 0}; }
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
  ~AllocationLimit() { state().active = false; }

  static void allocated(std::size_t size) {
    State& limit = state();
    if (!limit.active) return;
    limit.held += size;
    if (size <= limit.largest && limit.held <= limit.together) return;
    limit.active = false;
    std::fprintf(stderr, "ALLOCATION LIMIT: %zu bytes requested (limit %zu), %zu held (limit %zu)\n", size,
                 limit.largest, limit.held, limit.together);
    std::abort();
  }
  static void freed(std::size_t size) {
    State& limit = state();
    // What was allocated before the limit began may be freed under it.
    if (limit.active) limit.held -= size < limit.held ? size : limit.held;
  }

 private:
  struct State {
    bool active;
    std::size_t largest, together, held;
  };
  static State& state() {
    static State state{};
    return state;
  }
};

}  // namespace halfstep::test

#if defined(__SANITIZE_ADDRESS__)
#define HALFSTEP_ALLOCATIONS_ARE_REPORTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HALFSTEP_ALLOCATIONS_ARE_REPORTED 1
#endif
#endif

#if defined(HALFSTEP_ALLOCATIONS_ARE_REPORTED)
extern "C" {
std::size_t __sanitizer_get_allocated_size(const volatile void*);
void __sanitizer_malloc_hook(const volatile void* memory, std::size_t size) {
  if (memory != nullptr) halfstep::test::AllocationLimit::allocated(size);
}
void __sanitizer_free_hook(const volatile void* memory) {
  if (memory != nullptr) halfstep::test::AllocationLimit::freed(__sanitizer_get_allocated_size(memory));
}
}
#endif
