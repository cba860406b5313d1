#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <halfstep/state/safetensors.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "state/file_bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(safetensors_tests)

using namespace halfstep;
using test::holds;
using test::parsed;
using test::written;

namespace {

TensorData tensor(std::string name, DType dtype, std::vector<std::int64_t> shape, unsigned seed = 1) {
  const std::int64_t elements =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements * size_of(dtype)));
  std::mt19937 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255u);
  return {std::move(name), dtype, std::move(shape), std::move(bytes)};
}

bool same(const TensorData& a, const TensorData& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}

bool same(const StateFile& a, const StateFile& b) {
  return a.metadata == b.metadata &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const auto& x, const auto& y) { return same(x, y); });
}

std::string refused(const StateFile& file) {
  return test::refusal<CheckpointError>([&] { written(file); });
}

/// As an independent program writes it, from the description in the header.
const std::string tiny =
    std::string("\x08\x01\0\0\0\0\0\0", 8) +
    R"({"__metadata__":{"halfstep.checksums":"{\"bits\":\"1fd5aa12\",\"weights\":\"560302f4\"}",)"
    R"("halfstep.header_checksum":"39aeae28","run":"tiny"},)"
    R"("weights":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("bits":{"dtype":"U8","shape":[3,1],"data_offsets":[8,11]}}      )" +
    std::string("\0\0\x80\x3f\0\0\x20\xc0\x07\x08\xff", 11);

StateFile tiny_file() {
  const float weights[] = {1.0f, -2.5f};
  const auto bytes = std::as_bytes(std::span(weights));
  return {{{"weights", DType::f32, {2}, {bytes.begin(), bytes.end()}},
           {"bits", DType::u8, {3, 1}, {std::byte{7}, std::byte{8}, std::byte{255}}}},
          {{"run", "tiny"}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_tiny_file_has_these_bytes) {
  BOOST_TEST(written(tiny_file()) == tiny);
  BOOST_TEST(same(parsed(tiny), tiny_file()));
}

BOOST_AUTO_TEST_CASE(every_type_in_every_kind_of_shape_comes_back) {
  const std::vector<std::vector<std::int64_t>> shapes{
      {}, {1}, {0}, {7}, {3, 5}, {0, 4}, {4, 0, 2}, {1, 1, 1, 1, 1, 1, 1}, {2, 3, 4}, {100, 33}, {1, 70'000}};
  StateFile file;
  for (std::size_t type = 0; type < detail::dtype_facts.size(); ++type) {
    for (std::size_t shape = 0; shape < shapes.size(); ++shape) {
      const auto dtype = static_cast<DType>(type);
      file.tensors.push_back(tensor(std::string(name_of(dtype)) + "/" + std::to_string(shape), dtype,
                                    shapes[shape], unsigned(shape)));
    }
  }
  BOOST_TEST(same(parsed(written(file)), file));
}

BOOST_AUTO_TEST_CASE(names_and_metadata_of_any_text_come_back) {
  const std::vector<std::string> texts{"",
                                       " ",
                                       "a",
                                       "\"quoted\"",
                                       "back\\slash",
                                       "line\nbreak",
                                       "tab\t",
                                       "\x01\x1f",
                                       "µ-ß-漢-🙂",
                                       "__metadata",
                                       "halfstep",
                                       "{\"json\":[1,2]}",
                                       std::string("nul\0byte", 8),
                                       std::string(5000, 'x')};
  StateFile file;
  for (const std::string& text : texts) {
    file.tensors.push_back(tensor(text, DType::i16, {3}));
    file.metadata[text] = text + text;
  }
  BOOST_TEST(same(parsed(written(file)), file));
}

BOOST_AUTO_TEST_CASE(nothing_at_all_comes_back) { BOOST_TEST(same(parsed(written({})), {})); }

BOOST_AUTO_TEST_CASE(data_begin_at_a_multiple_of_eight_bytes) {
  for (std::size_t length = 1; length < 20; ++length) {
    const std::string text = written({{tensor(std::string(length, 'n'), DType::f64, {2})}, {}});
    BOOST_TEST((text.size() - 16) % 8 == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_file_without_checksums_is_taken_as_it_is) {
  const StateFile file = parsed(test::file_of(R"({"b":{"shape":[2],"data_offsets":[1,3],"dtype":"U8"},)"
                                              R"("a":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}})",
                                              3));
  BOOST_REQUIRE(file.tensors.size() == 2u);
  BOOST_TEST(file.tensors[0].name == "a");
  BOOST_TEST(file.tensors[1].name == "b");
  BOOST_TEST((file.tensors[1].bytes == std::vector{std::byte{1}, std::byte{2}}));
}

BOOST_AUTO_TEST_CASE(tensors_come_in_the_order_of_their_bytes_and_empty_ones_may_lie_anywhere) {
  const StateFile file = parsed(test::file_of(R"({"z":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},)"
                                              R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                                              R"("e":{"dtype":"F64","shape":[3,0],"data_offsets":[1,1]},)"
                                              R"("a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
                                              R"("f":{"dtype":"F32","shape":[0,0],"data_offsets":[0,0]}})",
                                              2));
  std::string order;
  for (const TensorData& found : file.tensors) order += found.name;
  BOOST_TEST(order == "faebz");
}

BOOST_AUTO_TEST_CASE(a_program_that_writes_the_same_header_otherwise_keeps_the_checksums_right) {
  std::string header =
      R"({ "bits": {"shape": [3, 1], "data_offsets": [0, 3], "dtype": "U8"},
           "weights": {"data_offsets": [3, 11], "dtype": "F32", "shape": [2]},
           "__metadata__": {"run": "ti\u006ey", "halfstep.header_checksum": "39aeae28",
                            "halfstep.checksums": "{\"bits\":\"1fd5aa12\",\"weights\":\"560302f4\"}"}})";
  std::string text = test::file_of(header) + tiny.substr(tiny.size() - 3) + tiny.substr(tiny.size() - 11, 8);
  const StateFile file = parsed(text);
  BOOST_TEST(same(*file.find("weights"), tiny_file().tensors[0]));
  BOOST_TEST(same(*file.find("bits"), tiny_file().tensors[1]));
  BOOST_TEST((file.metadata == tiny_file().metadata));
}

BOOST_AUTO_TEST_CASE(no_flipped_bit_goes_unnoticed) {
  int taken = 0;
  for (std::size_t bit = 0; bit < tiny.size() * 8; ++bit) {
    std::string damaged = tiny;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    try {
      const StateFile file = parsed(damaged);
      // The one harmless kind of damage is a blank that became another one.
      BOOST_TEST(same(file, tiny_file()), "bit " << bit);
      ++taken;
    } catch (const CheckpointError&) {
    }
  }
  BOOST_TEST(taken <= 6);
}

BOOST_AUTO_TEST_CASE(no_lost_ending_goes_unnoticed) {
  for (std::size_t size = 0; size < tiny.size(); ++size) {
    BOOST_CHECK_THROW(parsed(tiny.substr(0, size)), CheckpointError);
  }
  for (const char* more : {" ", "x", "01234567"}) BOOST_CHECK_THROW(parsed(tiny + more), CheckpointError);
  BOOST_CHECK_THROW(parsed(tiny + std::string(1, '\0')), CheckpointError);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_again_is_not_written) {
  const auto with = [](auto change) {
    StateFile file = tiny_file();
    change(file);
    return refused(file);
  };
  BOOST_TEST(
      holds(with([](StateFile& f) { f.tensors[1].name = "weights"; }), "two tensors are named \"weights\""));
  BOOST_TEST(holds(with([](StateFile& f) { f.tensors[0].name = "__metadata__"; }), "keeps for metadata"));
  BOOST_TEST(holds(with([](StateFile& f) { f.tensors[0].name = "\xff"; }), "not UTF-8"));
  BOOST_TEST(holds(with([](StateFile& f) { f.metadata["\xc3"] = ""; }), "not UTF-8"));
  BOOST_TEST(holds(with([](StateFile& f) { f.metadata["a"] = "\x80"; }), "not UTF-8"));
  BOOST_TEST(holds(with([](StateFile& f) { f.metadata[safetensors::checksums_key] = ""; }), "format's own"));
  BOOST_TEST(
      holds(with([](StateFile& f) { f.metadata[safetensors::header_checksum_key] = ""; }), "format's own"));
  BOOST_TEST(holds(with([](StateFile& f) { f.tensors[0].shape = {3}; }),
                   "tensor \"weights\" has 8 bytes, which is not what F32 of shape [3] has"));
  BOOST_TEST(holds(with([](StateFile& f) { f.tensors[0].shape = {-1, -2}; }), "shape [-1, -2]"));
  BOOST_TEST(holds(with([](StateFile& f) {
                     f.tensors[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
                   }),
                   "8 bytes"));
}

BOOST_AUTO_TEST_CASE(a_reader_gives_the_header_and_single_tensors) {
  const test::TemporaryFolder folder;
  const auto path = folder / "tiny.safetensors";
  test::put(path, tiny);

  const safetensors::Header header = safetensors::read_header(path);
  BOOST_REQUIRE(header.tensors.size() == 2u);
  BOOST_TEST(header.find("nothing") == nullptr);
  BOOST_TEST(header.find("bits")->bytes == 3);
  BOOST_TEST(header.find("bits")->offset == 8 + 264 + 8);
  BOOST_TEST((header.find("bits")->dtype == DType::u8));
  BOOST_TEST((header.find("bits")->shape == std::vector<std::int64_t>{3, 1}));
  BOOST_TEST((header.metadata == safetensors::Header{{}, {{"run", "tiny"}}}.metadata));

  safetensors::Reader reader(path);
  BOOST_TEST(same(reader.read("weights"), tiny_file().tensors[0]));
  BOOST_TEST(same(reader.read("bits"), tiny_file().tensors[1]));
  std::vector<float> weights(2);
  reader.read(*reader.header().find("weights"), std::as_writable_bytes(std::span(weights)));
  BOOST_TEST(weights[1] == -2.5f);
  reader.verify();
  BOOST_TEST(
      holds(test::refusal<CheckpointError>([&] { reader.read("wieghts"); }), "has no tensor \"wieghts\""));
  BOOST_TEST(holds(test::refusal<CheckpointError>([&] {
                     reader.read(*reader.header().find("bits"), std::as_writable_bytes(std::span(weights)));
                   }),
                   "has 3 bytes, and there is space for 8"));
}

BOOST_AUTO_TEST_CASE(damage_in_one_tensor_hurts_only_who_reads_it) {
  const test::TemporaryFolder folder;
  const auto path = folder / "damaged.safetensors";
  std::string text = tiny;
  text.back() = '\0';
  test::put(path, text);

  safetensors::Reader reader(path);
  BOOST_TEST(same(reader.read("weights"), tiny_file().tensors[0]));
  for (const std::string& message : {test::refusal<CheckpointError>([&] { reader.read("bits"); }),
                                     test::refusal<CheckpointError>([&] { reader.verify(); }),
                                     test::refusal<CheckpointError>([&] { safetensors::read(path); })}) {
    BOOST_TEST(holds(message, path.string()));
    BOOST_TEST(holds(message, "tensor \"bits\""));
    BOOST_TEST(holds(message, "1fd5aa12"));
  }
}

BOOST_AUTO_TEST_CASE(large_tensors_come_back_whole_and_damage_is_found_at_either_end) {
  // Longer than the pieces in which they are read, and than a large page.
  const StateFile file{{tensor("large", DType::u8, {5'000'003}), tensor("after", DType::f64, {3})}, {}};
  std::string text = written(file);
  BOOST_TEST(same(parsed(text), file));
  const std::size_t data = text.size() - 5'000'003 - 24;
  for (const std::size_t at : {data, data + 262'143, data + 262'144, data + 5'000'002}) {
    text[at] = static_cast<char>(text[at] ^ 1);
    BOOST_TEST(holds(test::refusal<CheckpointError>([&] { parsed(text); }), "tensor \"large\""));
    text[at] = static_cast<char>(text[at] ^ 1);
  }
}

BOOST_AUTO_TEST_CASE(what_is_large_enough_for_several_threads_comes_back_whole_and_the_first_damage_is_named) {
  StateFile file;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    file.tensors.push_back({name, DType::u8, {12'000'000}, std::vector<std::byte>(12'000'000)});
    for (std::size_t i = 0; i < 12'000'000; i += 4093) file.tensors.back().bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(*name) + i);
  }
  std::string text = written(file);
  BOOST_TEST(same(parsed(text), file));
  const std::size_t data = text.size() - 6 * 12'000'000;
  for (const std::size_t damaged : {5u, 3u, 2u}) {
    text[data + damaged * 12'000'000] = static_cast<char>(text[data + damaged * 12'000'000] ^ 1);
    const std::string message = test::refusal<CheckpointError>([&] { parsed(text); });
    BOOST_TEST(holds(message, std::string("tensor \"") + "abcdef"[damaged] + '"'), message);
  }
}

BOOST_AUTO_TEST_SUITE_END()
