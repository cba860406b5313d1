// Whatever the bytes, the reader either takes them or refuses them with Error, touches nothing outside, and
// allocates no more than they are at once.
#include <cstddef>
#include <cstdint>
#include <halfstep/data/npy.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/fuzz/require.hpp"
#include "state/fuzz/allocation_limit.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace halfstep;
  // A message.
  constexpr std::size_t constant = 1 << 14;
  const auto given = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(given.begin(), given.end());
  std::optional<TypedArray> array;
  try {
    const test::AllocationLimit limit(size + constant, 2 * size + constant);
    array = parse_npy(std::move(bytes), "fuzzed");
  } catch (const Error&) {
  }
  if (array) test::use(*array);
  return 0;
}
