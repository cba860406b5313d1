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
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  void wait() const { check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Uploads that do not wait: the bytes go through page-locked pieces, each of which is used again once the copy out of
/// it is done. Holds as many pieces as copies were ever under way at a time; of the largest only so many, and where all of
/// them are under way the next upload waits for one.
class CudaStaging {
 public:
  void upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    for (; bytes > largest_piece; bytes -= largest_piece) {
      upload(to, from, largest_piece, stream);
      to = static_cast<std::byte*>(to) + largest_piece;
      from = static_cast<const std::byte*>(from) + largest_piece;
    }
    Piece& piece = free_piece(bytes);
    std::memcpy(piece.memory.data(), from, bytes);
    check_cuda(cudaMemcpyAsync(to, piece.memory.data(), bytes, cudaMemcpyHostToDevice, stream),
               "cudaMemcpyAsync to the device", {{"bytes", bytes}});
    piece.copied.record(stream);
  }

  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto& piece : pieces_) total += piece->memory.bytes();
    return total;
  }

 private:
  static constexpr std::size_t largest_piece = std::size_t{8} << 20;
  static constexpr int most_of_the_largest = 8;

  struct Piece {
    explicit Piece(std::size_t bytes) : memory(bytes) {}
    CudaPinned memory;
    CudaEvent copied;
  };

  /// The smallest free piece that is large enough, and not so large that it would be missed elsewhere; else a new one.
  Piece& free_piece(std::size_t bytes) {
    std::size_t rounded = 4096;
    while (rounded < bytes) rounded *= 2;
    int alike = 0;
    for (const auto& piece : pieces_) {
      if (piece->memory.bytes() != rounded) continue;
      if (piece->copied.has_passed()) return *piece;
      ++alike;
    }
    if (rounded == largest_piece && alike == most_of_the_largest) {
      for (const auto& piece : pieces_) {
        if (piece->memory.bytes() != rounded) continue;
        piece->copied.wait();
        return *piece;
      }
    }
    pieces_.push_back(std::make_unique<Piece>(rounded));
    return *pieces_.back();
  }

  std::vector<std::unique_ptr<Piece>> pieces_;
};

}  // namespace halfstep::detail
