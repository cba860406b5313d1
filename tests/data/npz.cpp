#include <zlib.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/array_dataset.hpp>
#include <halfstep/data/npz.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "support/temporary_file.hpp"

BOOST_AUTO_TEST_SUITE(npz_tests)

using namespace halfstep;
using namespace std::string_literals;
using test::bytes_of;
using test::holds;
using test::refusal;
using test::TemporaryFile;

namespace {

// What NumPy 2.4 writes for
//   images = numpy.arange(6, dtype='<f4').reshape(2, 3) / 4, labels = numpy.array([3, 1], dtype='u1')
//   numpy.savez(file, images=images, labels=labels)
constexpr std::string_view savez =
    "504b03042d0000000000000021000a9c00a4ffffffffffffffff0a001400696d616765732e6e707901001000980000000000"
    "00009800000000000000934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f726465"
    "72273a2046616c73652c20277368617065273a2028322c2033292c207d202020202020202020202020202020202020202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020200a000000000000803e0000003f"
    "0000403f0000803f0000a03f504b03042d0000000000000021005a315af4ffffffffffffffff0a0014006c6162656c732e6e"
    "70790100100082000000000000008200000000000000934e554d5059010076007b276465736372273a20277c7531272c2027"
    "666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028322c292c207d2020202020202020202020"
    "202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020200a"
    "0301504b01022d032d0000000000000021000a9c00a498000000980000000a0000000000000000000000800100000000696d"
    "616765732e6e7079504b01022d032d0000000000000021005a315af482000000820000000a00000000000000000000008001"
    "d40000006c6162656c732e6e7079504b0506000000000200020070000000920100000000";
// and for
//   images = numpy.arange(600, dtype='<i2').reshape(20, 30) % 7
//   numpy.savez_compressed(file, images=images, labels=labels)
constexpr std::string_view savez_compressed =
    "504b03042d000000080000002100b7ae1073ffffffffffffffff0a001400696d616765732e6e707901001000300500000000"
    "000060000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a4aea3a09e965f54529498179f5f9492"
    "0a12774bcc294e058a17672416a402f91a46063a0ac6069a3a0ab50a64022e060646062606660616065606368651de286f94"
    "37ca1bbc3c00504b03042d0000000800000021005a315af4ffffffffffffffff0a0014006c6162656c732e6e707901001000"
    "820000000000000046000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05e536aa8aea3a09e965f545294"
    "98179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a14002e664600504b01022d032d00000008000000"
    "2100b7ae107360000000300500000a0000000000000000000000800100000000696d616765732e6e7079504b01022d032d00"
    "00000800000021005a315af446000000820000000a000000000000000000000080019c0000006c6162656c732e6e7079504b"
    "05060000000002000200700000001e0100000000";

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::string number(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> 8 * i & 255);
  return bytes;
}

/// A member as it goes into an archive; what is not said is as it should be.
struct Member {
  std::string name = "a.npy";
  std::string packed = {};
  std::uint64_t size = packed.size();
  std::uint64_t method = 0;
  std::uint64_t flags = 0;
  std::uint64_t crc = 0;
  std::uint64_t packed_size = packed.size();
};

Member stored(const std::string& name, const std::string& content) {
  Member member{.name = name, .packed = content};
  member.crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  return member;
}

Member deflated(const std::string& name, const std::string& content) {
  Member member = stored(name, content);
  uLongf size = compressBound(static_cast<uLong>(content.size()));
  std::string zlib(size, '\0');
  compress2(reinterpret_cast<Bytef*>(zlib.data()), &size, reinterpret_cast<const Bytef*>(content.data()),
            static_cast<uLong>(content.size()), 9);
  // Without zlib's own header and checksum.
  member.packed = zlib.substr(2, size - 6);
  member.packed_size = member.packed.size();
  member.method = 8;
  return member;
}

std::string archive(const std::vector<Member>& members, const std::string& comment = "") {
  std::string bytes, directory;
  for (const Member& member : members) {
    directory += "PK\1\2" + number(20, 2) + number(20, 2) + number(member.flags, 2) +
                 number(member.method, 2) + number(0, 4) + number(member.crc, 4) +
                 number(member.packed_size, 4) + number(member.size, 4) + number(member.name.size(), 2) +
                 number(3, 2) + number(2, 2) + number(0, 8) + number(bytes.size(), 4) + member.name + "xtr" +
                 "cm";
    bytes += "PK\3\4" + number(20, 2) + number(member.flags, 2) + number(member.method, 2) +
             std::string(16, '\0') + number(member.name.size(), 2) + number(4, 2) + member.name + "more" +
             member.packed;
  }
  return bytes + directory + "PK\5\6" + number(0, 4) + number(members.size(), 2) + number(members.size(), 2) +
         number(directory.size(), 4) + number(bytes.size(), 4) + number(comment.size(), 2) + comment;
}

std::string npy(const std::string& data) {
  const std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(data.size()) + ",)}";
  return "\x93NUMPY\1\0"s + number(header.size(), 2) + header + data;
}

static_assert(std::is_move_constructible_v<NpzFile> && std::is_move_assignable_v<NpzFile>);
static_assert(!std::is_copy_constructible_v<NpzFile> && !std::is_copy_assignable_v<NpzFile>);

NpzFile open(std::string_view bytes) { return NpzFile(bytes_of(bytes), "file"); }

std::vector<int> array(std::string_view bytes, std::string_view name = "a") {
  return open(bytes).array(name).to<int>();
}

void check_refused(const std::string& bytes, const char* part) {
  const std::string message = refusal<Error>([&] { array(bytes); });
  BOOST_TEST(holds(message, "file"), message);
  BOOST_TEST(holds(message, part), message);
}

/// A member that is changed before it is archived.
template <class Change>
std::string changed(Member member, const Change& change) {
  change(member);
  return archive({member});
}

}  // namespace

BOOST_AUTO_TEST_CASE(archives_as_numpy_wrote_them) {
  const TemporaryFile file(from_hex(savez));
  const NpzFile arrays(file.path());
  BOOST_TEST((arrays.names() == std::vector<std::string>{"images", "labels"}));
  const TypedArray images = arrays.array("images");
  BOOST_TEST((images.shape() == Shape{2, 3}));
  BOOST_TEST((images.to<float>() == std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f}));
  BOOST_TEST(images.name() == file.path() + "[\"images\"]");
  const auto data = array_dataset(images, arrays.array("labels"));
  BOOST_TEST(data.labels()[0] == 3);
  BOOST_TEST(data.labels()[1] == 1);
}

BOOST_AUTO_TEST_CASE(an_archive_that_moved_is_read_as_before) {
  const TemporaryFile file(from_hex(savez));
  NpzFile first(file.path());
  NpzFile second(std::move(first));
  BOOST_TEST((second.array("labels").to<int>() == std::vector<int>{3, 1}));
  second = open(archive({stored("a.npy", npy("\1\2"))}));
  BOOST_TEST((second.array("a").to<int>() == std::vector<int>{1, 2}));
}

BOOST_AUTO_TEST_CASE(compressed_archives_as_numpy_wrote_them) {
  const TemporaryFile file(from_hex(savez_compressed));
  const NpzFile arrays(file.path());
  BOOST_TEST((arrays.array("labels").to<int>() == std::vector<int>{3, 1}));
  const TypedArray images = arrays.array("images");
  BOOST_TEST((images.shape() == Shape{20, 30}));
  const auto numbers = images.to<int>();
  for (std::size_t i = 0; i < numbers.size(); ++i) BOOST_TEST(numbers[i] == static_cast<int>(i) % 7);
}

BOOST_AUTO_TEST_CASE(large_arrays_are_unpacked_piece_by_piece) {
  std::string data(1'000'003, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * i >> 7);
  for (const Member& member : {stored("a.npy", npy(data)), deflated("a.npy", npy(data))}) {
    const TypedArray found = open(archive({member})).array("a");
    BOOST_TEST((detail::text_of(found.bytes()) == data));
  }
  const std::string zeros(5'000'000, '\0');
  const std::string small = archive({deflated("a.npy", npy(zeros))});
  BOOST_TEST(small.size() < 6000u);
  BOOST_TEST((detail::text_of(open(small).array("a").bytes()) == zeros));
}

BOOST_AUTO_TEST_CASE(what_is_around_the_members_is_passed_over) {
  BOOST_TEST((array(archive({stored("a.npy", npy("\1\2"))}, "a comment")) == std::vector<int>{1, 2}));
  BOOST_TEST(
      (array(archive({stored("a.npy", npy("\1\2"))}, std::string(65535, 'c'))) == std::vector<int>{1, 2}));
  // Without the suffix, in a folder, and empty names.
  const std::string several = archive({stored("b", npy("\3")), stored("folder/a.npy", npy("\4")),
                                       deflated(".npy", npy("\5")), stored("a.npy", npy(""))});
  BOOST_TEST((open(several).names() == std::vector<std::string>{"b", "folder/a", "", "a"}));
  BOOST_TEST((array(several, "b") == std::vector<int>{3}));
  BOOST_TEST((array(several, "folder/a") == std::vector<int>{4}));
  BOOST_TEST((array(several, "") == std::vector<int>{5}));
  BOOST_TEST(array(several, "a").empty());
  BOOST_TEST(open(archive({})).names().empty());
}

BOOST_AUTO_TEST_CASE(names_that_are_not_there_or_twice_are_refused) {
  const std::string missing =
      refusal<ConfigurationError>([] { open(archive({stored("a.npy", npy("\1"))})).array("b"); });
  BOOST_TEST(holds(missing, "file[\"b\"]: there is no such array"), missing);
  check_refused(archive({stored("a.npy", npy("\1")), stored("a", npy("\2"))}), "in the archive 2 times");
}

BOOST_AUTO_TEST_CASE(archives_of_other_kinds_are_refused) {
  check_refused("", "is no zip archive");
  check_refused("\x93NUMPY and so on, but much too long for a directory's end", "is no zip archive");
  const Member member = stored("a.npy", npy("\1\2"));
  check_refused(changed(member, [](Member& m) { m.flags = 1; }), "is encrypted");
  check_refused(changed(member, [](Member& m) { m.method = 12; }), "method 12");
  check_refused(changed(member, [](Member& m) { m.size = m.packed_size = 0xffffffff; }), "larger than 4 GiB");
  std::string parts = archive({member});
  parts[parts.size() - 18] = 1;
  check_refused(parts, "several parts");
  std::string zip64 = archive({member});
  zip64.replace(zip64.size() - 6, 4, "\xff\xff\xff\xff");
  check_refused(zip64, "ZIP64");
}

BOOST_AUTO_TEST_CASE(members_that_do_not_hold_what_the_directory_tells_are_refused) {
  const Member plain = stored("a.npy", npy("\1\2")), packed = deflated("a.npy", npy(std::string(1000, 'x')));
  check_refused(changed(plain, [](Member& m) { m.crc ^= 1; }), "checksum");
  check_refused(changed(packed, [](Member& m) { m.crc ^= 1; }), "checksum");
  check_refused(changed(plain, [](Member& m) { m.size -= 1; }), "two sizes");
  check_refused(changed(plain, [](Member& m) { m.size = m.packed_size = 100000; }), "outside the file");
  check_refused(changed(packed, [](Member& m) { m.size -= 1; }), "more than the");
  check_refused(changed(packed, [](Member& m) { m.size += 1; }), "of the");
  check_refused(changed(packed, [](Member& m) { m.packed_size -= 3; }), "it ends too soon");
  check_refused(changed(packed,
                        [](Member& m) {
                          m.packed += "!!";
                          m.packed_size += 2;
                        }),
                "2 packed bytes being left");
  check_refused(changed(packed, [](Member& m) { m.packed[3] = static_cast<char>(~m.packed[3]); }), "file");
  check_refused(changed(packed,
                        [](Member& m) {
                          m.packed = "\7\7\7\7";
                          m.packed_size = 4;
                          m.size = 9;
                        }),
                "cannot be unpacked: invalid block type");
  // A claim that no memory is given for.
  check_refused(changed(packed, [](Member& m) { m.size = 4'000'000'000; }), "cannot give 4000000000");
  check_refused(changed(plain,
                        [](Member& m) {
                          m.packed = "PK no array";
                          m.size = m.packed_size = 11;
                          m.crc = crc32_z(0, reinterpret_cast<const Bytef*>("PK no array"), 11);
                        }),
                "is no .npy file");
}

BOOST_AUTO_TEST_CASE(damaged_directories_are_refused) {
  const std::string whole = archive({stored("a.npy", npy("\1\2"))});
  const std::size_t end = whole.size() - 22;
  const auto damaged = [&whole](std::size_t at, const std::string& bytes) {
    std::string copy = whole;
    copy.replace(at, bytes.size(), bytes);
    return copy;
  };
  check_refused(damaged(end + 10, number(2, 2)), "the directory has 1 members, but its end says 2");
  check_refused(damaged(end + 12, number(5, 4)), "damaged 0 bytes after its beginning");
  check_refused(damaged(end + 12, number(100000, 4)), "outside the file");
  check_refused(damaged(end + 16, number(100000, 4)), "outside the file");
  check_refused(damaged(end + 16, number(1, 4)), "damaged 0 bytes after its beginning");
  const std::size_t directory = whole.find("PK\1\2");
  check_refused(damaged(directory + 28, number(65535, 2)), "damaged 0 bytes after its beginning");
  check_refused(damaged(directory + 42, number(7, 4)), "holds no member's header");
  check_refused(damaged(directory + 42, number(4000000000, 4)), "outside the file");
}

BOOST_AUTO_TEST_CASE(an_archive_cut_off_anywhere_is_refused) {
  for (const std::string_view hex : {savez, savez_compressed}) {
    const std::string whole = from_hex(hex);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      BOOST_CHECK_THROW(open(whole.substr(0, size)).array("images"), Error);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_bit_that_is_wrong_gives_other_numbers) {
  for (const std::string_view hex : {savez, savez_compressed}) {
    const std::string whole = from_hex(hex);
    const auto expected = open(whole).array("images").to<float>();
    int refused = 0;
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      try {
        BOOST_TEST((open(damaged).array("images").to<float>() == expected), "bit " << bit);
      } catch (const Error&) {
        ++refused;
      }
    }
    BOOST_TEST(refused > 100);
  }
}

BOOST_AUTO_TEST_SUITE_END()
