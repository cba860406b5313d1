#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <halfstep/device/byte_count.hpp>
#include <halfstep/device/device.hpp>

namespace halfstep {

/// Memory for what lives as long as one forward and backward pass: handed out by moving an offset, given back all
/// at once by `reset`. It grows while it is cold; the reset after that makes one block of the size that was needed,
/// and from then on a pass of that size allocates nothing.
template <Device D>
class Arena {
 public:
  explicit Arena(D& device) : device_(&device) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { release(); }

  /// Uninitialised memory for `count` values, aligned to the device's alignment, valid until `reset`. Throws
  /// DeviceError where there is none.
  template <class T>
  T* allocate(std::int64_t count) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                  "an arena runs no constructors and no destructors");
    return static_cast<T*>(allocate_bytes(detail::byte_count<T>(count)));
  }

  /// Takes back everything handed out. Blocks are merged, so that the next pass of this size finds one block.
  void reset() {
    peak_ = (std::max)(peak_, used_);
    if (blocks_.size() > 1) {
      release();
      add_block(used_);
    }
    used_ = 0;
    offset_ = 0;
  }

  std::size_t capacity() const {
    std::size_t total = 0;
    for (const Block& block : blocks_) total += block.bytes;
    return total;
  }
  /// Bytes handed out since the last reset, and the most there ever were.
  std::size_t used() const { return used_; }
  std::size_t peak() const { return (std::max)(peak_, used_); }

 private:
  struct Block {
    void* memory;
    std::size_t bytes;
  };
  static constexpr std::size_t smallest_block = std::size_t{1} << 20;

  void* allocate_bytes(std::size_t bytes) {
    const std::size_t rounded = (bytes + D::alignment - 1) / D::alignment * D::alignment;
    if (blocks_.empty() || offset_ + rounded > blocks_.back().bytes) {
      add_block((std::max)({rounded, capacity(), smallest_block}));
      offset_ = 0;
    }
    void* memory = static_cast<std::byte*>(blocks_.back().memory) + offset_;
    offset_ += rounded;
    used_ += rounded;
    return memory;
  }
  void add_block(std::size_t bytes) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back({device_->allocate(bytes), bytes});
  }
  void release() {
    for (const Block& block : blocks_) device_->deallocate(block.memory);
    blocks_.clear();
  }

  D* device_;
  std::vector<Block> blocks_;
  std::size_t offset_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace halfstep
