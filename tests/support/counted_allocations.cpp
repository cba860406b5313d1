#include "support/counted_allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

#if HALFSTEP_WITH_ONEDNN
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#endif

namespace halfstep::test {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> allocations{0};
std::atomic<std::int64_t> onednn_calls{0};

namespace {

void count() {
  if (counting) ++allocations;
}

void* allocate(std::size_t size, std::size_t alignment) {
  count();
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment + alignment);
}
void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
constexpr std::size_t usual_alignment = alignof(std::max_align_t);

#if HALFSTEP_WITH_ONEDNN
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
#endif

}  // namespace
}  // namespace halfstep::test

void* operator new(std::size_t size) {
  return halfstep::test::allocate_or_throw(size, halfstep::test::usual_alignment);
}
void* operator new[](std::size_t size) {
  return halfstep::test::allocate_or_throw(size, halfstep::test::usual_alignment);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return halfstep::test::allocate(size, halfstep::test::usual_alignment);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return halfstep::test::allocate(size, halfstep::test::usual_alignment);
}
void* operator new(std::size_t size, std::align_val_t to) {
  return halfstep::test::allocate_or_throw(size, std::size_t(to));
}
void* operator new[](std::size_t size, std::align_val_t to) {
  return halfstep::test::allocate_or_throw(size, std::size_t(to));
}
void* operator new(std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return halfstep::test::allocate(size, std::size_t(to));
}
void* operator new[](std::size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
  return halfstep::test::allocate(size, std::size_t(to));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }

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

// In front of the library's, so that exactly these calls are left out and no other.
#if HALFSTEP_WITH_ONEDNN
extern "C" {
dnnl_status_t dnnl_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha,
                         const float* a, dnnl_dim_t lda, const float* b, dnnl_dim_t ldb, float beta, float* c,
                         dnnl_dim_t ldc) {
  static const auto next = reinterpret_cast<decltype(&dnnl_sgemm)>(dlsym(RTLD_NEXT, "dnnl_sgemm"));
  const halfstep::test::NotCounted not_counted;
  ++halfstep::test::onednn_calls;
  return next(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                     const dnnl_exec_arg_t* arguments) {
  static const auto next =
      reinterpret_cast<decltype(&dnnl_primitive_execute)>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  const halfstep::test::NotCounted not_counted;
  ++halfstep::test::onednn_calls;
  return next(primitive, stream, count, arguments);
}
}
#endif
