// Whatever the text, the reader either takes it or refuses it with Error, touches nothing outside, and
// allocates no more than twice its size at once. What it takes is a table of finite numbers.
#include <cstddef>
#include <cstdint>
#include <halfstep/data/csv.hpp>
#include <halfstep/numeric/traits.hpp>
#include <string_view>

#include "data/fuzz/require.hpp"
#include "state/fuzz/allocation_limit.hpp"

namespace {

using namespace halfstep;

void read(std::string_view text, const CsvOptions& options) {
  // A message and an identity.
  constexpr std::size_t constant = 1 << 14;
  try {
    const test::AllocationLimit limit(2 * text.size() + constant, 8 * text.size() + 2 * constant);
    const CsvTable table = parse_csv(text, "fuzzed", options);
    test::require(table.rows() > 0 && table.columns() > 0, "a table has numbers");
    test::require(table.values().size() == table.rows() * table.columns(), "every row has every column");
    for (const float value : table.values()) test::require(is_finite(value), "numbers are finite");
    table.dataset<float>(-1);
    table.dataset(0);
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read(text, {});
  read(text, {.header = true, .separator = ';'});
  return 0;
}
