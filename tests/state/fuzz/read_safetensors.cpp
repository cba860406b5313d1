// Whatever the bytes, the reader either takes them or refuses them with CheckpointError, touches nothing
// outside, and allocates no more than they cover. What it takes, it writes again as a file that it takes as
// the same.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <halfstep/state/safetensors.hpp>
#include <span>
#include <vector>

#include "state/fuzz/allocation_limit.hpp"
#include "state/memory_file.hpp"

namespace {

using namespace halfstep;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "NOT SO: %s\n", what);
  std::abort();
}

StateFile read(std::span<const std::byte> bytes) {
  test::MemoryFile files(bytes);
  return safetensors::read("fuzzed", {}, files);
}

void write_and_read_again(const StateFile& file) {
  std::vector<std::byte> bytes;
  safetensors::write(
      [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); }, file);
  const StateFile again = read(bytes);
  require(again.metadata == file.metadata, "metadata survive");
  require(again.tensors.size() == file.tensors.size(), "as many tensors");
  for (const TensorData& tensor : file.tensors) {
    const TensorData* found = again.find(tensor.name);
    require(found != nullptr && found->dtype == tensor.dtype && found->shape == tensor.shape &&
                found->bytes == tensor.bytes,
            "tensors survive");
  }
}

void read_within_limits(std::span<const std::byte> bytes) {
  // A message, the book-keeping of a file that is open, the buffer of a string that grows.
  constexpr std::size_t constant = 1 << 14;
  StateFile file;
  bool taken = false;
  try {
    // Together: the data once, and of a header what the JSON library holds while it complains of a long
    // token.
    const test::AllocationLimit limit(2 * bytes.size() + constant, 16 * bytes.size() + constant);
    file = read(bytes);
    taken = true;
  } catch (const CheckpointError&) {
  }
  if (taken) write_and_read_again(file);
}

/// A fuzzer seldom finds a length that fits the header: here it ends at the last brace.
void read_with_length_put_right(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) return;
  std::size_t length = bytes.size() - 8;
  while (length > 0 && bytes[7 + length] != std::byte{'}'}) --length;
  std::vector<std::byte> right(bytes.begin(), bytes.end());
  for (std::size_t i = 0; i < 8; ++i) right[i] = static_cast<std::byte>(length >> (8 * i) & 255u);
  read_within_limits(right);
}

/// And never a header's checksum: here it is put right, and the bytes are the other checksums.
void read_checksums(std::span<const std::byte> bytes) {
  safetensors::Header header;
  header.tensors.resize(2);
  header.tensors[0].name = "a";
  header.tensors[1].name = "b";
  const auto tensors = safetensors::detail::by_name(header);
  header.metadata[safetensors::checksums_key] =
      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  header.metadata[safetensors::header_checksum_key] =
      halfstep::detail::to_hex(safetensors::detail::header_checksum(tensors, header.metadata));
  try {
    safetensors::detail::take_checksums(header, tensors);
    require(header.tensors[0].checksum && header.tensors[1].checksum, "every tensor has its checksum");
  } catch (const safetensors::detail::Unsound&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read_within_limits(bytes);
  read_with_length_put_right(bytes);
  read_checksums(bytes);
  return 0;
}
