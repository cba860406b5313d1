#pragma once

#include <cstdint>
#include <halfstep/evidence/step_report.hpp>
#include <halfstep/nn/tape.hpp>
#include <memory>
#include <string>

namespace halfstep {

struct DiagnoseOptions {
  /// Fill Diagnosis::table. The batch is then computed once more.
  bool table = false;
  /// Which of the window's micro-batches the batch was, from 0; for `diagnose` of one batch.
  std::int64_t micro_batch = 0;
  /// Give the magnitudes of input data too. They are what the samples hold, so they stay out of messages and
  /// logs unless this says so.
  bool input_values = false;
};

namespace detail {

/// What a window's numbers depend on besides weights and data, and how it ended.
struct WindowFacts {
  std::int64_t attempt = 0;  ///< 0 where the window was not skipped
  SkipCause skip_cause = SkipCause::none;
  float scale = 1;
  double normalizer = 0;  ///< 0 where the first micro-batch decides it
  std::uint64_t first_random_pass = 0;
  std::int64_t micro_batches = 0;
};

/// A micro-batch in the program's memory, of whatever type, and how its loss is computed.
template <class Core>
struct BatchView {
  const void* batch;
  Loss (*loss)(Core&, const void*, std::uint64_t random_pass);

  template <class Batch>
  static BatchView of(const Batch& batch) {
    return {&batch, [](Core& core, const void* object, std::uint64_t random_pass) {
              return core.loss(*static_cast<const Batch*>(object), Pass::training, random_pass);
            }};
  }
};

/// How skipped windows are explained, by a floor above the trainer's.
template <class Core>
struct SkipExplainer {
  /// Looks at the micro-batch that made a window not finite, when it was just added.
  std::shared_ptr<Diagnosis> (*look)(Core&, const BatchView<Core>&, const WindowFacts& so_far);
  /// Completes what was found with how the window ended, and gives it as text.
  std::string (*tell)(Diagnosis& found, const WindowFacts& window, double loss);
};

}  // namespace detail

}  // namespace halfstep
