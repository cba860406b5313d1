#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <halfstep/device/cuda_error.hpp>

namespace halfstep::detail {

/// Page-locked memory of the program, which a GPU reads and writes while the program goes on.
class CudaPinned {
 public:
  explicit CudaPinned(std::size_t bytes) : bytes_(bytes) {
    check_cuda(cudaHostAlloc(&memory_, bytes, cudaHostAllocDefault), "cudaHostAlloc", {{"bytes", bytes}});
  }
  CudaPinned(const CudaPinned&) = delete;
  CudaPinned& operator=(const CudaPinned&) = delete;
  ~CudaPinned() { (void)cudaFreeHost(memory_); }

  void* data() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
};

/// A point in a stream that the program can ask about and wait for.
class CudaEvent {
 public:
  CudaEvent() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() { (void)cudaEventDestroy(event_); }

  void record(cudaStream_t stream) { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Has the stream passed the point? True where nothing was recorded.
  bool has_passed() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // an answer, and no error for the program's own kernels to find
      return false;
    }
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  void wait() const { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Page-locked pieces that uploads go through, so that they do not wait: each is used again once the copy out of it is
/// done. Holds as many pieces as copies were ever under way at a time; of the largest only so many, and where all of
/// them are under way the next upload waits for one.
class CudaStaging {
 public:
  static constexpr std::size_t largest_piece = std::size_t{8} << 20;

  struct Piece {
    explicit Piece(std::size_t bytes) : memory(bytes) {}
    CudaPinned memory;
    CudaEvent copied;
    /// Filled, and its copy not yet given.
    bool is_held = false;
  };

  /// Whether more may be filled before those that are held were let go.
  bool has_room(std::size_t bytes) const {
    return held_bytes() + rounded(bytes) <= most_of_the_largest * largest_piece;
  }
  /// A piece with these bytes, held until the copy out of it was given. Requires has_room.
  Piece& fill(const void* from, std::size_t bytes) {
    Piece& piece = free_piece(rounded(bytes));
    std::memcpy(piece.memory.data(), from, bytes);
    piece.is_held = true;
    return piece;
  }
  /// The copies out of all pieces that are held were given to the stream.
  void let_go(cudaStream_t stream) {
    for (const auto& piece : pieces_) {
      if (!piece->is_held) continue;
      piece->copied.record(stream);
      piece->is_held = false;
    }
  }

  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto& piece : pieces_) total += piece->memory.bytes();
    return total;
  }

 private:
  static constexpr std::size_t most_of_the_largest = 8;

  static std::size_t rounded(std::size_t bytes) {
    std::size_t rounded = 4096;
    while (rounded < bytes) rounded *= 2;
    return rounded;
  }
  std::size_t held_bytes() const {
    std::size_t total = 0;
    for (const auto& piece : pieces_) total += piece->is_held ? piece->memory.bytes() : 0;
    return total;
  }

  /// One of exactly this size, so that it is not missed elsewhere: the first that is free, else a new one, else the
  /// first that is not held.
  Piece& free_piece(std::size_t bytes) {
    std::size_t alike = 0;
    Piece* busy = nullptr;
    for (const auto& piece : pieces_) {
      if (piece->memory.bytes() != bytes) continue;
      ++alike;
      if (piece->is_held) continue;
      if (piece->copied.has_passed()) return *piece;
      if (busy == nullptr) busy = piece.get();
    }
    if (bytes == largest_piece && alike == most_of_the_largest) {
      busy->copied.wait();
      return *busy;
    }
    pieces_.push_back(std::make_unique<Piece>(bytes));
    return *pieces_.back();
  }

  std::vector<std::unique_ptr<Piece>> pieces_;
};

}  // namespace halfstep::detail
