#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <halfstep/data/loader.hpp>
#include <halfstep/data/order.hpp>
#include <halfstep/data/tokens.hpp>
#include <halfstep/error.hpp>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results.hpp"
#include "tokenizer.hpp"

namespace gpt {

using Tokens = halfstep::TokenDataset<std::uint16_t>;

/// A text in tokens: its last tenth is held out, the rest is to train on, in sequences of a context's length.
struct Text {
  /// Throws halfstep::Error for a file that cannot be read, is empty or too short for a sequence, and for a
  /// vocabulary of more than 65536.
  static Text read(const std::filesystem::path& path, const Tokenizer& tokenizer, std::int64_t context) {
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path))
      throw halfstep::Error(path.string() + ": cannot be read");
    return of({std::istreambuf_iterator<char>(file), {}}, path.string(), tokenizer, context);
  }

  /// `name` is the text's in messages.
  static Text of(const std::string& text, const std::string& name, const Tokenizer& tokenizer,
                 std::int64_t context) {
    if (text.empty()) throw halfstep::Error(name + ": the text is empty; there is nothing to train on");
    if (tokenizer.size() > std::numeric_limits<std::uint16_t>::max() + std::int64_t{1}) {
      throw halfstep::Error("a vocabulary of " + std::to_string(tokenizer.size()) +
                            " tokens is too large to train on; at most 65536 are kept in 16 bits");
    }
    constexpr std::size_t held_out = 10;  // one part in so many
    std::size_t cut = text.size() - text.size() / held_out;
    while (cut < text.size() && (text[cut] & 0xc0) == 0x80) ++cut;  // not within a character
    const std::string_view all = text;
    return {dataset(all.substr(0, cut), name + ", what is to train on", tokenizer, context),
            dataset(all.substr(cut), name + ", the held-out last tenth", tokenizer, context)};
  }

  Tokens training, held_out;

 private:
  static Tokens dataset(std::string_view text, const std::string& name, const Tokenizer& tokenizer,
                        std::int64_t context) {
    const std::vector<std::int32_t> tokens = tokenizer.encode(text);
    if (static_cast<std::int64_t>(tokens.size()) <= context) {
      throw halfstep::Error(name + ": " + std::to_string(tokens.size()) +
                            " tokens do not make a sequence of " + std::to_string(context) +
                            " and the token after it; give a longer text or a shorter context");
    }
    const std::vector<std::uint16_t> narrow(tokens.begin(), tokens.end());
    return Tokens(std::span<const std::uint16_t>(narrow),
                  {.sequence_length = context, .vocabulary = tokenizer.size()});
  }
};

/// The loss over the first `most_batches` batches of the held-out text, 0 for all.
template <class Trainer>
HeldOut evaluate(Trainer& trainer, const Tokens& text, const Tokenizer& tokenizer, std::int64_t batch_size,
                 std::int64_t most_batches) {
  halfstep::Loader loader(text, {.batch_size = batch_size}, halfstep::Sequential{});
  HeldOut result;
  std::int64_t batches = 0;
  for (const auto& batch : loader) {
    const halfstep::Evaluation one = trainer.evaluate(batch);
    result.loss_sum += one.loss_sum;
    result.tokens += one.valid_count;
    for (std::int64_t i = 0; i < batch.targets.size(); ++i) {
      result.bytes += static_cast<std::int64_t>(tokenizer.token(batch.targets.data()[i]).size());
    }
    if (++batches == most_batches) break;
  }
  return result;
}

}  // namespace gpt
