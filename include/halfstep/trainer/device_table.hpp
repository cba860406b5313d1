#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <halfstep/device/buffer.hpp>

namespace halfstep::detail {

/// An array of the program as kernels read it: the array itself where device and program share their memory, else a
/// copy, made again only when the array has changed.
template <class T, Device D>
class DeviceTable {
 public:
  static_assert(std::has_unique_object_representations_v<T> || std::is_trivially_copyable_v<T>);

  /// For kernels that are started before the next call. Requires an array that stays where it is, of a size that stays.
  const T* show(D& device, std::span<const T> values) {
    if constexpr (D::shares_host_memory) {
      return values.data();
    } else {
      if (copy_.size() != static_cast<std::int64_t>(values.size())) {
        copy_ = Buffer<T, D>(device, static_cast<std::int64_t>(values.size()));
        shown_.clear();
      }
      const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
      if (!std::equal(bytes, bytes + values.size_bytes(), shown_.begin(), shown_.end())) {
        device.upload(copy_.data(), values.data(), values.size_bytes());
        shown_.assign(bytes, bytes + values.size_bytes());
      }
      return copy_.data();
    }
  }
  /// The same for an array that never changes.
  const T* show_once(D& device, std::span<const T> values) {
    if (!D::shares_host_memory && !shown_.empty()) return copy_.data();
    return show(device, values);
  }

  std::size_t bytes() const { return copy_.bytes(); }

 private:
  Buffer<T, D> copy_;
  std::vector<unsigned char> shown_;
};

}  // namespace halfstep::detail
