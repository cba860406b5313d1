#pragma once

// Counts what is allocated: operator new in all its forms and, on glibc, malloc and its kin, in every thread.
// For one file of a program: it replaces those functions. They are not inlined, lest a compiler compare new
// with free.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define HALFSTEP_TEST_COUNTS_MALLOC 0
#elif defined(__GLIBC__)
#define HALFSTEP_TEST_COUNTS_MALLOC 1
#else
#define HALFSTEP_TEST_COUNTS_MALLOC 0
#endif

namespace halfstep::test {

inline std::atomic<bool> counting{false};
inline std::atomic<std::int64_t> allocations{0};

inline void count() {
  if (counting) ++allocations;
}

inline void* allocate(std::size_t size, std::size_t alignment) {
  count();
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment + alignment);
}
inline void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
inline constexpr std::size_t usual_alignment = alignof(std::max_align_t);

/// Allocations during a call.
template <class Function>
std::int64_t allocations_of(const Function& function) {
  allocations = 0;
  counting = true;
  function();
  counting = false;
  return allocations;
}

/// While it lives, what any thread allocates is not counted.
class NotCounted {
 public:
  NotCounted() : before_(counting.exchange(false)) {}
  NotCounted(const NotCounted&) = delete;
  NotCounted& operator=(const NotCounted&) = delete;
  ~NotCounted() { counting = before_; }

 private:
  bool before_;
};

}  // namespace halfstep::test

[[gnu::noinline]] void* operator new(std::size_t size) {
  return halfstep::test::allocate_or_throw(size, halfstep::test::usual_alignment);
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return halfstep::test::allocate_or_throw(size, halfstep::test::usual_alignment);
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return halfstep::test::allocate(size, halfstep::test::usual_alignment);
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return halfstep::test::allocate(size, halfstep::test::usual_alignment);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t to) {
  return halfstep::test::allocate_or_throw(size, std::size_t(to));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t to) {
  return halfstep::test::allocate_or_throw(size, std::size_t(to));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return halfstep::test::allocate(size, std::size_t(to));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t to,
                                       const std::nothrow_t&) noexcept {
  return halfstep::test::allocate(size, std::size_t(to));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}

#if HALFSTEP_TEST_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) noexcept {
  halfstep::test::count();
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) noexcept {
  halfstep::test::count();
  return __libc_calloc(number, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  halfstep::test::count();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  halfstep::test::count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  halfstep::test::count();
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? 12 : 0;
}
}
#endif
