#pragma once

#include <sys/mman.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>

namespace halfstep::test {

/// Room for very many zeros, of which only what is touched takes memory. Nothing where the system refuses so
/// much address space: a test then says so and ends.
template <class T>
class SparseMemory {
 public:
  explicit SparseMemory(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) data_ = static_cast<T*>(memory);
    BOOST_WARN_MESSAGE(data_ != nullptr, "no address space for " << bytes_ << " bytes: not tested");
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  T* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }
  T& operator[](std::int64_t i) const { return data_[i]; }

 private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

}  // namespace halfstep::test
