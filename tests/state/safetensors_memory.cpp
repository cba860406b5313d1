#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdlib>
#include <halfstep/state/safetensors.hpp>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "state/file_bytes.hpp"

// Notes what operator new gives while `counting` is on. A block's size stands before it.
namespace {

struct Counts {
  bool counting = false;
  std::size_t largest = 0, held = 0, peak = 0;
} counts;

constexpr std::size_t before = alignof(std::max_align_t);

}  // namespace

void* operator new(std::size_t size) {
  void* block = std::malloc(size + before);
  if (block == nullptr) throw std::bad_alloc();
  *static_cast<std::size_t*>(block) = counts.counting ? size : 0;
  if (counts.counting) {
    counts.largest = (std::max)(counts.largest, size);
    counts.held += size;
    counts.peak = (std::max)(counts.peak, counts.held);
  }
  return static_cast<std::byte*>(block) + before;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  void* block = static_cast<std::byte*>(memory) - before;
  counts.held -= (std::min)(counts.held, *static_cast<std::size_t*>(block));
  std::free(block);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

using namespace halfstep;

namespace {

/// Reads the file, sound or not, and notes what memory that took.
Counts memory_for(const std::string& text) {
  counts = {.counting = true};
  try {
    const StateFile file = test::parsed(text);
  } catch (const CheckpointError&) {
  }
  counts.counting = false;
  return counts;
}

/// Messages, an open file.
constexpr std::size_t constant = 1 << 14;

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors_memory)

BOOST_AUTO_TEST_CASE(what_a_file_merely_claims_is_not_allocated) {
  const std::string terabyte =
      test::file_of(R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", 10);
  for (const std::string& text : {terabyte, test::file_that_claims(99'999'999, "{}"),
                                  test::file_that_claims(std::uint64_t{1} << 60, "{}"),
                                  test::file_of("{\"a\":" + std::string(100, '['))}) {
    BOOST_TEST(memory_for(text).peak <= 2 * text.size() + constant);
  }
}

BOOST_AUTO_TEST_CASE(a_large_file_takes_its_own_size) {
  StateFile file{{{"a", DType::u8, {8'000'000}, {}}, {"b", DType::f32, {2'000'000}, {}}}, {}};
  for (TensorData& tensor : file.tensors) tensor.bytes.resize(8'000'000);
  const std::string text = test::written(file);
  const Counts memory = memory_for(text);
  BOOST_TEST(memory.peak <= text.size() + constant);
  BOOST_TEST(memory.largest <= 8'000'000u);
}

BOOST_AUTO_TEST_CASE(verifying_takes_no_more_than_a_piece) {
  StateFile file{{{"a", DType::u8, {8'000'000}, std::vector<std::byte>(8'000'000)}}, {}};
  const std::string text = test::written(file);
  test::MemoryFile files(test::bytes_of(text));
  counts = {.counting = true};
  safetensors::Reader("some", {}, files).verify();
  counts.counting = false;
  BOOST_TEST(counts.peak <= safetensors::detail::piece + constant);
}

BOOST_AUTO_TEST_CASE(headers_made_to_be_dear_are_not) {
  const auto repeated = [](auto make, int times) {
    std::string text = "{";
    for (int i = 0; i < times; ++i) text += (i > 0 ? "," : "") + make(std::to_string(i));
    return test::file_of(text + "}");
  };
  const std::vector<std::string> texts{
      // The shortest text for a tensor; the same with dimensions of one digit; long names; a long string;
      // long numbers.
      repeated(
          [](const std::string& i) {
            return "\"" + i + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
          },
          20'000),
      repeated(
          [](const std::string& i) {
            std::string shape = "0";
            for (int d = 1; d < 64; ++d) shape += ",1";
            return "\"" + i + R"(":{"dtype":"U8","data_offsets":[0,0],"shape":[)" + shape + "]}";
          },
          5'000),
      repeated(
          [](const std::string& i) {
            return "\"" + std::string(1000, 'n') + i + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
          },
          1'000),
      test::file_of("{\"__metadata__\":{\"a\":\"" + std::string(1'000'000, 'v') + "\"}}"),
      test::file_of("{\"" + std::string(1'000'000, 'n') + "\":{\"dtype\":1}}"),
      test::file_of("{\"a\":{\"shape\":[" + std::string(1'000'000, '9') + "]}}"),
  };
  for (const std::string& text : texts) {
    const Counts memory = memory_for(text);
    BOOST_TEST(memory.largest <= 2 * text.size() + constant);
    // The JSON library holds a token several times over, most of all one that it complains of.
    BOOST_TEST(memory.peak <= 16 * text.size() + constant);
    BOOST_TEST_MESSAGE(text.size() << " bytes of file: largest " << memory.largest << ", together "
                                   << memory.peak);
  }
}

BOOST_AUTO_TEST_SUITE_END()
