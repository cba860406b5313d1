#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <halfstep/error.hpp>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tokenizer.hpp"

namespace gpt {

namespace detail {

/// What a file said, and why that is no vocabulary.
[[noreturn]] inline void refuse(const std::string& place, const std::string& why) {
  throw halfstep::Error(place + ": " + why);
}

inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 60;
  return '"' + std::string(text.substr(0, longest)) + (text.size() > longest ? "...\"" : "\"");
}

/// Ids up to here are believed; every known vocabulary is smaller, and memory is taken for each.
inline constexpr std::int64_t most_tokens = std::int64_t{1} << 22;

inline void add_token(Vocabulary& vocabulary, std::int64_t id, std::string bytes, const std::string& place) {
  if (id < 0 || id >= most_tokens) {
    refuse(place, "the id " + std::to_string(id) + " is not from 0 to " + std::to_string(most_tokens - 1));
  }
  const auto position = static_cast<std::size_t>(id);
  if (position >= vocabulary.tokens.size()) vocabulary.tokens.resize(position + 1);
  auto& token = vocabulary.tokens[position];
  if (token && *token != bytes)
    refuse(place, "the id " + std::to_string(id) + " is taken by " + in_quotes(*token));
  token = std::move(bytes);
}

/// GPT-2's byte-level characters: bytes that print stand for themselves, the others for characters from
/// U+0100 on in their order, so that a vocabulary is text without white space.
class ByteCharacters {
 public:
  ByteCharacters() {
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      codes_[byte] = prints ? byte : next++;
      bytes_.emplace(codes_[byte], static_cast<char>(byte));
    }
  }
  std::string characters(std::string_view bytes) const {
    std::string text;
    for (const char byte : bytes) text += utf8_of(codes_[static_cast<std::uint8_t>(byte)]);
    return text;
  }
  /// Nothing where a character is none of them.
  std::optional<std::string> bytes(std::string_view text) const {
    std::string result;
    for (std::size_t i = 0; i < text.size();) {
      const Character character = character_at(text, i);
      const auto found = bytes_.find(character.code);
      if (!character.valid || found == bytes_.end()) return std::nullopt;
      result += found->second;
      i += character.size;
    }
    return result;
  }

 private:
  std::array<char32_t, 256> codes_{};
  std::unordered_map<char32_t, char> bytes_;
};

using Json = nlohmann::json;

inline const Json& member(const Json& object, const char* name, const std::string& place) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end())
    refuse(place, std::string("it has no member \"") + name + '"');
  return *found;
}
/// A member that may be missing or null.
template <class T>
T member_or(const Json& object, const char* name, T otherwise, const std::string& place) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return otherwise;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    refuse(place, std::string("its member \"") + name + "\" is " + found->dump() +
                      ", of another type than is known");
  }
}

/// A tokenizer.json of Hugging Face's tokenizers with a byte-level BPE model.
class TokenizerJson {
 public:
  TokenizerJson(const Json& document, std::string name) : document_(document), name_(std::move(name)) {}

  Vocabulary vocabulary() {
    if (!document_.is_object()) refuse(name_, "it holds no JSON object");
    const Json& model = member(document_, "model", name_);
    if (!model.is_object()) refuse(name_ + ": model", "it is no JSON object");
    read_model_options(model);
    read_added_tokens();
    read_tokens(member(model, "vocab", name_ + ": model"));
    read_merges(member(model, "merges", name_ + ": model"));
    read_pre_tokenizer();
    return std::move(result_);
  }

 private:
  void read_model_options(const Json& model) {
    const std::string place = name_ + ": model";
    const auto type = member_or<std::string>(model, "type", "BPE", place);
    if (type != "BPE") refuse(place, "its type is " + in_quotes(type) + "; only BPE is known");
    if (member_or<bool>(model, "byte_fallback", false, place)) {
      refuse(place, "byte_fallback: its tokens are characters; only byte-level vocabularies are known");
    }
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!member_or<std::string>(model, affix, "", place).empty())
        refuse(place, std::string(affix) + " is not known");
    }
    if (const auto found = document_.find("normalizer"); found != document_.end() && !found->is_null()) {
      refuse(name_, "its normalizer, " + found->dump().substr(0, 80) +
                        ", is not known; only vocabularies that take the text as it is are");
    }
    result_.whole_pieces = member_or<bool>(model, "ignore_merges", false, place);
  }

  void read_added_tokens() {
    const auto list = document_.find("added_tokens");
    if (list == document_.end()) return;
    std::size_t index = 0;
    for (const Json& entry : *list) {
      const std::string place = name_ + ": added_tokens[" + std::to_string(index++) + "]";
      const Json& content = member(entry, "content", place);
      const Json& id = member(entry, "id", place);
      if (!content.is_string() || content.get_ref<const std::string&>().empty() || !id.is_number_integer()) {
        refuse(place, "content must be a text and id a number");
      }
      for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
        if (member_or<bool>(entry, flag, false, place)) refuse(place, std::string(flag) + " is not known");
      }
      const auto& text = content.get_ref<const std::string&>();
      add_token(result_, id.get<std::int64_t>(), text, place);
      result_.added.emplace_back(text, id.get<std::int32_t>());
    }
  }

  void read_tokens(const Json& vocab) {
    if (!vocab.is_object()) refuse(name_ + ": model.vocab", "it is no JSON object");
    for (const auto& [text, id] : vocab.items()) {
      const std::string place = name_ + ": model.vocab[" + in_quotes(text) + "]";
      if (!id.is_number_integer()) refuse(place, "the id " + id.dump() + " is no whole number");
      const auto number = id.get<std::int64_t>();
      if (is_added(text, number)) continue;
      const auto bytes = characters_.bytes(text);
      if (!bytes) refuse(place, "it holds a character that is none of GPT-2's byte-level characters");
      add_token(result_, number, *bytes, place);
      ids_.emplace(text, static_cast<std::int32_t>(number));
    }
  }
  bool is_added(const std::string& text, std::int64_t id) const {
    for (const auto& added : result_.added) {
      if (added.second == id && added.first == text) return true;
    }
    return false;
  }

  void read_merges(const Json& merges) {
    if (!merges.is_array()) refuse(name_ + ": model.merges", "it is no JSON array");
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const std::string place = name_ + ": model.merges[" + std::to_string(i) + "]";
      const auto [left, right] = parts(merges[i], place);
      const std::int32_t a = id_of(left, place), b = id_of(right, place);
      const Merge merge{static_cast<std::int32_t>(i), id_of(left + right, place)};
      if (!result_.merges.add(a, b, merge))
        refuse(place, in_quotes(left + " " + right) + " has a merge already");
    }
  }
  static std::pair<std::string, std::string> parts(const Json& merge, const std::string& place) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0], merge[1]};
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string::npos && space > 0 && space + 1 < text.size() &&
          text.find(' ', space + 1) == std::string::npos) {
        return {text.substr(0, space), text.substr(space + 1)};
      }
    }
    refuse(place, in_quotes(merge.dump()) + " is neither \"left right\" nor [\"left\", \"right\"]");
  }
  std::int32_t id_of(const std::string& text, const std::string& place) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) refuse(place, in_quotes(text) + " is not in model.vocab");
    return found->second;
  }

  void read_pre_tokenizer() {
    const Json& root = member(document_, "pre_tokenizer", name_);
    if (!root.is_object())
      refuse(name_ + ": pre_tokenizer", "there is none; a byte-level vocabulary has ByteLevel");
    Json steps = Json::array({root});
    if (member_or<std::string>(root, "type", "", name_ + ": pre_tokenizer") == "Sequence")
      steps = member(root, "pretokenizers", name_ + ": pre_tokenizer");
    if (!steps.is_array()) refuse(name_ + ": pre_tokenizer.pretokenizers", "it is no JSON array");
    bool byte_level = false;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string place = name_ + ": pre_tokenizer[" + std::to_string(i) + "]";
      const auto type = member_or<std::string>(steps[i], "type", "", place);
      if (type == "ByteLevel" && !byte_level) {
        byte_level = true;
        result_.prefix_space = member_or<bool>(steps[i], "add_prefix_space", true, place);
        if (result_.prefix_space && result_.splitter) {
          refuse(place, "add_prefix_space after a Split puts a space before every piece, which is not known");
        }
        if (member_or<bool>(steps[i], "use_regex", true, place)) split_by(std::string(gpt2_pattern), place);
      } else if (type == "Split" && !byte_level) {
        const Json& pattern = member(member(steps[i], "pattern", place), "Regex", place + ": pattern");
        if (!pattern.is_string() || member_or<std::string>(steps[i], "behavior", "", place) != "Isolated" ||
            member_or<bool>(steps[i], "invert", false, place)) {
          refuse(place, "only a pattern that is a Regex, Isolated and not inverted is known");
        }
        split_by(pattern.get<std::string>(), place);
      } else {
        refuse(place, in_quotes(type) + " is not known here; ByteLevel, and Split before it, are");
      }
    }
    if (!byte_level)
      refuse(name_ + ": pre_tokenizer", "ByteLevel is missing; only byte-level vocabularies are known");
    if (!result_.splitter) split_by("(?s).+", name_);  // the whole text is one piece
  }
  void split_by(std::string pattern, const std::string& place) {
    if (result_.splitter) refuse(place, "the text is split already; only one pattern is known");
    try {
      result_.splitter.emplace(std::move(pattern));
    } catch (const halfstep::Error& error) {
      refuse(place, error.what());
    }
  }

  const Json& document_;
  std::string name_;
  Vocabulary result_;
  ByteCharacters characters_;
  std::unordered_map<std::string, std::int32_t> ids_;  // by byte-level characters
};

/// Nothing where the text is no base64.
inline std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char character : text) {
    const std::size_t value = alphabet.find(character);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

/// A line a token: its bytes in base64, a space, its rank, which is its id. Two tokens merge where their
/// bytes together are a token, of the lowest rank first.
inline Vocabulary read_tiktoken(std::string_view text, const std::string& name, std::string pattern) {
  Vocabulary vocabulary;
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string place = name + ":" + std::to_string(line_number);
    const std::size_t space = line.find(' ');
    const auto bytes = decode_base64(line.substr(0, space));
    const std::string_view rank = space == std::string_view::npos ? "" : line.substr(space + 1);
    const bool is_number =
        !rank.empty() && rank.size() < 10 && rank.find_first_not_of("0123456789") == rank.npos;
    if (!bytes || !is_number) refuse(place, in_quotes(line) + " is no token in base64, a space and a rank");
    const std::int64_t id = std::stoll(std::string(rank));
    add_token(vocabulary, id, *bytes, place);
    if (!ids.emplace(*bytes, static_cast<std::int32_t>(id)).second)
      refuse(place, "the token was there before");
  }
  if (ids.empty()) refuse(name, "it holds no token");
  for (const auto& [bytes, id] : ids) {
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      const auto left = ids.find(bytes.substr(0, cut)), right = ids.find(bytes.substr(cut));
      if (left != ids.end() && right != ids.end())
        vocabulary.merges.add(left->second, right->second, {id, id});
    }
  }
  vocabulary.whole_pieces = true;
  vocabulary.splitter.emplace(std::move(pattern));
  return vocabulary;
}

}  // namespace detail

/// A vocabulary from a file: a tokenizer.json with a byte-level BPE model, or tiktoken's lines of base64 and
/// rank, which say nothing of how text is split: by `pattern`. Throws halfstep::Error that names the file and
/// the entry or line.
inline Tokenizer read_tokenizer(const std::filesystem::path& path,
                                std::string pattern = std::string(gpt2_pattern)) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) throw halfstep::Error(path.string() + ": cannot be read");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw halfstep::Error(path.string() + ": the file is empty");
  if (text[first] != '{') return Tokenizer(detail::read_tiktoken(text, path.string(), std::move(pattern)));
  detail::Json document;
  try {
    document = detail::Json::parse(text);
  } catch (const detail::Json::exception& error) {
    throw halfstep::Error(path.string() + ": it is no JSON: " + error.what());
  }
  return Tokenizer(detail::TokenizerJson(document, path.string()).vocabulary());
}

}  // namespace gpt
