#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <halfstep/error.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "byte_pairs.hpp"
#include "splitter.hpp"

namespace gpt {

/// What a vocabulary consists of. Requires ids from 0 on, each at most once.
struct Vocabulary {
  /// The bytes of each token by id; nothing where an id is not in use.
  std::vector<std::optional<std::string>> tokens;
  MergeTable merges;
  /// None: every byte by itself.
  std::optional<Splitter> splitter;
  /// Texts, none empty, and ids of what is found before the text is split, such as <|endoftext|>.
  std::vector<std::pair<std::string, std::int32_t>> added;
  /// A piece that is a token is that token, whether merges lead to it or not.
  bool whole_pieces = false;
  /// A space goes before a text that does not begin with one.
  bool prefix_space = false;
};

/// Text to tokens and back, by bytes: any bytes can be encoded, UTF-8 or not, and decoding gives them back
/// (but for a space that the vocabulary's file wants before the text). See tokenizer_files.hpp for
/// vocabularies in files.
class Tokenizer {
 public:
  /// A token a byte, 256 of them.
  static Tokenizer bytes() {
    Vocabulary vocabulary;
    for (int byte = 0; byte < 256; ++byte)
      vocabulary.tokens.emplace_back(std::string(1, static_cast<char>(byte)));
    return Tokenizer(std::move(vocabulary));
  }

  explicit Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
    byte_ids_.fill(none);
    for (std::size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
      const auto& token = vocabulary_.tokens[i];
      if (!token) continue;
      const auto id = static_cast<std::int32_t>(i);
      if (token->size() == 1) byte_ids_[static_cast<std::uint8_t>(token->front())] = id;
      ids_.emplace(*token, id);
    }
    for (const Added& added : vocabulary_.added)
      begins_added_[static_cast<std::uint8_t>(added.first.front())] = true;
  }

  /// One more than the largest id.
  std::int64_t size() const { return static_cast<std::int64_t>(vocabulary_.tokens.size()); }

  /// Throws halfstep::Error for a byte that the vocabulary does not have; the 256 of a byte-level vocabulary
  /// are all.
  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> result;
    Cache cache;
    while (!text.empty()) {
      const auto [place, added] = next_added(text);
      encode_ordinary(text.substr(0, place), result, cache);
      text.remove_prefix(place);
      if (added == nullptr) break;
      result.push_back(added->second);
      text.remove_prefix(added->first.size());
    }
    return result;
  }

  std::string decode(std::span<const std::int32_t> tokens) const {
    std::string text;
    for (const std::int32_t id : tokens) text += token(id);
    return text;
  }

  /// The bytes of one token. Throws halfstep::Error for an id that the vocabulary does not have.
  const std::string& token(std::int32_t id) const {
    if (id >= 0 && id < size()) {
      if (const auto& bytes = vocabulary_.tokens[static_cast<std::size_t>(id)]) return *bytes;
    }
    throw halfstep::Error("no token " + std::to_string(id) + " in a vocabulary of " + std::to_string(size()));
  }

 private:
  static constexpr std::int32_t none = -1;
  using Added = std::pair<std::string, std::int32_t>;
  using Cache = std::unordered_map<std::string_view, std::vector<std::int32_t>>;

  std::pair<std::size_t, const Added*> next_added(std::string_view text) const {
    for (std::size_t place = 0; place < text.size() && !vocabulary_.added.empty(); ++place) {
      if (!begins_added_[static_cast<std::uint8_t>(text[place])]) continue;
      const Added* longest = nullptr;
      for (const Added& added : vocabulary_.added) {
        const bool here = text.substr(place).starts_with(added.first);
        if (here && (longest == nullptr || added.first.size() > longest->first.size())) longest = &added;
      }
      if (longest != nullptr) return {place, longest};
    }
    return {text.size(), nullptr};
  }

  void encode_ordinary(std::string_view text, std::vector<std::int32_t>& result, Cache& cache) const {
    if (text.empty()) return;
    if (!vocabulary_.splitter) {
      for (const char byte : text) result.push_back(id_of_byte(byte));
      return;
    }
    if (vocabulary_.prefix_space && text.front() != ' ') {
      vocabulary_.splitter->for_each_piece(" " + std::string(text), [&](std::string_view piece) {
        const auto tokens = encode_piece(piece);
        result.insert(result.end(), tokens.begin(), tokens.end());
      });
      return;
    }
    vocabulary_.splitter->for_each_piece(text, [&](std::string_view piece) {
      auto [entry, is_new] = cache.try_emplace(piece);
      if (is_new) entry->second = encode_piece(piece);
      result.insert(result.end(), entry->second.begin(), entry->second.end());
    });
  }

  std::vector<std::int32_t> encode_piece(std::string_view piece) const {
    if (vocabulary_.whole_pieces) {
      if (const auto found = ids_.find(std::string(piece)); found != ids_.end()) return {found->second};
    }
    std::vector<std::int32_t> tokens;
    for (const char byte : piece) tokens.push_back(id_of_byte(byte));
    return merge_pairs(std::move(tokens), vocabulary_.merges);
  }

  std::int32_t id_of_byte(char byte) const {
    const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(byte)];
    if (id != none) return id;
    throw halfstep::Error("the vocabulary has no token for the byte " +
                          std::to_string(static_cast<unsigned>(static_cast<std::uint8_t>(byte))) +
                          " of the text; a byte-level vocabulary has all 256");
  }

  Vocabulary vocabulary_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::array<bool, 256> begins_added_{};
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace gpt
