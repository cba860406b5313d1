#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace gpt {

/// Two neighbouring tokens become one; the lowest rank goes first.
struct Merge {
  std::int32_t rank = 0;
  std::int32_t result = 0;
};

class MergeTable {
 public:
  /// False, and nothing changed, where the pair has a merge.
  bool add(std::int32_t left, std::int32_t right, Merge merge) {
    return merges_.emplace(key(left, right), merge).second;
  }
  /// Null where the pair does not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    const auto found = merges_.find(key(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }
  std::size_t size() const { return merges_.size(); }

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::unordered_map<std::uint64_t, Merge> merges_;
};

/// Byte-pair encoding of one piece (Sennrich et al., Neural Machine Translation of Rare Words with Subword
/// Units, 2016): of all neighbours that merge, those of the lowest rank, the leftmost first, until none do. n
/// log n for a piece of n.
inline std::vector<std::int32_t> merge_pairs(std::vector<std::int32_t> tokens, const MergeTable& merges) {
  constexpr std::int32_t gone = -1;
  using Candidate =
      std::tuple<std::int32_t, std::size_t, std::int32_t, std::int32_t>;  // rank, place, left, right
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const std::size_t size = tokens.size();
  std::vector<std::size_t> next(size), previous(size);
  const auto propose = [&](std::size_t left) {
    if (left >= size || next[left] >= size) return;
    const std::int32_t a = tokens[left], b = tokens[next[left]];
    if (const Merge* merge = merges.find(a, b)) candidates.emplace(merge->rank, left, a, b);
  };
  for (std::size_t i = 0; i < size; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? size : i - 1;
  }
  for (std::size_t i = 0; i < size; ++i) propose(i);
  while (!candidates.empty()) {
    const auto [rank, left, a, b] = candidates.top();
    candidates.pop();
    // What was proposed may have been merged with another neighbour meanwhile.
    if (tokens[left] != a || next[left] >= size || tokens[next[left]] != b) continue;
    const std::size_t right = next[left];
    tokens[left] = merges.find(a, b)->result;
    tokens[right] = gone;
    next[left] = next[right];
    if (next[left] < size) previous[next[left]] = left;
    propose(left);
    propose(previous[left]);
  }
  std::erase(tokens, gone);
  return tokens;
}

}  // namespace gpt
