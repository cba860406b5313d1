#pragma once

#include <cstddef>
#include <cstdint>
#include <halfstep/error.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "utf8.hpp"

#ifdef HALFSTEP_EXAMPLE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace gpt {

/// GPT-2's: contractions, words, numbers and signs, each with the space before it, and white space.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace detail {

enum class Kind { letter, number, space, other, invalid };

/// Exact for ASCII. Beyond it, where only a table of Unicode would be: the blocks of punctuation, currency,
/// arrows, mathematics, boxes, dingbats and emoji are `other`, white space is `space`, superscripts,
/// fractions and circled numbers are `number`, and all the rest are letters.
inline Kind kind_of(char32_t code) {
  const auto within = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  if (within('a', 'z') || within('A', 'Z')) return Kind::letter;
  if (within('0', '9')) return Kind::number;
  if (code == ' ' || within('\t', '\r')) return Kind::space;
  if (code < 0x80) return Kind::other;
  if (code == 0x85 || code == 0xa0 || code == 0x1680 || within(0x2000, 0x200a) || code == 0x2028 ||
      code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000) {
    return Kind::space;
  }
  if (code == 0xb2 || code == 0xb3 || code == 0xb9 || within(0xbc, 0xbe) || within(0x2070, 0x2089) ||
      within(0x2150, 0x2189) || within(0x2460, 0x249b)) {
    return Kind::number;
  }
  if (code == 0xaa || code == 0xb5 || code == 0xba) return Kind::letter;
  if (code < 0xc0 || code == 0xd7 || code == 0xf7 || within(0x0300, 0x036f) || within(0x2000, 0x2bff) ||
      within(0x3001, 0x3003) || within(0x3008, 0x3020) || within(0xe000, 0xf8ff) || within(0xfe00, 0xfe0f) ||
      within(0xff01, 0xff0f) || within(0x1f000, 0x1faff)) {
    return Kind::other;
  }
  return Kind::letter;
}

struct Run {
  Kind kind;
  std::size_t size;
};
inline Run run_at(std::string_view text, std::size_t position) {
  const Character character = character_at(text, position);
  return {character.valid ? kind_of(character.code) : Kind::invalid, character.size};
}

/// Bytes from `position` on whose characters are of one kind, and how many of them the last character takes.
struct Stretch {
  std::size_t size = 0;
  std::size_t last = 0;
};
inline Stretch stretch_of(std::string_view text, std::size_t position, Kind kind) {
  Stretch stretch;
  while (position + stretch.size < text.size()) {
    const Run run = run_at(text, position + stretch.size);
    if (run.kind != kind) break;
    stretch = {stretch.size + run.size, run.size};
  }
  return stretch;
}

/// Bytes of the piece that gpt2_pattern finds at `position`.
inline std::size_t gpt2_piece(std::string_view text, std::size_t position) {
  const std::string_view rest = text.substr(position);
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (rest.starts_with(ending)) return ending.size();
  }
  const std::size_t spaces = rest.front() == ' ' ? 1 : 0;
  if (spaces < rest.size()) {
    const Kind kind = run_at(rest, spaces).kind;
    if (kind == Kind::letter || kind == Kind::number || kind == Kind::other) {
      return spaces + stretch_of(rest, spaces, kind).size;
    }
  }
  const Kind kind = run_at(rest, 0).kind;
  const Stretch stretch = stretch_of(rest, 0, kind);
  if (kind == Kind::invalid || stretch.size == rest.size() || stretch.size == stretch.last)
    return stretch.size;
  // White space before a word leaves its last character to the word.
  return run_at(rest, stretch.size).kind == Kind::invalid ? stretch.size : stretch.size - stretch.last;
}

}  // namespace detail

/// Cuts text into the pieces that byte pairs are merged within. What a pattern does not match, such as bytes
/// that are no UTF-8, are pieces too: the pieces joined are the text.
///
/// With PCRE2, any pattern with Unicode's exact classes. Without, GPT-2's alone, by hand: see
/// detail::kind_of.
class Splitter {
 public:
  /// Throws halfstep::Error for a pattern that cannot be had.
  explicit Splitter(std::string pattern = std::string(gpt2_pattern)) : pattern_(std::move(pattern)) {
    compile();
  }

  const std::string& pattern() const { return pattern_; }

  template <class Function>
  void for_each_piece(std::string_view text, const Function& function) const {
#ifdef HALFSTEP_EXAMPLE_PCRE2
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr), &pcre2_match_data_free);
    if (match == nullptr) throw halfstep::Error("there is no memory for matching a pattern");
    const auto* bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
    std::size_t from = 0, done = 0;
    while (from < text.size()) {
      const int found = pcre2_match(code_.get(), bytes, text.size(), from, 0, match.get(), nullptr);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) throw halfstep::Error("matching \"" + pattern_ + "\": " + message(found));
      const PCRE2_SIZE* const place = pcre2_get_ovector_pointer(match.get());
      if (place[1] == place[0]) {  // an empty match: on by one byte, which belongs to the gap
        from = place[1] + 1;
        continue;
      }
      if (place[0] > done) function(text.substr(done, place[0] - done));
      function(text.substr(place[0], place[1] - place[0]));
      from = done = place[1];
    }
    if (done < text.size()) function(text.substr(done));
#else
    for_each_piece_by_hand(text, function);
#endif
  }

  /// GPT-2's pattern, whatever the splitter's is.
  template <class Function>
  static void for_each_piece_by_hand(std::string_view text, const Function& function) {
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t size = detail::gpt2_piece(text, position);
      function(text.substr(position, size));
      position += size;
    }
  }

 private:
#ifdef HALFSTEP_EXAMPLE_PCRE2
  void compile() {
    int fault = 0;
    PCRE2_SIZE place = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern_.data()), pattern_.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &fault, &place, nullptr),
                &pcre2_code_free);
    if (code_ == nullptr) {
      throw halfstep::Error("the pattern \"" + pattern_ + "\" is wrong at byte " + std::to_string(place) +
                            ": " + message(fault));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where it cannot, matching is slower
  }
  static std::string message(int code) {
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(code, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }
  std::shared_ptr<pcre2_code> code_;
#else
  void compile() const {
    if (pattern_ == gpt2_pattern) return;
    throw halfstep::Error(
        "the pattern \"" + pattern_ +
        "\" needs PCRE2, which this program was built without; install libpcre2-dev and build again");
  }
#endif

  std::string pattern_;
};

}  // namespace gpt
