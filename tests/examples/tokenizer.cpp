#include "../../examples/gpt/tokenizer.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../examples/gpt/tokenizer_files.hpp"
#include "support/temporary_folder.hpp"

// The vocabularies of the example gpt, against Hugging Face's tokenizers and OpenAI's tiktoken; see
// python/tokenizers_golden.py.

BOOST_AUTO_TEST_SUITE(tokenizer_tests)

namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;
const std::filesystem::path data_folder = HALFSTEP_SOURCE_DIR "/tests/examples/data";

#ifdef HALFSTEP_EXAMPLE_PCRE2
constexpr bool exact_classes = true;
#else
constexpr bool exact_classes = false;
#endif

json read_json(const std::string& name) {
  std::ifstream file(data_folder / name);
  return json::parse(file);
}
bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

std::string every_byte_twice() {
  std::string text;
  for (int i = 0; i < 512; ++i) text += static_cast<char>(i * 37 + i / 256);
  return text;
}

void require_same_ids(const gpt::Tokenizer& tokenizer, const char* column) {
  for (const json& golden : read_json("tokenizers_golden.json")) {
    const auto text = golden.at("text").get<std::string>();
    if (!exact_classes && !is_ascii(text)) continue;
    BOOST_TEST(tokenizer.encode(text) == golden.at(column).get<Ids>(), boost::test_tools::per_element());
  }
}

gpt::Tokenizer tokenizer_of(const std::string& content, const char* name = "vocabulary") {
  const halfstep::test::TemporaryFolder folder;
  std::ofstream(folder / name, std::ios::binary) << content;
  return gpt::read_tokenizer(folder / name);
}
gpt::Tokenizer tokenizer_of(const json& document) { return tokenizer_of(document.dump()); }

std::string message_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const halfstep::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Requires that a document changed like this is refused with a message that holds all of these words.
void require_refusal(const std::function<void(json&)>& change, const std::vector<std::string>& words) {
  json document = read_json("gpt2_style.json");
  change(document);
  const std::string message = message_of([&] { tokenizer_of(document); });
  for (const std::string& word : words) {
    BOOST_TEST(message.find(word) != std::string::npos, '"' << word << "\" is not in: " << message);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_byte_level_vocabulary_gives_the_ids_of_hugging_faces_tokenizers) {
  require_same_ids(gpt::read_tokenizer(data_folder / "gpt2_style.json"), "gpt2_style");
}

BOOST_AUTO_TEST_CASE(merges_as_texts_of_two_words_are_the_same_merges) {
  json document = read_json("gpt2_style.json");
  for (json& merge : document["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  require_same_ids(tokenizer_of(document), "gpt2_style");
}

BOOST_AUTO_TEST_CASE(a_prefix_space_goes_before_each_text_that_has_none) {
  json document = read_json("gpt2_style.json");
  document["pre_tokenizer"]["add_prefix_space"] = true;
  require_same_ids(tokenizer_of(document), "prefixed");
}

#ifdef HALFSTEP_EXAMPLE_PCRE2
BOOST_AUTO_TEST_CASE(a_pattern_of_the_files_own_splits_as_hugging_faces_tokenizers_do) {
  require_same_ids(gpt::read_tokenizer(data_folder / "llama3_style.json"), "llama3_style");
}

BOOST_AUTO_TEST_CASE(by_hand_and_by_pcre2_gpt2s_pattern_splits_ascii_and_common_unicode_alike) {
  std::string text = every_byte_twice();
  for (const json& golden : read_json("tokenizers_golden.json"))
    text += golden.at("text").get<std::string>() + "\n";
  for (const char* broken : {" \xff", "a\xe2\x82", "  \xe2\x82z", "\xf0\x9f\x98", "x  "}) text += broken;
  std::vector<std::string> by_hand, by_pattern;
  gpt::Splitter::for_each_piece_by_hand(text, [&](std::string_view piece) { by_hand.emplace_back(piece); });
  gpt::Splitter().for_each_piece(text, [&](std::string_view piece) { by_pattern.emplace_back(piece); });
  BOOST_TEST(by_hand == by_pattern, boost::test_tools::per_element());
}
#else
BOOST_AUTO_TEST_CASE(without_pcre2_another_pattern_is_refused_and_named) {
  const std::string message = message_of([] { gpt::read_tokenizer(data_folder / "llama3_style.json"); });
  BOOST_TEST(message.find("PCRE2") != std::string::npos, message);
}
#endif

BOOST_AUTO_TEST_CASE(lines_of_base64_and_rank_give_tiktokens_ids) {
  require_same_ids(gpt::read_tokenizer(data_folder / "gpt2_style.tiktoken"), "tiktoken");
}

BOOST_AUTO_TEST_CASE(any_bytes_come_back_from_their_tokens) {
  const std::string text = every_byte_twice() + "The end\xff.\xe2\x82";
  for (const auto& tokenizer : {gpt::Tokenizer::bytes(), gpt::read_tokenizer(data_folder / "gpt2_style.json"),
                                gpt::read_tokenizer(data_folder / "gpt2_style.tiktoken")}) {
    BOOST_TEST((tokenizer.decode(tokenizer.encode(text)) == text));
  }
  BOOST_TEST(gpt::Tokenizer::bytes().encode("Az") == (Ids{65, 122}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_piece_of_100000_letters_is_encoded_at_once) {
  const gpt::Tokenizer tokenizer = gpt::read_tokenizer(data_folder / "gpt2_style.json");
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "thed"[i % 4];
  BOOST_TEST((tokenizer.decode(tokenizer.encode(text)) == text));
}

BOOST_AUTO_TEST_CASE(a_token_that_is_not_in_the_vocabulary_is_refused) {
  BOOST_TEST(message_of([] { gpt::Tokenizer::bytes().token(256); }) == "no token 256 in a vocabulary of 256");
  BOOST_TEST(message_of([] { gpt::Tokenizer::bytes().token(-1); }) == "no token -1 in a vocabulary of 256");
}

BOOST_AUTO_TEST_CASE(a_faulty_tokenizer_json_is_refused_with_the_entry_at_fault) {
  require_refusal([](json& d) { d.erase("model"); }, {"vocabulary: ", "no member \"model\""});
  require_refusal([](json& d) { d["model"]["type"] = "Unigram"; }, {"model: ", "\"Unigram\"", "only BPE"});
  require_refusal([](json& d) { d["model"]["byte_fallback"] = true; }, {"byte_fallback"});
  require_refusal([](json& d) { d["model"]["vocab"]["a"] = "x"; }, {"model.vocab[\"a\"]", "no whole number"});
  require_refusal([](json& d) { d["model"]["vocab"]["a"] = 5; }, {"model.vocab[", "the id 5 is taken"});
  require_refusal([](json& d) { d["model"]["vocab"]["a"] = -5; }, {"model.vocab[\"a\"]", "the id -5"});
  require_refusal([](json& d) { d["model"]["vocab"]["a b"] = 900; },
                  {"model.vocab[\"a b\"]", "byte-level characters"});
  require_refusal([](json& d) { d["model"]["merges"][3] = "a"; }, {"model.merges[3]", "neither"});
  require_refusal([](json& d) { d["model"]["merges"][3] = {"a", "qzq"}; }, {"model.merges[3]", "\"qzq\""});
  require_refusal([](json& d) { d["model"]["merges"][3] = d["model"]["merges"][2]; },
                  {"model.merges[3]", "already"});
  require_refusal([](json& d) { d["added_tokens"][0].erase("id"); }, {"added_tokens[0]", "\"id\""});
  require_refusal([](json& d) { d["added_tokens"][0]["lstrip"] = true; }, {"added_tokens[0]", "lstrip"});
  require_refusal([](json& d) { d["normalizer"] = {{"type", "NFC"}}; }, {"normalizer", "NFC"});
  require_refusal([](json& d) { d["pre_tokenizer"] = nullptr; }, {"pre_tokenizer"});
  require_refusal([](json& d) { d["pre_tokenizer"]["type"] = "Metaspace"; },
                  {"pre_tokenizer[0]", "\"Metaspace\""});
  require_refusal([](json& d) { d["pre_tokenizer"]["type"] = 5; }, {"pre_tokenizer: ", "\"type\"", "5"});
  require_refusal([](json& d) { d["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{"a", 1}}}}; },
                  {"pre_tokenizer.pretokenizers", "no JSON array"});
  require_refusal(
      [](json& d) {
        json bytes = d["pre_tokenizer"];
        bytes["add_prefix_space"] = true;
        bytes["use_regex"] = false;
        const json split{{"type", "Split"},
                         {"pattern", {{"Regex", std::string(gpt::gpt2_pattern)}}},
                         {"behavior", "Isolated"}};
        d["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array({split, bytes})}};
      },
      {"pre_tokenizer[1]", "add_prefix_space"});
  const std::string message = message_of([] { tokenizer_of(std::string("{\"model\": ")); });
  BOOST_TEST(message.find("vocabulary: it is no JSON") != std::string::npos, message);
}

BOOST_AUTO_TEST_CASE(a_byte_that_the_vocabulary_lacks_is_named_when_it_is_met) {
  const gpt::Tokenizer tokenizer = tokenizer_of(std::string("YQ== 0\nYg== 1\nYWI= 2\n"));
  BOOST_TEST(tokenizer.encode("abba") == (Ids{2, 1, 0}), boost::test_tools::per_element());
  BOOST_TEST(message_of([&] { tokenizer.encode("abc"); }).find("byte 99") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_faulty_line_of_a_tiktoken_file_is_refused_with_its_number) {
  for (const char* line :
       {"YQ==", "YQ== ", "YQ== x", "Y= 1", "Y*== 1", "YQ== 0", " 3", "Yw== 99999999999", "Yg== 0"}) {
    const std::string message = message_of([&] { tokenizer_of("YQ== 0\n" + std::string(line) + "\n"); });
    BOOST_TEST(message.find("vocabulary:2: ") != std::string::npos, line << ": " << message);
  }
  BOOST_TEST(message_of([] { tokenizer_of(std::string("\n\n")); }).find("empty") != std::string::npos);
  BOOST_TEST(message_of([] { gpt::read_tokenizer("/nowhere/x"); }).find("/nowhere/x: cannot be read") == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
