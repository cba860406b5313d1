#pragma once

#include <cstddef>
#include <cstdint>
#include <halfstep/compute/chunks.hpp>
#include <limits>
#include <vector>

namespace halfstep::test {

/// Parameters of sizes that are no multiples of four, and one larger than a chunk; the third has no gradient.
struct Flat {
  std::vector<compute::Segment> segments;
  std::vector<compute::SegmentChunk> chunks;
  std::vector<std::uint8_t> has_gradient{1, 1, 0, 1};
  std::vector<float> values;

  Flat() {
    std::int64_t offset = 0;
    for (const std::int64_t size : {3, 8195, 70, 6}) {
      segments.push_back({offset, size});
      offset += (size + 63) / 64 * 64;
    }
    chunks = compute::cut_into_chunks(segments);
    values.assign(static_cast<std::size_t>(offset), std::numeric_limits<float>::quiet_NaN());
    for (const auto& segment : segments) {
      for (std::int64_t i = 0; i < segment.size; ++i) {
        const std::int64_t at = segment.offset + i;
        values[static_cast<std::size_t>(at)] = static_cast<float>((i * 37 + segment.offset) % 23) - 11.0f;
      }
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(chunks.size()); }
};

}  // namespace halfstep::test
