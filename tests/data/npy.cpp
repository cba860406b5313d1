#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/npy.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/refusal.hpp"
#include "support/temporary_file.hpp"

BOOST_AUTO_TEST_SUITE(npy_tests)

using namespace halfstep;
using namespace std::string_literals;
using test::bytes_of;
using test::holds;
using test::refusal;
using test::TemporaryFile;

namespace {

/// A file with this header and data, as NumPy lays them out.
std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string length{static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  if (version > 1) length += "\0\0"s;
  return "\x93NUMPY"s + version + '\0' + length + header + data;
}

std::string header(const std::string& type, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }      \n";
}

TypedArray parse(std::string_view file) { return parse_npy(bytes_of(file), "file"); }

std::vector<double> numbers(const std::string& type, const std::string& data) {
  const std::int64_t count = static_cast<std::int64_t>(data.size()) / (type[2] - '0');
  return parse(npy(header(type, "(" + std::to_string(count) + ",)"), data)).to<double>();
}

void check_refused(std::string_view bytes, const char* part) {
  const std::string message = refusal<Error>([&] { parse(bytes); });
  BOOST_TEST(holds(message, "file: "), message);
  BOOST_TEST(holds(message, part), message);
}

using Doubles = std::vector<double>;

}  // namespace

BOOST_AUTO_TEST_CASE(files_as_numpy_wrote_them) {
  const std::string padding(54, ' ');
  const TemporaryFile halves("\x93NUMPY\1\0v\0{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }"s +
                             padding + "      \n\0>\0\xc0\xff{"s);
  const TypedArray array = read_npy(halves.path());
  BOOST_TEST(array.name() == halves.path());
  BOOST_TEST((array.dtype() == DType::f16));
  BOOST_TEST((array.shape() == Shape{3}));
  BOOST_TEST((array.to<float>() == std::vector<float>{1.5f, -2, 65504}));
  BOOST_TEST(array.view<float16>()[2].bits() == 0x7bff);
  const std::string scalar = header(">i4", "()");
  BOOST_TEST((parse(npy(scalar, "\0\0\0\7"s)).to<int>() == std::vector<int>{7}));
  BOOST_TEST((parse(npy(scalar, "\0\0\0\7"s)).shape() == Shape()));
  BOOST_TEST((parse(npy(header("<f8", "(0, 3)"), "")).shape() == Shape{0, 3}));
}

BOOST_AUTO_TEST_CASE(every_type_is_read_in_either_byte_order) {
  BOOST_TEST((numbers("|b1", "\0\1"s) == Doubles{0, 1}));
  BOOST_TEST((numbers("|i1", "\xfe"s) == Doubles{-2}));
  BOOST_TEST((numbers("|u1", "\xfe"s) == Doubles{254}));
  BOOST_TEST((numbers("<i2", "\2\1\xfe\xff"s) == Doubles{258, -2}));
  BOOST_TEST((numbers(">i2", "\1\2\xff\xfe"s) == Doubles{258, -2}));
  BOOST_TEST((numbers("<u2", "\xfe\xff"s) == Doubles{65534}));
  BOOST_TEST((numbers("<i4", "\xfe\xff\xff\xff"s) == Doubles{-2}));
  BOOST_TEST((numbers(">u4", "\xff\xff\xff\xfe"s) == Doubles{4294967294}));
  BOOST_TEST((numbers("<i8", "\xfe\xff\xff\xff\xff\xff\xff\xff"s) == Doubles{-2}));
  BOOST_TEST((numbers(">u8", "\0\0\0\0\0\0\1\2"s) == Doubles{258}));
  BOOST_TEST((numbers("<f4", "\0\0\xc0\x3f"s) == Doubles{1.5}));
  BOOST_TEST((numbers(">f4", "\x3f\xc0\0\0"s) == Doubles{1.5}));
  BOOST_TEST((numbers("<f8", "\0\0\0\0\0\0\xf8\x3f"s) == Doubles{1.5}));
  BOOST_TEST((numbers(">f2", "\x3e\0"s) == Doubles{1.5}));
}

BOOST_AUTO_TEST_CASE(all_versions_and_spellings_of_the_header_are_read) {
  for (const char version : {'\1', '\2', '\3'}) {
    BOOST_TEST((parse(npy(header("|u1", "(1, 2)"), "\4\5", version)).to<int>() == std::vector<int>{4, 5}));
  }
  for (const char* text : {"{'shape': (2,), 'fortran_order': False, 'descr': '|u1'}",
                           "{\"descr\":\"<u1\",\"fortran_order\":True,\"shape\":(2,)}",
                           " { 'descr' : '=u1' , 'fortran_order' : False , 'shape' : ( 2L , ) , } ",
                           "{'descr': '|u1', 'fortran_order': True, 'shape': (2,), }\n"}) {
    BOOST_TEST((parse(npy(text, "\4\5")).to<int>() == std::vector<int>{4, 5}), "of " << text);
  }
  BOOST_TEST((parse(npy(header("|u1", "(1, 1, 1, 1, 1, 2)"), "\4\5")).shape() == Shape{1, 1, 1, 1, 1, 2}));
}

BOOST_AUTO_TEST_CASE(what_is_not_read_is_said) {
  check_refused(npy(header("<f4", "(2, 2)", "True"), std::string(16, '\0')), "numpy.ascontiguousarray");
  for (const char* type : {"<c8", "|O", "<U3", "<f16", "f4", "", "<", "<M8[ns]", "^f4"}) {
    check_refused(npy(header(type, "(1,)"), "1234"), ("NumPy's type \"" + std::string(type) + "\"").c_str());
  }
  check_refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
                "several fields");
  check_refused(npy(header("|u1", "(1, 1, 1, 1, 1, 1, 2)"), "\4\5"), "more than 6 extents");
  check_refused(npy(header("|b1", "(3,)"), "\0\1\2"s), "element 2 of type BOOL is 2");
}

BOOST_AUTO_TEST_CASE(what_is_no_npy_file_is_refused) {
  check_refused("", "is no .npy file");
  check_refused("\x93NUMPY\1", "is no .npy file");
  check_refused("PK\3\4 and something else", "is no .npy file");
  check_refused("\x93NUMPY\4\0v\0"s, "version 4.0");
  check_refused("\x93NUMPY\1\1v\0"s, "version 1.1");
  check_refused("\x93NUMPY\1\0v"s, "within its header");
  check_refused("\x93NUMPY\1\0\xff\xff{"s, "within its header");
  check_refused("\x93NUMPY\2\0\xff\xff\xff\xff{"s, "within its header");
  const auto with = [](const std::string& text) { return npy(text, "\1"); };
  check_refused(with("'descr'"), "no '{'");
  check_refused(with("{descr: '|u1'}"), "no string");
  check_refused(with("{'descr"), "a string without an end");
  check_refused(with("{'descr' '|u1'}"), "no ':'");
  check_refused(with("{'descr': '|u1', 'descr': '|u1'}"), "an unexpected key \"descr\"");
  check_refused(with("{'color': 1}"), "an unexpected key \"color\"");
  check_refused(with("{'descr': '|u1', 'fortran_order': 0, 'shape': (1,)}"), "neither True nor False");
  check_refused(with("{'descr': '|u1', 'fortran_order': False}"), "not all of");
  check_refused(with("{'descr': '|u1' 'fortran_order': False}"), "no comma and no closing brace");
  check_refused(with("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)"),
                "no comma and no closing brace");
  check_refused(with("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} x"), "something after");
  check_refused(with(header("|u1", "1")), "no '('");
  check_refused(with(header("|u1", "(-1,)")), "no extent of 0 or more");
  check_refused(with(header("|u1", "(99999999999999999999,)")), "no extent of 0 or more");
  check_refused(with(header("|u1", "(1 1)")), "no comma and no closing parenthesis");
  check_refused(with(header("<f8", "(4611686018427387904, 4)")), "shape cannot be");
  check_refused(with(header("<f8", "(4611686018427387904,)")), "more than any file holds");
  check_refused(npy(header("<f4", "(2, 2)"), std::string(15, '\0')), "needs 16 bytes after the header");
  check_refused(npy(header("<f4", "(2, 2)"), std::string(17, '\0')), "there are 17");
}

BOOST_AUTO_TEST_CASE(a_file_cut_off_anywhere_is_refused) {
  const std::string whole = npy(header("<f4", "(2,)"), "12345678");
  for (std::size_t size = 0; size < whole.size(); ++size)
    BOOST_CHECK_THROW(parse(whole.substr(0, size)), Error);
  parse(whole);
}

BOOST_AUTO_TEST_SUITE_END()
