#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <halfstep/device/byte_count.hpp>
#include <halfstep/device/device.hpp>

namespace halfstep {

/// Owns `size` elements of device memory, zero at the start unless asked otherwise. Move-only; the device must outlive it.
template <class T, Device D>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "device memory holds trivially copyable values");

 public:
  Buffer() = default;
  Buffer(D& device, std::int64_t size) : Buffer(uninitialized(device, size)) { clear(); }
  /// For those who write every element before it is read.
  static Buffer uninitialized(D& device, std::int64_t size) {
    Buffer buffer;
    buffer.data_ = static_cast<T*>(device.allocate(detail::byte_count<T>(size)));
    buffer.device_ = &device;
    buffer.size_ = size;
    return buffer;
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (device_ != nullptr) device_->deallocate(data_);
  }

  T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(T); }
  void clear() {
    if (device_ != nullptr) device_->clear(data_, bytes());
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  D* device_ = nullptr;
  T* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace halfstep
