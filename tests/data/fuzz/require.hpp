#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <halfstep/data/typed_array.hpp>
#include <halfstep/error.hpp>
#include <vector>

namespace halfstep::test {

/// Ends a fuzzer where something does not hold.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "NOT SO: %s\n", what);
  std::abort();
}

/// What a reader has taken can be used in every way.
inline void use(const TypedArray& array) {
  require(array.bytes().size() == static_cast<std::size_t>(array.size() * size_of(array.dtype())),
          "an array has the bytes of its elements");
  try {
    array.to<float>();
  } catch (const Error&) {
  }
  try {
    array.to<std::int32_t>();
  } catch (const Error&) {
  }
}

}  // namespace halfstep::test
