#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include <halfstep/compute/chunks.hpp>

BOOST_AUTO_TEST_SUITE(chunks_tests)

using namespace halfstep;

BOOST_AUTO_TEST_CASE(chunks_cover_every_segment_once_in_order_and_cross_none) {
  const std::int64_t chunk = compute::chunk_size;
  const std::vector<compute::Segment> segments{
      {0, 1}, {64, 2 * chunk}, {64 + 2 * chunk, 0}, {128 + 2 * chunk, chunk + 1}};
  const auto chunks = compute::cut_into_chunks(segments);
  std::vector<std::int64_t> covered(segments.size(), 0);
  for (const compute::SegmentChunk& piece : chunks) {
    const auto& segment = segments[static_cast<std::size_t>(piece.segment)];
    std::int64_t& done = covered[static_cast<std::size_t>(piece.segment)];
    BOOST_TEST(piece.size > 0);
    BOOST_TEST(piece.size <= chunk);
    BOOST_TEST(piece.offset == segment.offset + done);
    done += piece.size;
  }
  for (std::size_t s = 0; s < segments.size(); ++s) BOOST_TEST(covered[s] == segments[s].size);
  BOOST_TEST(chunks.size() == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
