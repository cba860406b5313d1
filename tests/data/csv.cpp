#include <bit>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <filesystem>
#include <halfstep/data/csv.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/refusal.hpp"
#include "support/temporary_file.hpp"

BOOST_AUTO_TEST_SUITE(csv_tests)

using namespace halfstep;
using test::holds;
using test::refusal;
using test::TemporaryFile;

namespace {

using Floats = std::vector<float>;

template <class T>
std::vector<T> values(Tensor<const T> tensor) {
  return {tensor.begin(), tensor.end()};
}

CsvTable parse(std::string_view text, const CsvOptions& options = {}) {
  return parse_csv(text, "data.csv", options);
}

std::string parse_error(std::string_view text, const CsvOptions& options = {}) {
  return refusal<Error>([&] { parse(text, options); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_and_columns_are_those_of_the_file) {
  const TemporaryFile file("1,2.5,-3\n4e1,+5,6E-1\n");
  const CsvTable table = read_csv(file.path());
  BOOST_TEST(table.rows() == 2);
  BOOST_TEST(table.columns() == 3);
  BOOST_TEST((table.values().shape() == Shape{2, 3}));
  BOOST_TEST((values(table.values()) == Floats{1, 2.5f, -3, 40, 5, 0.6f}));
  BOOST_TEST(table.names().empty());
}

BOOST_AUTO_TEST_CASE(line_ends_empty_lines_and_blanks_are_as_the_world_writes_them) {
  const Floats expected{1, 2, 3, 4};
  for (const std::string_view text :
       {"1,2\n3,4\n", "1,2\n3,4", "1,2\r\n3,4\r\n", "\n\n1,2\n\r\n3,4\n\n  \t \n", " 1 ,\t2\n3 , 4 ",
        "\xef\xbb\xbf\x31,2\n3,4"}) {
    BOOST_TEST((values(parse(text).values()) == expected), "of " << text);
  }
  BOOST_TEST((values(parse("1\t2\n3\t4", {.separator = '\t'}).values()) == expected));
  BOOST_TEST((values(parse("1; 2\n3;4", {.separator = ';'}).values()) == expected));
  BOOST_TEST((values(parse("1 2\n3 4", {.separator = ' '}).values()) == expected));
  BOOST_TEST((values(parse("5").values()) == Floats{5}));
}

BOOST_AUTO_TEST_CASE(a_header_names_the_columns) {
  const CsvTable table = parse("\nwidth, height ,digit\r\n1,2,7\r\n", {.header = true});
  BOOST_TEST((table.names() == std::vector<std::string>{"width", "height", "digit"}));
  BOOST_TEST(table.column("height") == 1);
  BOOST_TEST(table.rows() == 1);
  const auto check = [](const CsvTable& of, const char* name, const char* part) {
    const std::string message = refusal<ConfigurationError>([&] { of.column(name); });
    BOOST_TEST(holds(message, part), message);
    BOOST_TEST(holds(message, name), message);
  };
  check(table, "depth", "no column is called");
  check(table, "depth", "width, height ,digit");
  check(parse("a,a\n1,2", {.header = true}), "a", "2 columns are called");
  check(parse("1,2"), "a", "without .header = true");
}

BOOST_AUTO_TEST_CASE(a_column_becomes_the_labels_and_the_others_features) {
  const CsvTable table = parse("a,b,label\n1,2,3\n4,5,-6\n", {.header = true});
  for (const auto& data : {table.dataset(2), table.dataset(-1), table.dataset("label")}) {
    BOOST_TEST(data.size() == 2);
    BOOST_TEST((values(data.features()) == Floats{1, 2, 4, 5}));
    BOOST_TEST((values(data.labels()) == std::vector<std::int32_t>{3, -6}));
    BOOST_TEST((data.features().shape() == Shape{2, 2}));
    BOOST_TEST((data.labels().shape() == Shape{2}));
  }
  BOOST_TEST((values(table.dataset(0).features()) == Floats{2, 3, 5, -6}));
  const auto scaled = table.dataset("b", {.subtract = 1, .divide_by = 2});
  BOOST_TEST((values(scaled.features()) == Floats{0, 1, 1.5f, -3.5f}));
  BOOST_TEST((values(scaled.labels()) == std::vector<std::int32_t>{2, 5}));
  const auto bare = table.dataset({.divide_by = 2});
  BOOST_TEST((values(bare.features()) == Floats{0.5f, 1, 1.5f, 2, 2.5f, -3}));
  BOOST_TEST(!bare.has_labels());
  BOOST_TEST((values(parse("1,0.25").dataset<float>(1).labels()) == Floats{0.25f}));
}

BOOST_AUTO_TEST_CASE(labels_that_are_none_are_refused) {
  const auto check = [](std::string_view text, const char* part) {
    const CsvTable table = parse(text);
    const std::string message = refusal<Error>([&] { table.dataset<std::uint8_t>(1); });
    BOOST_TEST(holds(message, part), message);
  };
  check("1,2\n1,2.5", "row 1 has the label 2.5");
  check("1,256", "row 0 has the label 256");
  check("1,-1", "row 0 has the label -1");
  // 2^24 + 1 would be read as 2^24.
  const std::string message = refusal<Error>([] { parse("1,16777217").dataset(1); });
  BOOST_TEST(holds(message, "16777216"), message);
  for (const std::int64_t column : {2, -3}) {
    const std::string missing = refusal<ConfigurationError>([&] { parse("1,2").dataset(column); });
    BOOST_TEST(holds(missing, "column " + std::to_string(column)), missing);
  }
  BOOST_CHECK_THROW(parse("1\n2").dataset(0), ConfigurationError);
}

BOOST_AUTO_TEST_CASE(numbers_are_rounded_to_the_nearest_float) {
  BOOST_TEST((values(parse("0.1,16777217,1e-45,1e-60,3.4028235e38,-0").values()) ==
              Floats{0.1f, 16777216.0f, 0x1p-149f, 0.0f, 0x1.fffffep127f, -0.0f}));
}

BOOST_AUTO_TEST_CASE(numbers_too_small_for_a_float_are_zeros_of_their_sign_and_subnormal_ones_are_right) {
  // 2^-150, half of the smallest float, in all of its digits.
  const std::string half =
      "7.0064923216240853546186479164495806564013097093825788587853414194489554134293030074331909418106079"
      "1015625";
  // 3 * 2^-150 without its last digit: less than one and a half of the smallest, but no double apart from it.
  const std::string below =
      "2.1019476964872256063855943749348741969203929128147736576356024258346866240287909022299572825431823"
      "7304687";
  const std::string zeros = "0." + std::string(400, '0') + "1";
  const std::string row = "1e-400,-1e-400,1e-99999999999," + zeros + ",-" + zeros + "," + half + "e-46," +
                          half + "1e-46,-" + half + "1e-46," + below + "e-45," + below +
                          "5e-45,1.1754942e-38";
  const Floats expected{0.0f,      -0.0f,      0.0f,      0.0f,      -0.0f,          0.0f,
                        0x1p-149f, -0x1p-149f, 0x1p-149f, 0x1p-148f, 0x1.fffffcp-127f};
  const Floats found = values(parse(row).values());
  BOOST_REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST(std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected[i]),
               "field " << i + 1 << " is " << found[i]);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_table_of_numbers_is_refused_with_its_line) {
  const auto check = [](std::string_view text, const char* part, const CsvOptions& options = {}) {
    const std::string message = parse_error(text, options);
    BOOST_TEST(holds(message, part), message);
  };
  check("1,2\n\n3,x4\n", "data.csv:3: field 2 is \"x4\", not a number");
  check("1,2\n3\n", "data.csv:2: 1 fields, but the first line has 2");
  check("1,2\n3,4,5\n", "data.csv:2: 3 fields, but the first line has 2");
  check("a,b\n3\n", "data.csv:2: 1 fields, but the first line has 2", {.header = true});
  check("1,\n", "data.csv:1: field 2 is empty");
  check("1,2,\n", "field 3 is empty");
  check(",\n", "field 1 is empty");
  check("1,\"2\"\n", "field 2 is \"\"2\"\", but quotation marks are not read");
  check("\"a\",b\n1,2\n", "data.csv:1: field 1 is \"\"a\"\", but quotation marks", {.header = true});
  check("a,b\n1,2\n", "set .header = true");
  check("1,2\n3,4 5\n", "\"4 5\", not a number");
  check("1,0x10\n", "\"0x10\", not a number");
  check("1,+-2\n", "not a number");
  check("1,--2\n", "not a number");
  check("1,1e39\n", "\"1e39\", more than a float holds");
  check("1,-1e999\n", "more than a float holds");
  check("1,3.4028236e38\n", "more than a float holds");
  check("1,1e99999999999\n", "more than a float holds");
  check("1," + std::string(400, '9') + "\n", "more than a float holds");
  check("1,nan\n", "\"nan\", not a finite number");
  check("1,-inf\n", "not a finite number");
  check("", "holds no row");
  check("\n\r\n", "holds no row");
  check("a,b\n", "holds no row", {.header = true});
  check(std::string_view("1,\0\x1b[31m", 8), "\"??[31m\"");
  check(std::string(100, '7') + "x", "\"7777777777777777777777777777777777777777...\"");
  for (const char separator : {'"', '\n', '1', '.', '-'}) {
    BOOST_CHECK_THROW(parse("1", {.separator = separator}), ConfigurationError);
  }
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_read_are_named) {
  const std::string missing = refusal<Error>([] { read_csv("/no/such/file.csv"); });
  BOOST_TEST(holds(missing, "/no/such/file.csv"), missing);
  BOOST_TEST(holds(missing, "No such file"), missing);
  const auto folder = std::filesystem::temp_directory_path();
  const std::string message = refusal<Error>([&] { read_csv(folder); });
  BOOST_TEST(holds(message, folder.string()), message);
  const std::string device = refusal<Error>([] { read_csv("/dev/zero"); });
  BOOST_TEST(holds(device, "/dev/zero"), device);
}

BOOST_AUTO_TEST_SUITE_END()
