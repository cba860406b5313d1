#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace halfstep::detail {

/// One lazily built object per type, owned by the device that asks. Caches and scratch memory of the floors above
/// live here, so that the library needs no global and a device knows nothing of who computes on it.
class Services {
 public:
  /// The one `Service` of this store, default-constructed at the first call. The reference stays valid for the
  /// life of the store.
  template <class Service>
  Service& get() {
    for (const Entry& entry : entries_) {
      if (entry.key == key<Service>()) return *static_cast<Service*>(entry.object.get());
    }
    entries_.push_back({key<Service>(), std::make_shared<Service>(), &bytes_of<Service>});
    return *static_cast<Service*>(entries_.back().object.get());
  }

  /// What the services hold, by their own account: a service without `bytes()` counts as nothing.
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const Entry& entry : entries_) total += entry.bytes(entry.object.get());
    return total;
  }

 private:
  struct Entry {
    const void* key;
    std::shared_ptr<void> object;
    std::size_t (*bytes)(const void*);
  };

  template <class Service>
  static std::size_t bytes_of(const void* object) {
    if constexpr (requires(const Service& service) { service.bytes(); }) {
      return static_cast<const Service*>(object)->bytes();
    } else {
      return 0;
    }
  }

  template <class Service>
  static const void* key() {
    static const char identity = 0;
    return &identity;
  }

  std::vector<Entry> entries_;
};

}  // namespace halfstep::detail
