#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <halfstep/compute/for_each.hpp>

namespace halfstep::compute {

/// One parameter's place in the flat buffers, in elements.
struct Segment {
  std::int64_t offset;
  std::int64_t size;
};

/// A piece of one segment, the unit of every pass over the flat buffers. No chunk crosses a segment, so that what
/// is found in a chunk belongs to one parameter.
struct SegmentChunk {
  std::int64_t offset;
  std::int32_t size;
  std::int32_t segment;
};

/// Segments start at multiples of this many elements: 256 bytes of float, 128 of a 16-bit type.
inline constexpr std::int64_t segment_alignment = 64;

/// Cuts segments, in their order, into chunks of at most `chunk_size` elements.
inline std::vector<SegmentChunk> cut_into_chunks(std::span<const Segment> segments) {
  std::vector<SegmentChunk> chunks;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    for (std::int64_t begin = 0; begin < segments[s].size; begin += chunk_size) {
      const std::int64_t left = segments[s].size - begin;
      chunks.push_back({segments[s].offset + begin, static_cast<std::int32_t>(left < chunk_size ? left : chunk_size),
                        static_cast<std::int32_t>(s)});
    }
  }
  return chunks;
}

}  // namespace halfstep::compute
