#pragma once

#include <cstdint>

namespace halfstep {

/// Bytes that a trainer holds on its device, by kind, read off the buffers that exist. docs/memory.md has the formula
/// for each. Not counted: the program's data, names and shapes of parameters, and what a library such as oneDNN
/// keeps inside itself.
struct MemoryUse {
  std::int64_t masters = 0;       ///< float weights
  std::int64_t working_copy = 0;  ///< 16-bit weights; 0 under a policy that computes in float
  std::int64_t gradients = 0;
  std::int64_t moments = 0;       ///< of the optimizer
  std::int64_t activations = 0;   ///< the most that one pass, forward and backward, has taken so far
  std::int64_t reserve = 0;       ///< what the arena of the activations holds beyond that
  std::int64_t workspace = 0;     ///< scratch memory of matrix products
  std::int64_t bookkeeping = 0;   ///< the step's record, partial sums of measuring, the tape's list of operations

  std::int64_t parameters() const { return masters + working_copy; }
  std::int64_t total() const {
    return masters + working_copy + gradients + moments + activations + reserve + workspace + bookkeeping;
  }
};

}  // namespace halfstep
