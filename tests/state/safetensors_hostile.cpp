#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <halfstep/state/safetensors.hpp>
#include <limits>
#include <string>
#include <vector>

#include "state/file_bytes.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(safetensors_hostile_tests)

using namespace halfstep;
using test::file_of;
using test::file_that_claims;
using test::holds;
using test::parsed;

namespace {

/// A file, and a part of the message that refuses it.
struct Hostile {
  std::string what, file, refusal;
};

std::string repeated(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

/// A header with one tensor, given as the inside of its object.
std::string tensor(const std::string& fields, std::size_t data_bytes = 0) {
  return file_of("{\"a\":{" + fields + "}}", data_bytes);
}
std::string shaped(const std::string& shape, const std::string& dtype = "U8", std::size_t data_bytes = 0) {
  return tensor("\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[0," +
                    std::to_string(data_bytes) + "]",
                data_bytes);
}
std::string placed(const std::string& offsets, std::size_t data_bytes) {
  return tensor("\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + offsets, data_bytes);
}
/// Two tensors "a" and "b" of four bytes each at these offsets.
std::string two_placed(const std::string& first, const std::string& second, std::size_t data_bytes) {
  const std::string fields = R"({"dtype":"U8","shape":[4],"data_offsets":)";
  return file_of("{\"a\":" + fields + first + "},\"b\":" + fields + second + "}}", data_bytes);
}
std::string metadata(const std::string& inside) { return file_of("{\"__metadata__\":" + inside + "}"); }

/// The empty tensors "a" and "b" with these texts as checksums; the header's own is right where none is
/// given.
std::string with_checksums(const std::string& checksums, std::string own = "") {
  safetensors::Header header;
  for (const char* name : {"a", "b"}) header.tensors.push_back({name, {0}, 0, 0, DType::u8, {}});
  header.metadata[safetensors::checksums_key] = checksums;
  if (own.empty()) {
    own = halfstep::detail::to_hex(
        safetensors::detail::header_checksum(safetensors::detail::by_name(header), header.metadata));
  }
  const std::string fields = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  return file_of("{\"__metadata__\":{\"halfstep.checksums\":" + nlohmann::json(checksums).dump() +
                 ",\"halfstep.header_checksum\":" + nlohmann::json(own).dump() + "},\"a\":" + fields +
                 ",\"b\":" + fields + "}");
}

const std::string sound = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
const std::string no_json = "no JSON";
const std::string most = std::to_string((std::numeric_limits<std::int64_t>::max)());

/// Made when they are asked for: some are large, and every run of the program would make them.
std::vector<Hostile> hostile_files() {
  return {
      // The length of the header.
      {"no bytes", "", "0 bytes, which is too short"},
      {"half a length", "\x10\0\0", "too short"},
      {"a length and nothing else", file_that_claims(1, ""), "only 8"},
      {"a length one too large", file_that_claims(3, "{}"), "a header of 3 bytes, but the file has only 10"},
      {"the largest length", file_that_claims(~std::uint64_t{0}, "{}"), "more than the limit"},
      {"a length that wraps around with the 8 bytes before it", file_that_claims(~std::uint64_t{0} - 7, "{}"),
       "limit"},
      {"a negative length", file_that_claims(std::uint64_t{1} << 63, "{}"), "limit"},
      {"a length over the limit", file_that_claims(100'000'001, "{}"), "more than the limit of 100000000"},
      {"a length within the limit, over the file", file_that_claims(100'000'000, "{}"), "truncated"},
      {"a length one too small", file_that_claims(1, "{}"), no_json},
      {"another kind of file", "PK\3\4 this is some archive of another kind",
       "damaged, or no safetensors file"},

      // What is no JSON, or JSON of a kind that the format does not have.
      {"an empty header", file_of(""), "does not begin with '{'"},
      {"blanks first", file_of(" {}"), "does not begin with '{'"},
      {"a byte order mark", file_of("\xef\xbb\xbf{}"), "does not begin with '{'"},
      {"a list", file_of("[]"), "does not begin with '{'"},
      {"a header that ends too early", file_of("{\"a\":"), no_json},
      {"more after the header", file_of("{} {}"), no_json},
      {"zeros after the header", file_of(std::string("{}\0\0", 4)), no_json},
      {"a comma too many", file_of("{\"a\":{" + sound + "},}", 4), no_json},
      {"a comment", file_of("{/* here */}"), no_json},
      {"single quotes", file_of("{'a':1}"), no_json},
      {"a name that is not UTF-8", file_of("{\"\xff\":{" + sound + "}}", 4), no_json},
      {"half a surrogate", file_of(R"({"\ud800":{)" + sound + "}}", 4), no_json},
      {"a zero byte in a name", file_of(std::string("{\"\0\":1}", 7)), no_json},
      {"infinity", shaped("[Infinity]"), no_json},
      {"lists nested a hundred thousand deep", file_of("{\"a\":" + repeated("[", 100'000)),
       "a list out of place"},
      {"objects nested a hundred thousand deep", file_of(repeated("{\"a\":", 100'000)),
       "unknown field \"a\""},
      {"metadata nested deep", metadata("{\"a\":" + repeated("[", 100'000)), "a list out of place"},
      {"a shape nested deep", shaped(repeated("[", 100'000)), "a list out of place"},
      {"a tensor that is a number", file_of("{\"a\":1}"), "a number out of place"},
      {"a tensor that is a string", file_of("{\"a\":\"F32\"}"), "a string out of place"},
      {"a tensor that is null", file_of("{\"a\":null}"), "a null out of place"},
      {"a tensor that is true", file_of("{\"a\":true}"), "a truth value out of place"},

      // Names and fields.
      {"two tensors of one name", two_placed("[0,4]", "[4,8]", 8).replace(8 + 2, 1, "b"),
       "tensor \"b\" is there twice"},
      {"one name spelled in two ways",
       file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
               R"("\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "tensor \"a\" is there twice"},
      {"a field twice", tensor(sound + ",\"shape\":[4]", 4), "two fields \"shape\""},
      {"a field that is unknown", tensor(sound + ",\"strides\":[1]", 4), "unknown field \"strides\""},
      {"the field of an older format", tensor(R"("dtype":"U8","shape":[4],"offsets":[0,4])", 4),
       "unknown field \"offsets\""},
      {"no fields", tensor(""), "has no dtype"},
      {"no type", tensor(R"("shape":[4],"data_offsets":[0,4])", 4), "has no dtype"},
      {"no shape", tensor(R"("dtype":"U8","data_offsets":[0,4])", 4), "has no shape"},
      {"no place", tensor(R"("dtype":"U8","shape":[4])", 4), "has no data_offsets"},
      {"a type of 8 bits that is unknown", shaped("[4]", "F8_E4M3", 4),
       "type \"F8_E4M3\", which is not known"},
      {"a type in small letters", shaped("[4]", "f32", 16), "type \"f32\""},
      {"a type that is a number", tensor(R"("dtype":32,"shape":[4],"data_offsets":[0,4])", 4),
       "a number out of place"},
      {"a type that is a list", tensor(R"("dtype":["U8"],"shape":[4],"data_offsets":[0,4])", 4),
       "a list out of place"},

      // Shapes.
      {"a negative size", shaped("[-1]", "U8", 1), "negative"},
      {"two negative sizes", shaped("[-2,-2]", "U8", 4), "negative"},
      {"a fractional size", shaped("[1.5]"), "fractional"},
      {"a size with an exponent", shaped("[1e0]", "U8", 1), "fractional"},
      {"a size in quotes", shaped("[\"1\"]", "U8", 1), "a string out of place"},
      {"a size that is null", shaped("[null]"), "a null out of place"},
      {"a shape that is a number", shaped("4", "U8", 4), "a number out of place"},
      {"a shape that is an object", shaped("{}"), "an object out of place"},
      {"a shape in a shape", shaped("[[4]]", "U8", 4), "a list out of place"},
      {"a size of 2^63", shaped("[9223372036854775808]"), "9223372036854775808, which is absurd"},
      {"a size of 2^64", shaped("[18446744073709551616]"), "too large for 64 bits"},
      {"a size of a thousand digits", shaped("[" + std::string(1000, '9') + "]"), no_json},
      {"a product of 2^64", shaped("[4294967296,4294967296]"), "overflows"},
      {"a product that overflows before it becomes nothing", shaped("[" + most + "," + most + ",0]"),
       "overflows"},
      {"bytes that overflow where elements do not", shaped("[1152921504606846976]", "F64"), "overflows"},
      {"the largest shape", shaped("[" + most + "]", "U8", 4), "has 4 bytes where its shape needs " + most},
      {"more dimensions than there are", shaped("[" + repeated("1,", 64) + "1]", "U8", 1),
       "more than 64 dimensions"},
      {"a million dimensions", shaped("[" + repeated("1,", 1'000'000) + "1]", "U8", 1),
       "more than 64 dimensions"},
      {"fewer bytes than the shape", shaped("[5]", "U8", 4), "has 4 bytes where its shape needs 5"},
      {"more bytes than the shape", shaped("[3]", "U8", 4), "has 4 bytes where its shape needs 3"},
      {"bytes without elements", shaped("[0]", "U8", 4), "has 4 bytes where its shape needs 0"},

      // Places.
      {"no offsets", placed("[]", 4), "not a beginning and an end"},
      {"one offset", placed("[4]", 4), "not a beginning and an end"},
      {"three offsets", placed("[0,4,4]", 4), "more than 2 data_offsets"},
      {"a negative offset", placed("[-4,0]", 4), "negative"},
      {"an end before the beginning", placed("[4,0]", 4), "not a beginning and an end"},
      {"an end that wraps around", placed("[" + most + ",3]", 4), "not a beginning and an end"},
      {"a beginning after the file", placed("[100,104]", 4), "begins at byte 100 of the data, where 0"},
      {"a beginning at the largest number", placed("[9223372036854775803," + most + "]", 4),
       "where 0 was expected"},
      {"an end after the file", placed("[0,4]", 3), "truncated"},
      {"a terabyte in a file of some bytes", shaped("[1099511627776]"), "needs 1099511627776"},
      {"a terabyte that offsets confirm",
       tensor(R"("dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776])"), "truncated"},
      {"the most that offsets can confirm",
       tensor("\"dtype\":\"U8\",\"shape\":[" + most + "],\"data_offsets\":[0," + most + "]"), "truncated"},
      {"tensors in the same place", two_placed("[0,4]", "[0,4]", 4), "overlap"},
      {"tensors that overlap", two_placed("[0,4]", "[3,7]", 7), "overlap or leave a gap"},
      {"a gap between tensors", two_placed("[0,4]", "[5,9]", 9), "overlap or leave a gap"},
      {"a gap before the first", two_placed("[1,5]", "[5,9]", 9), "where 0 was expected"},
      {"bytes after the last tensor", tensor(sound, 5), "something else follows"},
      {"bytes and no tensors", file_of("{}", 1), "something else follows"},

      // Metadata.
      {"metadata that are a list", metadata("[]"), "a list out of place"},
      {"metadata that are a string", metadata("\"\""), "a string out of place"},
      {"metadata that are null", metadata("null"), "a null out of place"},
      {"a number in the metadata", metadata("{\"a\":1}"), "a number out of place"},
      {"an object in the metadata", metadata("{\"a\":{}}"), "an object out of place"},
      {"null in the metadata", metadata("{\"a\":null}"), "a null out of place"},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ is there twice"},
      {"an entry of the metadata twice", metadata(R"({"k":"1","k":"2"})"), "metadata \"k\" is there twice"},

      // Checksums.
      {"only the header's checksum", metadata(R"({"halfstep.header_checksum":"00000000"})"), "only one of"},
      {"only the tensors' checksums", metadata(R"({"halfstep.checksums":"{}"})"), "only one of"},
      {"a wrong checksum of the header", with_checksums(R"({"a":"00000000","b":"00000000"})", "00000000"),
       "was written with \"00000000\""},
      {"no number as the header's checksum", with_checksums(R"({"a":"00000000","b":"00000000"})", "what?"),
       "\"what?\""},
      {"a tensor without checksum", with_checksums(R"({"a":"00000000"})"), "tensor \"b\" has no checksum"},
      {"a checksum without tensor", with_checksums(R"({"a":"00000000","b":"00000000","c":"00000000"})"),
       "\"c\" that is not there"},
      {"two checksums of a tensor", with_checksums(R"({"a":"00000000","a":"00000000"})"), "two checksums"},
      {"a wrong checksum of a tensor", with_checksums(R"({"a":"00000000","b":"00000001"})"),
       "tensor \"b\" have the checksum 00000000"},
      {"a checksum that is a number", with_checksums(R"({"a":0,"b":0})"), "out of place"},
      {"a checksum with capital letters", with_checksums(R"({"a":"ABCDEF00","b":"00000000"})"),
       "strange form"},
      {"checksums that are no JSON", with_checksums("{"), no_json},
      {"checksums with a zero byte",
       with_checksums(R"({"a":"00000000","b":"00000000"})" + std::string(1, '\0')), "a zero byte"},
      {"checksums that are a string", with_checksums("\"00000000\""), "strange form"},
      {"checksums that are a list", with_checksums("[]"), "a list out of place"},
      {"checksums nested deep", with_checksums(repeated("{\"a\":", 10'000)), "strange form"},
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_hostile_file_is_refused_for_what_it_has) {
  for (const Hostile& hostile : hostile_files()) {
    BOOST_TEST_CONTEXT(hostile.what) {
      const std::string message = test::refusal<CheckpointError>([&] { parsed(hostile.file); });
      BOOST_TEST(holds(message, hostile.refusal), message);
      BOOST_TEST(holds(message, "cannot load run/some.safetensors: "), message);
      BOOST_TEST(holds(message, "take another checkpoint"), message);
      BOOST_TEST(message.size() < 500u, message);
    }
  }
}

BOOST_AUTO_TEST_CASE(limits_are_the_callers_to_narrow) {
  const std::string file = file_of(
      R"({"__metadata__":{"k":"v","l":"w"},"a":{"dtype":"U8","shape":[1,1],"data_offsets":[0,1]}})", 1);
  parsed(file);
  BOOST_TEST(holds(test::refusal<CheckpointError>([&] { parsed(file, {.header_bytes = 20}); }),
                   "more than the limit of 20"));
  BOOST_TEST(holds(test::refusal<CheckpointError>([&] { parsed(file, {.dimensions = 1}); }),
                   "more than 1 dimensions"));
  BOOST_TEST(holds(test::refusal<CheckpointError>([&] { parsed(file, {.metadata_entries = 1}); }),
                   "more than 1 entries"));
  parsed(file, {.dimensions = 2, .metadata_entries = 2});
}

BOOST_AUTO_TEST_CASE(a_message_does_not_repeat_what_a_terminal_would_obey) {
  const std::string message = test::refusal<CheckpointError>(
      [] { parsed(file_of(R"({"\u001b[2J\u0007\u007f\u009bname: \u00b5":{"dtype":"\r\n"}})")); });
  for (const char c : message) BOOST_TEST((static_cast<unsigned char>(c) >= 0x20u && c != '\x7f'));
  BOOST_TEST(holds(message, "[2J???name: µ"), message);
  const std::string longest = test::refusal<CheckpointError>([] {
    parsed(
        file_of("{\"" + std::string(100'000, 'n') + "\":{\"dtype\":\"" + std::string(100'000, 't') + "\"}}"));
  });
  BOOST_TEST(longest.size() < 500u, longest);
}

BOOST_AUTO_TEST_CASE(what_is_no_file_is_refused_and_nothing_waits_for_it) {
  const test::TemporaryFolder folder;
  const auto refusal_of = [](const std::filesystem::path& path) {
    const std::string message = test::refusal<CheckpointError>([&] { safetensors::read(path); });
    BOOST_TEST(holds(message, "cannot load " + path.string() + ": "), message);
    return message;
  };
  BOOST_TEST(holds(refusal_of(folder / "nothing.safetensors"), "No such file"));
  BOOST_TEST(holds(refusal_of(folder.path()), "directory"));
  BOOST_REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  refusal_of(folder / "pipe");
  if (std::filesystem::exists("/dev/zero")) refusal_of("/dev/zero");
}

namespace {

/// Says that it is longer than it is.
struct Shrinking : test::MemoryFile {
  Shrinking(std::string_view text, std::size_t lost) : MemoryFile(test::bytes_of(text)), lost_(lost) {}
  std::int64_t size(File file) override { return MemoryFile::size(file) + static_cast<std::int64_t>(lost_); }
  std::size_t lost_;
};

/// Reads in bits and pieces.
struct Slow : test::MemoryFile {
  explicit Slow(std::string_view text) : MemoryFile(test::bytes_of(text)) {}
  std::size_t read(File file, std::int64_t offset, std::span<std::byte> bytes) override {
    return MemoryFile::read(file, offset, bytes.first((std::min)(bytes.size(), std::size_t{3})));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_that_shrinks_while_it_is_read_is_refused) {
  const std::string whole = tensor(sound, 4);
  for (std::size_t lost = 1; lost <= whole.size(); ++lost) {
    Shrinking files(std::string_view(whole).substr(0, whole.size() - lost), lost);
    BOOST_CHECK_THROW(safetensors::read("shrinking", {}, files), CheckpointError);
  }
}

BOOST_AUTO_TEST_CASE(reads_that_give_less_than_was_asked_are_continued) {
  const std::string whole = tensor(sound, 4);
  Slow files(whole);
  const StateFile file = safetensors::read("slow", {}, files);
  BOOST_TEST(
      (file.tensors.at(0).bytes == std::vector{std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}}));
}

BOOST_AUTO_TEST_SUITE_END()
