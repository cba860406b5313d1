#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <halfstep/device/byte_count.hpp>
#include <halfstep/device/device.hpp>

namespace halfstep {

/// Memory for what lives as long as one forward and backward pass: handed out by moving an offset, given back
/// all at once by `reset`, or from a mark on by `rollback`. It grows while it is cold; the reset after that
/// makes one block of the size that was needed, and from then on a pass of that size allocates nothing.
template <Device D>
class Arena {
 public:
  explicit Arena(D& device) : device_(&device) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { release(); }

  /// Uninitialised memory for `count` values, aligned to the device's alignment, valid until `reset` or until
  /// a `rollback` to an earlier mark. Throws DeviceError where there is none.
  template <class T>
  T* allocate(std::int64_t count) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                  "an arena runs no constructors and no destructors");
    return static_cast<T*>(allocate_bytes(detail::byte_count<T>(count)));
  }

  /// Takes back everything handed out. Blocks are merged, so that the next pass of this size finds one block.
  void reset() {
    const std::size_t needed = (std::max)(pass_peak_, used_);
    peak_ = (std::max)(peak_, needed);
    if (blocks_.size() > 1) {
      release();
      add_block(needed);
    }
    current_ = 0;
    offset_ = 0;
    used_ = 0;
    pass_peak_ = 0;
  }

  /// How much has been handed out: what `rollback` goes back to.
  struct Mark {
    std::size_t block;
    std::size_t offset;
    std::size_t used;
  };
  Mark mark() const { return {current_, offset_, used_}; }

  /// Takes back what was handed out since the mark; no reset may have come between. What lies there stays as
  /// it is until it is handed out again.
  void rollback(const Mark& mark) {
    pass_peak_ = (std::max)(pass_peak_, used_);
    current_ = mark.block;
    offset_ = mark.offset;
    used_ = mark.used;
  }

  /// Does this lie in what was handed out since the mark?
  bool is_since(const Mark& mark, const void* memory) const {
    const auto place = reinterpret_cast<std::uintptr_t>(memory);
    for (std::size_t i = mark.block; i < blocks_.size(); ++i) {
      const auto begin = reinterpret_cast<std::uintptr_t>(blocks_[i].memory);
      const std::size_t first = i == mark.block ? mark.offset : 0;
      if (place >= begin + first && place < begin + blocks_[i].bytes) return true;
    }
    return false;
  }

  std::size_t capacity() const {
    std::size_t total = 0;
    for (const Block& block : blocks_) total += block.bytes;
    return total;
  }
  /// Bytes that are handed out now, and the most that ever were.
  std::size_t used() const { return used_; }
  std::size_t peak() const { return (std::max)({peak_, pass_peak_, used_}); }

 private:
  struct Block {
    void* memory;
    std::size_t bytes;
  };
  static constexpr std::size_t smallest_block = std::size_t{1} << 20;

  void* allocate_bytes(std::size_t bytes) {
    const std::size_t rounded = (bytes + D::alignment - 1) / D::alignment * D::alignment;
    // After a rollback there may be blocks behind the current one; what is too small is passed over.
    while (current_ < blocks_.size() && offset_ + rounded > blocks_[current_].bytes) {
      ++current_;
      offset_ = 0;
    }
    if (current_ == blocks_.size()) add_block((std::max)({rounded, capacity(), smallest_block}));
    void* memory = static_cast<std::byte*>(blocks_[current_].memory) + offset_;
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
  /// Where the next piece is looked for.
  std::size_t current_ = 0;
  std::size_t offset_ = 0;
  std::size_t used_ = 0;
  /// The most that was handed out at a time, since the last reset and before it.
  std::size_t pass_peak_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace halfstep
