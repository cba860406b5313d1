#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <filesystem>
#include <halfstep/data/loader.hpp>
#include <halfstep/data/tokens.hpp>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "support/temporary_file.hpp"

BOOST_AUTO_TEST_SUITE(tokens_tests)

using namespace halfstep;
using namespace std::string_literals;
using test::holds;
using test::refusal;
using test::TemporaryFile;

namespace {

using Bytes = TokenDataset<std::uint8_t>;
using Words = TokenDataset<std::uint16_t>;
using Numbers = std::vector<std::int32_t>;
using Indices = std::vector<std::int64_t>;

template <class T>
std::vector<T> values(Tensor<const T> tensor) {
  return {tensor.begin(), tensor.end()};
}

std::vector<std::uint8_t> count_to(int size) {
  std::vector<std::uint8_t> tokens(static_cast<std::size_t>(size));
  std::iota(tokens.begin(), tokens.end(), std::uint8_t{0});
  return tokens;
}

static_assert(Dataset<Bytes> && IdentifiedData<Words>);
static_assert(!std::is_copy_constructible_v<Bytes::Batch>);

}  // namespace

BOOST_AUTO_TEST_CASE(sequences_follow_each_other_and_targets_are_the_next_tokens) {
  const Bytes data(count_to(14), {.sequence_length = 4});
  BOOST_TEST(data.tokens() == 14);
  BOOST_TEST(data.size() == 3);
  Bytes::Batch batch;
  data.load(Indices{2, 0}, batch);
  BOOST_TEST((batch.inputs.shape() == Shape{2, 4}));
  BOOST_TEST((batch.targets.shape() == Shape{2, 4}));
  BOOST_TEST((values(batch.inputs) == Numbers{8, 9, 10, 11, 0, 1, 2, 3}));
  BOOST_TEST((values(batch.targets) == Numbers{9, 10, 11, 12, 1, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(an_epoch_predicts_each_token_once) {
  const Bytes data(count_to(41), {.sequence_length = 5});
  Loader loader(data, {.batch_size = 3, .prefetch = 2}, Shuffled(4));
  std::multiset<std::int32_t> predicted;
  for (const auto& batch : loader) predicted.insert(batch.targets.begin(), batch.targets.end());
  BOOST_TEST(predicted.size() == 40u);
  for (std::int32_t token = 1; token <= 40; ++token) BOOST_TEST(predicted.count(token) == 1u);
}

BOOST_AUTO_TEST_CASE(the_stride_says_where_sequences_begin) {
  const auto begins = [](std::int64_t tokens, std::int64_t stride) {
    const Bytes data(count_to(static_cast<int>(tokens)), {.sequence_length = 3, .stride = stride});
    Bytes::Batch batch;
    Numbers first;
    for (std::int64_t i = 0; i < data.size(); ++i) {
      data.load(Indices{i}, batch);
      first.push_back(batch.inputs[0]);
      BOOST_TEST(batch.targets[2] < tokens);
    }
    return first;
  };
  BOOST_TEST((begins(7, 1) == Numbers{0, 1, 2, 3}));
  BOOST_TEST((begins(7, 2) == Numbers{0, 2}));
  BOOST_TEST((begins(8, 2) == Numbers{0, 2, 4}));
  BOOST_TEST((begins(6, 3) == Numbers{0}));
  BOOST_TEST((begins(7, 3) == Numbers{0, 3}));
  BOOST_TEST((begins(12, 5) == Numbers{0, 5}));
  BOOST_TEST((begins(4, 1000) == Numbers{0}));
}

BOOST_AUTO_TEST_CASE(files_are_read_lowest_byte_first_mapped_or_not) {
  const TemporaryFile file("\1\0\0\1\xff\xff\7\0"s);
  for (const auto& words :
       {Words::map(file.path(), {.sequence_length = 3}), Words::read(file.path(), {.sequence_length = 3}),
        Words(std::vector<std::uint16_t>{1, 256, 65535, 7}, {.sequence_length = 3})}) {
    BOOST_TEST(words.size() == 1);
    Words::Batch batch;
    words.load(Indices{0}, batch);
    BOOST_TEST((values(batch.inputs) == Numbers{1, 256, 65535}));
    BOOST_TEST((values(batch.targets) == Numbers{256, 65535, 7}));
  }
  const Bytes bytes = Bytes::map(file.path(), {.sequence_length = 7});
  BOOST_TEST(bytes.token(4) == 255);
  BOOST_TEST(bytes.tokens() == 8);
}

BOOST_AUTO_TEST_CASE(a_dataset_moves_with_its_mapping) {
  const TemporaryFile file("abcdefg");
  Bytes data = Bytes::map(file.path(), {.sequence_length = 2});
  const Bytes moved = std::move(data);
  const Bytes copy = moved;
  std::filesystem::remove(file.path());
  BOOST_TEST(moved.token(6) == 'g');
  BOOST_TEST(copy.token(6) == 'g');
}

BOOST_AUTO_TEST_CASE(tokens_outside_the_vocabulary_are_named) {
  const Bytes data(std::vector<std::uint8_t>{1, 2, 3, 4, 9}, {.sequence_length = 2, .vocabulary = 9});
  Bytes::Batch batch;
  data.load(Indices{0}, batch);
  const std::string message = refusal<Error>([&] { data.load(Indices{1}, batch); });
  BOOST_TEST(holds(message, "token 9 at place 4 is outside a vocabulary of 9"), message);
}

BOOST_AUTO_TEST_CASE(identities_tell_contents_and_cuts_apart) {
  const TokenOptions options{.sequence_length = 4};
  const std::string identity = Bytes(count_to(100), options).identity();
  BOOST_TEST(Bytes(count_to(100), options).identity() == identity);
  auto changed = count_to(100);
  changed[99] ^= 1;
  BOOST_TEST(Bytes(changed, options).identity() != identity);
  BOOST_TEST(Bytes(count_to(101), options).identity() != identity);
  BOOST_TEST(Bytes(count_to(100), {.sequence_length = 5}).identity() != identity);
  BOOST_TEST(Bytes(count_to(100), {.sequence_length = 4, .stride = 2}).identity() != identity);
  // Of a large file, the first and the last tokens count, and many between.
  std::vector<std::uint8_t> large(3'000'001);
  const std::string of_large = Bytes(large, options).identity();
  int noticed = 0;
  for (std::size_t i = 0; i < large.size(); i += i == 0 ? 500 : 249'958) {
    large[i] = 1;
    noticed += Bytes(large, options).identity() != of_large;
    large[i] = 0;
  }
  BOOST_TEST(noticed >= 3);
  for (const std::size_t end : {std::size_t{0}, large.size() - 1}) {
    large[end] = 1;
    BOOST_TEST(Bytes(large, options).identity() != of_large);
    large[end] = 0;
  }
}

BOOST_AUTO_TEST_CASE(a_position_in_other_tokens_is_refused) {
  const Bytes data(count_to(100), {.sequence_length = 4}), other(count_to(99), {.sequence_length = 4});
  Loader loader(data, {.batch_size = 2}), elsewhere(other, {.batch_size = 2});
  loader.next();
  BOOST_TEST(other.size() == data.size());
  const std::string message = refusal<ConfigurationError>([&] { elsewhere.seek(loader.position()); });
  BOOST_TEST(holds(message, "100 tokens U8"), message);
  BOOST_TEST(holds(message, "99 tokens U8"), message);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_cut_into_sequences_is_refused) {
  const auto check = []<class Refusal>(Refusal, const auto& call, std::string_view part) {
    const std::string message = refusal<Refusal>(call);
    BOOST_TEST(holds(message, std::string(part)), message);
  };
  const Error data_error("");
  const ConfigurationError option_error("");
  check(
      data_error, [] { Bytes(count_to(4), {.sequence_length = 4}); },
      "4 tokens do not make one sequence of 4");
  check(
      data_error, [] { Bytes(count_to(0), {.sequence_length = 1}); }, "0 tokens do not make");
  check(
      data_error, [] { Bytes(count_to(9), {.sequence_length = INT64_MAX}); }, "do not make");
  check(
      option_error, [] { Bytes(count_to(9), {.sequence_length = 0}); }, "sequence_length is 0");
  check(
      option_error, [] { Bytes(count_to(9), {.sequence_length = 2, .stride = -1}); }, "stride is -1");
  check(
      option_error, [] { Bytes(count_to(9), {.sequence_length = 2, .vocabulary = -1}); }, "vocabulary -1");
  const TemporaryFile odd("12345"), empty("");
  check(
      data_error, [&] { Words::map(odd.path(), {.sequence_length = 1}); }, "no whole number of tokens");
  check(
      data_error, [&] { Words::map(empty.path(), {.sequence_length = 1}); }, "0 tokens do not make");
  for (const std::string path : {"/no/such/tokens.bin", "/tmp", "/dev/zero"}) {
    check(
        data_error, [&] { Bytes::map(path); }, path);
    check(
        data_error, [&] { Bytes::read(path); }, path);
  }
  const Bytes data(count_to(9), {.sequence_length = 2});
  Bytes::Batch batch;
  check(
      ShapeError(""), [&] { data.load(Indices{4}, batch); }, "sequence 4 was asked for, of 4");
  check(
      ShapeError(""), [&] { data.load(Indices{-1}, batch); }, "sequence -1");
}

BOOST_AUTO_TEST_SUITE_END()
