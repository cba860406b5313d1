#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include <halfstep/device/cuda.hpp>
#include <halfstep/trainer/step_ticket.hpp>

namespace halfstep::detail {

/// Reports on their way from a GPU: a ring of page-locked records, into which the step's record is copied when the step
/// is done. The program may be as many steps ahead of the GPU as the ring has places.
template <class Record>
class CudaReports {
 public:
  static constexpr std::size_t places = 16;

  explicit CudaReports(Cuda& cuda) : cuda_(&cuda), records_(places * sizeof(Record)) {}

  CudaReports(const CudaReports&) = delete;
  CudaReports& operator=(const CudaReports&) = delete;
  /// Waits for reports that are still under way: they are written into memory that is about to go.
  ~CudaReports() {
    try {
      for (; !empty(); ++heard_) arrived_[heard_ % places].wait();
    } catch (...) {  // the device failed: it writes no more
    }
  }

  bool empty() const { return sent_ == heard_; }
  bool full() const { return sent_ - heard_ == places; }

  /// Requires that the ring is not full.
  std::shared_ptr<PendingReport> send(const Record* record, std::uint64_t first_random_pass) {
    auto pending = std::make_shared<PendingReport>();
    pending->first_random_pass = first_random_pass;
    const std::size_t place = sent_ % places;
    check_cuda(cudaMemcpyAsync(place_of(place), record, sizeof(Record), cudaMemcpyDeviceToHost, cuda_->stream()),
               "cudaMemcpyAsync of a report", {{"bytes", sizeof(Record)}});
    arrived_[place].record(cuda_->stream());
    pending_[place] = pending;
    ++sent_;
    return pending;
  }
  /// Whether the oldest is here. Does not wait. Requires one that was sent.
  bool has_arrived() const { return arrived_[heard_ % places].has_passed(); }
  /// Waits for the oldest and gives it out.
  std::pair<Record, std::shared_ptr<PendingReport>> take() {
    const std::size_t place = heard_ % places;
    if (!has_arrived()) arrived_[place].wait();
    ++heard_;
    return {*place_of(place), std::move(pending_[place])};
  }
  std::int64_t on_the_way() const { return static_cast<std::int64_t>(sent_ - heard_); }

 private:
  Record* place_of(std::size_t place) const { return static_cast<Record*>(records_.data()) + place; }

  Cuda* cuda_;
  CudaPinned records_;
  std::array<CudaEvent, places> arrived_;
  std::array<std::shared_ptr<PendingReport>, places> pending_;
  std::size_t sent_ = 0;
  std::size_t heard_ = 0;
};

}  // namespace halfstep::detail
