#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/array_dataset.hpp>
#include <halfstep/data/idx.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/refusal.hpp"
#include "support/temporary_file.hpp"

BOOST_AUTO_TEST_SUITE(idx_tests)

using namespace halfstep;
using namespace std::string_literals;
using test::bytes_of;
using test::holds;
using test::refusal;
using test::TemporaryFile;

namespace {

TypedArray parse(std::string_view bytes) { return parse_idx(bytes_of(bytes), "file"); }

void check_refused(std::string_view bytes, const char* part) {
  const std::string message = refusal<Error>([&] { parse(bytes); });
  BOOST_TEST(holds(message, "file: "), message);
  BOOST_TEST(holds(message, part), message);
}

}  // namespace

BOOST_AUTO_TEST_CASE(images_and_labels_become_a_dataset) {
  const TemporaryFile images("\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\3\x00\x33\xff\1\2\3"s),
      labels("\0\0\x08\1\0\0\0\2\7\x05"s);
  const TypedArray array = read_idx(images.path());
  BOOST_TEST(array.name() == images.path());
  BOOST_TEST((array.shape() == Shape{2, 1, 3}));
  BOOST_TEST((array.to<int>() == std::vector<int>{0, 51, 255, 1, 2, 3}));
  const auto data = array_dataset(array, read_idx(labels.path()), {.divide_by = 255});
  BOOST_TEST((data.sample_shape() == Shape{1, 3}));
  BOOST_TEST(data.features()[1] == 0.2f);
  BOOST_TEST(data.features()[2] == 1.0f);
  BOOST_TEST(data.labels()[0] == 7);
  BOOST_TEST(data.labels()[1] == 5);
}

BOOST_AUTO_TEST_CASE(every_type_is_read_its_highest_byte_first) {
  const auto number = [](std::string_view bytes) { return parse(bytes).to<double>(); };
  BOOST_TEST((number("\0\0\x08\1\0\0\0\1\xfe"s) == std::vector<double>{254}));
  BOOST_TEST((number("\0\0\x09\1\0\0\0\1\xfe"s) == std::vector<double>{-2}));
  BOOST_TEST((number("\0\0\x0b\1\0\0\0\2\x01\x02\xff\xfe"s) == std::vector<double>{258, -2}));
  BOOST_TEST((number("\0\0\x0c\1\0\0\0\1\x01\x02\x03\x04"s) == std::vector<double>{0x01020304}));
  BOOST_TEST((number("\0\0\x0d\1\0\0\0\1\x3f\xc0\0\0"s) == std::vector<double>{1.5}));
  BOOST_TEST(
      (number("\0\0\x0e\1\0\0\0\2\x3f\xf8\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0"s) == std::vector<double>{1.5, -2}));
  BOOST_TEST((number("\0\0\x08\0\5"s) == std::vector<double>{5}));
  BOOST_TEST((number("\0\0\x08\2\0\0\0\0\0\0\0\3"s) == std::vector<double>{}));
}

BOOST_AUTO_TEST_CASE(what_is_no_idx_file_is_refused) {
  check_refused("", "is no IDX file");
  check_refused("\0\0\x08"s, "is no IDX file");
  check_refused("\1\0\x08\0\5"s, "is no IDX file");
  check_refused("\x1f\x8b\x08\0\5"s, "gunzip");
  check_refused("\0\0\x0a\1\0\0\0\1\1"s, "the type 10");
  check_refused("\0\0\x08\7\0\0\0\1"s, "the rank 7");
  check_refused("\0\0\x08\2\0\0\0\1\0\0\0"s, "ends after 11 bytes, within the 12 of its header");
  check_refused("\0\0\x08\1\0\0\0\3\1\2"s,
                "needs 3 bytes after the header, which ends at offset 8; there are 2");
  check_refused("\0\0\x08\1\0\0\0\3\1\2\3\4"s, "there are 4");
  check_refused("\0\0\x0e\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s, "shape");
  check_refused("\0\0\x0e\2\x7f\xff\xff\xff\x7f\xff\xff\xff"s, "more than any file holds");
}

BOOST_AUTO_TEST_SUITE_END()
