#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <halfstep/data/file.hpp>
#include <halfstep/data/hash.hpp>
#include <halfstep/data/mapped_file.hpp>
#include <halfstep/error.hpp>
#include <halfstep/tensor/dtype.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace halfstep {

struct TokenOptions {
  /// Tokens that a model sees of a sample.
  std::int64_t sequence_length = 256;
  /// From the beginning of a sample to that of the next. 0 stands for the sequence length: each token is
  /// predicted once an epoch. 1 takes a sample at every token.
  std::int64_t stride = 0;
  /// Tokens must be below this; 0 for no check.
  std::int64_t vocabulary = 0;
};

/// Sequences of a long row of tokens: sample i is the `sequence_length` tokens from i times the stride on,
/// and as its targets the same moved on by one. What is left at the end and does not make a sample is left
/// out.
template <class Token>
requires(std::same_as<Token, std::uint8_t> || std::same_as<Token, std::uint16_t>) class TokenDataset {
 public:
  /// Owns the memory that its tensors show, so it moves but does not copy.
  class Batch {
   public:
    /// Both [samples, sequence_length].
    Tensor<const std::int32_t> inputs;
    Tensor<const std::int32_t> targets;

    Batch() = default;
    Batch(Batch&&) = default;
    Batch& operator=(Batch&&) = default;

   private:
    friend TokenDataset;
    std::vector<std::int32_t> input_values_;
    std::vector<std::int32_t> target_values_;
  };

  /// Takes tokens in memory. Throws ConfigurationError for a sequence length below 1, or a stride or
  /// vocabulary below 0, and Error for fewer tokens than one sample and its last target need.
  explicit TokenDataset(std::span<const Token> tokens, const TokenOptions& options = {})
      : TokenDataset(detail::SharedBytes(copy(tokens)), "tokens", options) {}

  /// A file of tokens and nothing else, lowest byte first, mapped into memory: it may be larger than that,
  /// and must stay as it is while it is used. Throws as above, and Error for a file that cannot be read or
  /// ends within a token.
  static TokenDataset map(const std::filesystem::path& path, const TokenOptions& options = {}) {
    return TokenDataset(detail::SharedBytes::map(path), path.string(), options);
  }
  /// The same, read into memory as a whole.
  static TokenDataset read(const std::filesystem::path& path, const TokenOptions& options = {}) {
    return TokenDataset(detail::SharedBytes(detail::read_file(path)), path.string(), options);
  }

  std::int64_t size() const { return (tokens() - options_.sequence_length - 1) / options_.stride + 1; }
  /// The number of all tokens.
  std::int64_t tokens() const { return static_cast<std::int64_t>(data_.bytes().size() / sizeof(Token)); }
  Token token(std::int64_t position) const {
    std::uint16_t value = 0;
    const std::byte* const from = data_.bytes().data() + position * static_cast<std::int64_t>(sizeof(Token));
    value = static_cast<std::uint16_t>(from[0]);
    if constexpr (sizeof(Token) == 2)
      value = static_cast<std::uint16_t>(value | static_cast<unsigned>(from[1]) << 8);
    return static_cast<Token>(value);
  }

  /// How many tokens and how they are cut, and a hash of 1 MiB of them, taken evenly from all.
  const std::string& identity() const { return identity_; }

  /// Throws ShapeError for an index outside the dataset, and Error with its place for a token that the
  /// vocabulary does not have; the batch then holds nothing of use.
  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    const auto rows = static_cast<std::int64_t>(indices.size());
    const std::int64_t length = options_.sequence_length;
    batch.input_values_.resize(indices.size() * static_cast<std::size_t>(length));
    batch.target_values_.resize(batch.input_values_.size());
    auto input = batch.input_values_.begin(), target = batch.target_values_.begin();
    for (const std::int64_t index : indices) {
      if (index < 0 || index >= size()) {
        throw ShapeError(name_ + ": sequence " + std::to_string(index) + " was asked for, of " +
                         std::to_string(size()));
      }
      const std::int64_t first = index * options_.stride;
      for (std::int64_t i = 0; i < length; ++i) *input++ = token(first + i);
      for (std::int64_t i = 0; i < length; ++i) *target++ = token(first + i + 1);
      if (options_.vocabulary > 0) require_known(first, length + 1);
    }
    batch.inputs = {batch.input_values_.data(), {rows, length}};
    batch.targets = {batch.target_values_.data(), {rows, length}};
  }

 private:
  TokenDataset(detail::SharedBytes data, std::string name, const TokenOptions& options)
      : data_(std::move(data)), name_(std::move(name)), options_(options) {
    if (options.sequence_length < 1 || options.stride < 0 || options.vocabulary < 0) {
      throw ConfigurationError(name_ + ": sequence_length is " + std::to_string(options.sequence_length) +
                               ", which must be at least 1; stride is " + std::to_string(options.stride) +
                               " and vocabulary " + std::to_string(options.vocabulary) +
                               ", which must not be below 0");
    }
    if (data_.bytes().size() % sizeof(Token) != 0) {
      throw Error(name_ + ": " + std::to_string(data_.bytes().size()) +
                  " bytes are no whole number of tokens of " + std::to_string(sizeof(Token)) + " bytes");
    }
    if (tokens() - 1 < options.sequence_length) {
      throw Error(name_ + ": " + std::to_string(tokens()) + " tokens do not make one sequence of " +
                  std::to_string(options.sequence_length) + " and the token after it");
    }
    if (options_.stride == 0) options_.stride = options_.sequence_length;
    identity_ = std::to_string(tokens()) + " tokens " + std::string(name_of(dtype_of<Token>)) +
                ", sequences of " + std::to_string(options_.sequence_length) + " at every " +
                std::to_string(options_.stride) + ", content " + sampled_hash();
  }

  static std::vector<std::byte> copy(std::span<const Token> tokens) {
    std::vector<std::byte> bytes(tokens.size_bytes());
    std::byte* next = bytes.data();
    for (const Token token : tokens) {
      for (std::size_t i = 0; i < sizeof(Token); ++i) *next++ = static_cast<std::byte>(token >> 8 * i & 0xff);
    }
    return bytes;
  }

  void require_known(std::int64_t first, std::int64_t count) const {
    for (std::int64_t i = first; i < first + count; ++i) {
      if (token(i) < options_.vocabulary) continue;
      throw Error(name_ + ": token " + std::to_string(token(i)) + " at place " + std::to_string(i) +
                  " is outside a vocabulary of " + std::to_string(options_.vocabulary));
    }
  }

  std::string sampled_hash() const {
    constexpr std::size_t pieces = 256, piece = 4096;
    const std::span<const std::byte> all = data_.bytes();
    detail::ContentHash hash;
    if (all.size() <= pieces * piece) return hash.add(all).text();
    for (std::size_t i = 0; i < pieces; ++i) {
      hash.add(all.subspan((all.size() - piece) / (pieces - 1) * i, piece));
    }
    return hash.add(all.last(piece)).text();
  }

  detail::SharedBytes data_;
  std::string name_;
  TokenOptions options_;
  std::string identity_;
};

}  // namespace halfstep
