// More than 2^31 elements, which no 32-bit index counts. Zeros that are only read take no memory; the two
// tests that write as many results take 4 and 8 GiB, and say so where the machine has less.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/convert.hpp>
#include <halfstep/compute/matmul.hpp>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/scaling/measure.hpp>
#include <limits>
#include <vector>

#include "support/sparse_memory.hpp"

BOOST_AUTO_TEST_SUITE(many_elements_long_tests)

using namespace halfstep;
using namespace halfstep::compute;
using namespace halfstep::test;

namespace {

constexpr std::int64_t past = std::int64_t{1} << 31;
constexpr std::int64_t count = past + 77;

bool has_memory_for_results(std::int64_t gib) {
  const bool enough = sysconf(_SC_AVPHYS_PAGES) > ((gib + 2) << 30) / sysconf(_SC_PAGESIZE);
  BOOST_WARN_MESSAGE(enough, "less than " << gib + 2 << " GiB of free memory: not tested");
  return enough;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_index_is_called) {
  Host host;
  const SparseMemory<std::uint8_t> calls(count);
  if (!calls) return;
  std::uint8_t* const data = calls.data();
  for_each(host, count, [data](std::int64_t i) {
    if (i < 8 || i >= past - 8) ++data[i];
  });
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < 8; ++i) wrong += calls[i] != 1;
  for (std::int64_t i = past - 8; i < count; ++i) wrong += calls[i] != 1;
  BOOST_TEST(wrong == 0);
  BOOST_TEST(calls[9] == 0);
}

BOOST_AUTO_TEST_CASE(every_element_is_summed) {
  Host host;
  Arena<Host> arena(host);
  std::int64_t sum = 0;
  reduce(
      host, arena, count, [](std::int64_t i) { return i; }, std::int64_t{0}, Plus{}, &sum);
  BOOST_TEST(sum == count / 2 * count - (count % 2 == 0 ? count / 2 : 0));
}

BOOST_AUTO_TEST_CASE(a_gradient_is_measured_to_its_last_element) {
  Host host;
  const SparseMemory<float> gradient(count);
  if (!gradient) return;
  const std::vector<Segment> segments{{0, count}};
  const auto chunks = cut_into_chunks(segments);
  std::vector<MeasurePartial> partials(chunks.size());
  const std::uint8_t has_gradient = 1;
  const float inverse = 1;
  const auto measure = [&] {
    const auto tasks = static_cast<std::int64_t>(chunks.size());
    for_each_chunk(host, tasks,
                   MeasureChunk{chunks.data(), segments.data(), &has_gradient, gradient.data(), &inverse,
                                partials.data()});
    return join_partials(partials.data(), chunks.data(), tasks, true, true);
  };
  gradient[0] = 3;
  gradient[count - 1] = 4;
  BOOST_TEST(measure().sum_of_squares == 25);
  gradient[count - 2] = std::numeric_limits<float>::infinity();
  BOOST_TEST(measure().first_bad_index == count - 2);
}

BOOST_AUTO_TEST_CASE(columns_of_that_many_rows_are_summed) {
  Host host;
  Arena<Host> arena(host);
  const SparseMemory<float16> values(count);
  if (!values) return;
  values[1] = float16(1.0f);
  values[count - 1] = float16(2.0f);
  float sum = 0;
  column_sum<float16>(host, arena, matrix(static_cast<const float16*>(values.data()), count, 1), &sum);
  BOOST_TEST(sum == 3);
}

BOOST_AUTO_TEST_CASE(that_many_elements_are_converted) {
  const SparseMemory<float> from(count);
  const SparseMemory<bfloat16> to(count);
  if (!from || !to || !has_memory_for_results(4)) return;
  from[count - 1] = 1.5f;
  from[past] = -2;
  from[3] = 7;
  Host host;
  convert(host, from.data(), to.data(), count);
  BOOST_TEST(static_cast<float>(to[count - 1]) == 1.5f);
  BOOST_TEST(static_cast<float>(to[past]) == -2);
  BOOST_TEST(static_cast<float>(to[3]) == 7);
  BOOST_TEST(static_cast<float>(to[past + 3]) == 0);
}

// In float: 16-bit operands oneDNN may get as copies in float, which take 16 GiB more.
BOOST_AUTO_TEST_CASE(that_many_rows_are_multiplied) {
  const SparseMemory<float> a(count), result(count);
  if (!a || !result || !has_memory_for_results(8)) return;
  const float factor = 3;
  a[0] = 1;
  a[past] = 2;
  a[count - 1] = 4;
  Host host;
  matmul(host, matrix(static_cast<const float*>(a.data()), count, 1), matrix(&factor, 1, 1),
         matrix(result.data(), count, 1));
  BOOST_TEST(result[0] == 3);
  BOOST_TEST(result[past] == 6);
  BOOST_TEST(result[count - 1] == 12);
  BOOST_TEST(result[1] == 0);
}

BOOST_AUTO_TEST_SUITE_END()
