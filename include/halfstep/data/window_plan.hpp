#pragma once

#include <cstdint>
#include <halfstep/error.hpp>
#include <string>

namespace halfstep::detail {

/// Counts a loader's batches into windows. A window ends with its `micro_batches`-th batch, and with the last
/// batch of an epoch unless windows cross epochs: the short last window is neither dropped nor carried into
/// the next epoch.
class WindowPlan {
 public:
  WindowPlan(std::int64_t micro_batches, bool cross_epochs)
      : micro_batches_(micro_batches), cross_epochs_(cross_epochs) {
    if (micro_batches < 1) {
      throw ConfigurationError("loader: micro_batches is " + std::to_string(micro_batches) +
                               "; a window has at least 1");
    }
  }

  bool full() const { return handed_out_ >= micro_batches_; }
  bool cross_epochs() const { return cross_epochs_; }
  /// Of the window that the last batch belongs to.
  std::int64_t handed_out() const { return handed_out_; }

  /// Takes note of a batch handed out, or of none at an epoch's end.
  template <class Batch>
  Batch* count(Batch* batch) {
    if (batch != nullptr) {
      handed_out_ = full() ? 1 : handed_out_ + 1;
    } else if (!cross_epochs_ || full()) {
      handed_out_ = 0;
    }
    return batch;
  }
  void go_on_from(std::int64_t handed_out) { handed_out_ = handed_out; }

  /// The number of windows in so many epochs of so many batches.
  std::int64_t windows(std::int64_t epochs, std::int64_t batches) const {
    return cross_epochs_ ? epochs * batches / micro_batches_ : epochs * ((batches - 1) / micro_batches_ + 1);
  }

 private:
  std::int64_t micro_batches_;
  bool cross_epochs_;
  std::int64_t handed_out_ = 0;
};

}  // namespace halfstep::detail
