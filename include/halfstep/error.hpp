#pragma once

#include <stdexcept>

namespace halfstep {

/// What every error of the library derives from. A message says what was asked, what was found, and what to do;
/// when it is thrown nothing is half done: parameters, optimizer and files are as they were before the call.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An option, a policy's number or an order of calls that cannot be right.
struct ConfigurationError : Error {
  using Error::Error;
};

/// Tensors whose shapes, or values that stand for positions (labels, indices), do not fit together.
struct ShapeError : Error {
  using Error::Error;
};

/// The device refused: no memory, no driver, a failed call.
struct DeviceError : Error {
  using Error::Error;
};

/// A checkpoint that cannot be written, read or trusted.
struct CheckpointError : Error {
  using Error::Error;
};

}  // namespace halfstep
