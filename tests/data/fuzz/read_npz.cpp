// Whatever the bytes, the reader either takes them as an archive or refuses them with Error, touches nothing
// outside, and allocates no more than twice what they unpack to.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <halfstep/data/npz.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/fuzz/require.hpp"
#include "state/fuzz/allocation_limit.hpp"

namespace {

using namespace halfstep;

// A message, and the first piece of what is unpacked.
constexpr std::size_t constant = 1 << 17;
constexpr std::size_t largest_ratio = 1032;

void read_archive(std::span<const std::byte> bytes) {
  try {
    const NpzFile file({bytes.begin(), bytes.end()}, "fuzzed");
    const std::vector<std::string> names = file.names();
    constexpr std::size_t enough = 8;
    for (std::size_t i = 0; i < (std::min)(names.size(), enough); ++i) {
      try {
        const test::AllocationLimit limit(2 * largest_ratio * bytes.size() + constant,
                                          4 * largest_ratio * bytes.size() + constant);
        test::use(file.array(names[i]));
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
}

void read_directory(std::span<const std::byte> bytes) {
  const detail::ByteSource source({bytes.begin(), bytes.end()}, "fuzzed");
  try {
    const test::AllocationLimit limit(bytes.size() + constant, 2 * bytes.size() + constant);
    const detail::ZipDirectory directory(source);
  } catch (const Error&) {
  }
}

/// No fuzzer finds a checksum that fits: here the packed bytes are unpacked without one. The first two tell
/// how much.
void unpack(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  const auto size = static_cast<std::int64_t>(detail::read_little_endian(bytes.data(), 2) * 4);
  const detail::ByteSource source({bytes.begin() + 2, bytes.end()}, "fuzzed");
  const std::string name = "fuzzed";
  try {
    const test::AllocationLimit limit(2 * largest_ratio * bytes.size() + constant,
                                      4 * largest_ratio * bytes.size() + constant);
    const auto unpacked = detail::Inflater(name).unpack(source, 0, source.size(), size);
    test::require(static_cast<std::int64_t>(unpacked.size()) == size, "as many bytes as were told");
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read_archive(bytes);
  read_directory(bytes);
  unpack(bytes);
  return 0;
}
