#pragma once

#include <cstdint>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/device/arena.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>
#include <utility>

namespace halfstep::detail {

/// `gradient`, [count, width], is to be added to the rows of `weight_gradient` that the tokens name.
template <class T, class Token>
struct RowsToAdd {
  const T* gradient;
  const Token* tokens;
  std::int64_t count;
  std::int64_t width;
  float* weight_gradient;

  HALFSTEP_HOST_DEVICE float* row_of(std::int64_t position) const {
    return weight_gradient + static_cast<std::int64_t>(tokens[position]) * width;
  }
};

/// Adds every token's gradient to its row, for one block of columns: tasks share no element, and tokens are
/// added in their order, whatever the number of threads.
template <class T, class Token>
struct AddToRows {
  RowsToAdd<T, Token> rows;

  static constexpr std::int64_t columns_of_task = 64;
  std::int64_t tasks() const { return (rows.width + columns_of_task - 1) / columns_of_task; }

  void operator()(std::int64_t task) const {
    const std::int64_t width = rows.width, begin = task * columns_of_task;
    const std::int64_t columns = begin + columns_of_task < width ? columns_of_task : width - begin;
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const T* from = rows.gradient + i * width + begin;
      float* to = rows.row_of(i) + begin;
      HALFSTEP_SIMD
      for (std::int64_t j = 0; j < columns; ++j) to[j] += static_cast<float>(from[j]);
    }
  }
};

template <class T, class Token>
void add_to_rows(Host& host, Arena<Host>&, const RowsToAdd<T, Token>& rows) {
  const AddToRows<T, Token> add{rows};
  compute::for_each_task(host, add.tasks(), add);
}

/// Where a position comes when positions are sorted by their tokens, and then by their order.
struct TokenPlace {
  std::int64_t rank;
  /// Positions with the same token: those before this one, and all of them.
  std::int64_t before;
  std::int64_t alike;

  /// The gradients of one token are summed in pieces of this many, so that a token that is everywhere, a space or
  /// padding, keeps many threads busy. The last piece takes what is left as well.
  static constexpr std::int64_t of_piece = 32;
  HALFSTEP_HOST_DEVICE std::int64_t pieces() const { return alike < 2 * of_piece ? 1 : alike / of_piece; }
  HALFSTEP_HOST_DEVICE bool begins_a_piece() const { return before % of_piece == 0 && before / of_piece < pieces(); }
  HALFSTEP_HOST_DEVICE std::int64_t piece_size() const {
    return before / of_piece + 1 < pieces() ? of_piece : alike - before;
  }
  /// Where a piece's sum is put if there are several. Two pieces of them begin at least `of_piece` ranks apart.
  HALFSTEP_HOST_DEVICE std::int64_t partial() const { return rank / of_piece; }
};

/// Ranks of neighbouring positions, which are found together: every token is read once for all of them.
struct NeighbouringRanks {
  static constexpr int number = 4;
  std::int64_t of[number];
};

struct AddRanks {
  HALFSTEP_HOST_DEVICE NeighbouringRanks operator()(const NeighbouringRanks& a, const NeighbouringRanks& b) const {
    NeighbouringRanks sums;
    for (int k = 0; k < NeighbouringRanks::number; ++k) sums.of[k] = a.of[k] + b.of[k];
    return sums;
  }
};

/// Sorts runs of `length` positions, a multiple of four, by counting for each position who comes before it: for few
/// faster than a sort in several passes.
template <class Token>
struct SortRuns {
  const Token* tokens;
  std::int64_t count;
  std::int64_t length;
  std::int64_t* order;

  static constexpr int number = NeighbouringRanks::number;

  std::int64_t team_tasks() const { return (count + number - 1) / number; }
  std::int64_t team_width() const { return compute::warp_elements; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t first = task * number, left = count - first < number ? count - first : number;
    const std::int64_t begin = first / length * length, size = count - begin < length ? count - begin : length;
    Token mine[number];
    for (int k = 0; k < number; ++k) mine[k] = tokens[k < left ? first + k : first];
    const auto counted = [&](std::int64_t i) {
      const Token token = tokens[begin + i];
      NeighbouringRanks found;
      for (int k = 0; k < number; ++k) {
        found.of[k] = token < mine[k] || (token == mine[k] && begin + i < first + k);
      }
      return found;
    };
    const auto found = team.reduce(size, counted, NeighbouringRanks{}, AddRanks{});
    if (!team.leads()) return;
    for (int k = 0; k < left; ++k) order[begin + found.of[k]] = first + k;
  }
};

/// Positions that are sorted by their tokens, in runs or all.
template <class Token>
struct SortedPositions {
  const Token* tokens;
  std::int64_t count;
  const std::int64_t* order;

  HALFSTEP_HOST_DEVICE Token token(std::int64_t rank) const { return tokens[order[rank]]; }
  /// The first rank in the sorted [begin, end) whose token is larger than `limit`, or the same if `or_same`; else end.
  HALFSTEP_HOST_DEVICE std::int64_t first_after(Token limit, std::int64_t begin, std::int64_t end, bool or_same) const {
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      const Token found = token(middle);
      if (found < limit || (found == limit && !or_same)) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }

  /// A thread has one rank: it waits for memory most of the time.
  static constexpr std::int64_t ranks_of_task = 32;
  std::int64_t team_tasks() const { return (count + ranks_of_task - 1) / ranks_of_task; }
  template <class Team, class Function>
  HALFSTEP_HOST_DEVICE void for_each_rank(const Team& team, std::int64_t task, const Function& function) const {
    const std::int64_t begin = task * ranks_of_task, left = count - begin;
    team.for_each(left < ranks_of_task ? left : ranks_of_task, [&](std::int64_t i) { function(begin + i); });
  }
};

/// Merges each two neighbouring runs of `length` positions into one.
template <class Token>
struct MergeRuns {
  SortedPositions<Token> runs;
  std::int64_t length;
  std::int64_t* merged;

  std::int64_t team_tasks() const { return runs.team_tasks(); }
  std::int64_t team_width() const { return runs.ranks_of_task; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    runs.for_each_rank(team, task, [&](std::int64_t rank) {
      const std::int64_t own = rank / length, count = runs.count;
      const std::int64_t begin = (own ^ 1) * length < count ? (own ^ 1) * length : count;
      const std::int64_t end = begin + length < count ? begin + length : count;
      // Of equal tokens those of the first run come first.
      const std::int64_t before = runs.first_after(runs.token(rank), begin, end, own % 2 == 0) - begin;
      merged[own / 2 * 2 * length + rank % length + before] = runs.order[rank];
    });
  }
};

/// Finds the place of every position once all are sorted.
template <class Token>
struct FindPlaces {
  SortedPositions<Token> sorted;
  TokenPlace* places;

  std::int64_t team_tasks() const { return sorted.team_tasks(); }
  std::int64_t team_width() const { return sorted.ranks_of_task; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    sorted.for_each_rank(team, task, [&](std::int64_t rank) {
      const Token token = sorted.token(rank);
      const std::int64_t first = sorted.first_after(token, 0, rank, true);
      const std::int64_t end = sorted.first_after(token, rank, sorted.count, false);
      places[sorted.order[rank]] = {rank, rank - first, end - first};
    });
  }
};

/// Adds up pieces of gradients of one token, for up to `warp_elements` columns, in the order of their positions.
template <class T, class Token>
struct SumPieces {
  RowsToAdd<T, Token> rows;
  const TokenPlace* places;
  const std::int64_t* order;
  float* partials;

  HALFSTEP_HOST_DEVICE std::int64_t column_tasks() const {
    return (rows.width + compute::warp_elements - 1) / compute::warp_elements;
  }
  std::int64_t team_tasks() const { return rows.count * column_tasks(); }
  std::int64_t team_width() const { return compute::warp_elements; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t position = task / column_tasks(), width = rows.width;
    const TokenPlace place = places[position];
    if (!place.begins_a_piece()) return;
    const bool is_all = place.pieces() == 1;
    float* const to = is_all ? rows.row_of(position) : partials + place.partial() * width;
    const T* const gradient = rows.gradient;
    const std::int64_t* const positions = order + place.rank;
    const std::int64_t size = place.piece_size();
    const bool aligned = width % 4 == 0 && compute::begins_a_four(gradient) && compute::begins_a_four(to);
    const auto on_four = [&](std::int64_t column) {
      compute::Four<float> sum{};
      if (is_all) sum = compute::load_four(to + column);
      const auto load = [&](std::int64_t i) { return compute::load_four(gradient + positions[i] * width + column); };
      const auto add = [&](const compute::Four<T>& from) {
        for (int k = 0; k < 4; ++k) sum.of[k] += static_cast<float>(from.of[k]);
      };
      std::int64_t i = 0;
      for (; i + 4 <= size; i += 4) {
        // Four reads are under way at once.
        const compute::Four<T> from[4] = {load(i), load(i + 1), load(i + 2), load(i + 3)};
        for (const auto& four : from) add(four);
      }
      for (; i < size; ++i) add(load(i));
      compute::store_four(to + column, sum);
    };
    const auto on_rest = [&](std::int64_t column, std::int64_t count) {
      for (std::int64_t j = column; j < column + count; ++j) {
        float sum = is_all ? to[j] : 0.0f;
        for (std::int64_t i = 0; i < size; ++i) sum += static_cast<float>(gradient[positions[i] * width + j]);
        to[j] = sum;
      }
    };
    compute::for_each_four(team, task % column_tasks() * compute::warp_elements, width, aligned, on_four, on_rest);
  }
};

/// Adds up the pieces of the tokens that have several, at the position where such a token comes first.
template <class T, class Token>
struct JoinPieces {
  RowsToAdd<T, Token> rows;
  const TokenPlace* places;
  const float* partials;

  std::int64_t team_tasks() const { return rows.count; }
  std::int64_t team_width() const { return rows.width; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t position) const {
    const TokenPlace place = places[position];
    if (place.before != 0 || place.pieces() == 1) return;
    float* const to = rows.row_of(position);
    const float* const from = partials + place.partial() * rows.width;
    team.for_each(rows.width, [&](std::int64_t column) {
      float sum = to[column];
      for (std::int64_t piece = 0; piece < place.pieces(); ++piece) sum += from[piece * rows.width + column];
      to[column] = sum;
    });
  }
};

/// Without atomic additions, and without a word from the host, which need not know the tokens: the order of every sum
/// depends on the tokens alone.
template <class Device, class T, class Token>
  requires(!Device::shares_host_memory)
void add_to_rows(Device& device, Arena<Device>& arena, const RowsToAdd<T, Token>& rows) {
  constexpr std::int64_t sorted_by_counting = 2048;
  auto* const places = arena.template allocate<TokenPlace>(rows.count);
  auto* order = arena.template allocate<std::int64_t>(rows.count);
  auto* merged = arena.template allocate<std::int64_t>(rows.count);
  const SortRuns<Token> sort{rows.tokens, rows.count, sorted_by_counting, order};
  compute::for_each_task(device, rows.count, sort);
  for (std::int64_t length = sorted_by_counting; length < rows.count; length *= 2) {
    const MergeRuns<Token> merge{{rows.tokens, rows.count, order}, length, merged};
    compute::for_each_task(device, rows.count, merge);
    std::swap(order, merged);
  }
  compute::for_each_task(device, rows.count, FindPlaces<Token>{{rows.tokens, rows.count, order}, places});
  const std::int64_t pieces = rows.count / TokenPlace::of_piece;
  float* const partials = arena.template allocate<float>(pieces * rows.width);
  compute::for_each_task(device, rows.count, SumPieces<T, Token>{rows, places, order, partials});
  if (pieces > 1) compute::for_each_task(device, rows.count, JoinPieces<T, Token>{rows, places, partials});
}

}  // namespace halfstep::detail
