#pragma once

#include <cstdint>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/nn/attention_shape.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/team_row.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/math.hpp>
#include <halfstep/numeric/traits.hpp>

// What attention on a GPU does beside its products. An *item* is a head of keys and values of one sequence.
// Packed, an item's rows lie side by side: one for each key, and for each query one for each of the `group`
// heads that read these keys.

namespace halfstep::detail {

/// Where an item's elements at one position lie in a tensor: those of `group` heads.
HALFSTEP_HOST_DEVICE inline std::int64_t heads_offset(const AttentionShape& shape, std::int64_t rows,
                                                      std::int64_t leading, std::int64_t group,
                                                      std::int64_t item, std::int64_t position) {
  const std::int64_t sequence = item / shape.key_value_heads, shared = item % shape.key_value_heads;
  return (sequence * rows + position) * leading + shared * group * shape.width;
}

/// Copies the first `rows` positions of all items side by side; keys that no query sees become zeros, so that
/// whatever lies there touches nothing. A task is one position of an item.
template <class T>
struct PackHeads {
  AttentionShape shape;
  HeadsView<const T> from;
  std::int64_t rows;
  bool are_keys;
  T* to;

  HALFSTEP_HOST_DEVICE std::int64_t group() const { return are_keys ? 1 : shape.group(); }
  std::int64_t team_tasks() const { return shape.items() * rows; }
  std::int64_t team_width() const { return group() * shape.width; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t item = task / rows, position = task % rows, count = group() * shape.width;
    const bool is_seen =
        !are_keys || position < shape.visible_keys(item / shape.key_value_heads, shape.queries - 1);
    const T* const source = from.data + heads_offset(shape, from.rows, from.leading, group(), item, position);
    team.for_each(
        count, [&](std::int64_t i) { return is_seen ? source[i] : T{}; },
        [&](std::int64_t i, T value) { to[task * count + i] = value; });
  }
};

/// Queries `first_query` to `first_query + queries` of items `first_item` to `first_item + items`, and as
/// many keys as one of them may see. Their scores are a matrix for each item, with `leading` elements a row.
struct AttentionTile {
  std::int64_t first_item, items;
  std::int64_t first_query, queries;
  std::int64_t keys, leading;
};

/// One row of a tile: a query of a head.
struct AttentionTileRow {
  std::int64_t visible;
  /// Its place in the statistics, [batch, heads, queries].
  std::int64_t place;

  HALFSTEP_HOST_DEVICE AttentionTileRow(const AttentionShape& shape, const AttentionTile& tile,
                                        std::int64_t row) {
    const std::int64_t group = shape.group(), rows = tile.queries * group;
    const std::int64_t item = tile.first_item + row / rows;
    const std::int64_t query = tile.first_query + row % rows / group;
    const std::int64_t sequence = item / shape.key_value_heads;
    const std::int64_t head = item % shape.key_value_heads * group + row % group;
    visible = shape.visible_keys(sequence, query);
    place = (sequence * shape.heads + head) * shape.queries + query;
  }
};

struct ScoreOfRow {
  const float* row;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t key) const { return row[key]; }
};

/// exp(scale (score - maximum)) of each row, 0 for keys that its query does not see, rounded to the type of
/// the operands: the largest is 1, so that none is lost to float16 for being one of many. `results` may be
/// the scores themselves.
template <class T>
struct ShiftedScoreRows {
  AttentionShape shape;
  AttentionTile tile;
  const float* scores;
  T* results;
  AttentionRow* statistics;

  std::int64_t team_tasks() const { return tile.items * tile.queries * shape.group(); }
  std::int64_t team_width() const { return tile.keys; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const AttentionTileRow at(shape, tile, task);
    const TeamRow<Team, 32, ScoreOfRow> row(team, at.visible, ScoreOfRow{scores + task * tile.leading});
    float maximum = -numeric_traits<float>::largest;
    row.for_each([&](int, std::int64_t, float score) { maximum = compute::Maximum{}(maximum, score); });
    maximum = team.combine(maximum, compute::Maximum{});
    T* const result = results + task * tile.leading;
    float sum = 0.0f;
    row.for_each([&](int, std::int64_t key, float score) {
      const float shifted = math::exp((score - maximum) * shape.scale);
      sum += shifted;
      result[key] = static_cast<T>(shifted);
    });
    team.for_each(tile.keys - at.visible, [&](std::int64_t i) { result[at.visible + i] = T{}; });
    sum = team.combine(sum, compute::Plus{});
    if (team.leads()) statistics[at.place] = {maximum, sum == 0.0f ? 0.0f : 1.0f / sum};
  }
};

/// P = exp(scale (score - maximum)) / sum, and dS = P (dP - delta), zeros for keys that a query does not see.
/// The results may lie where scores and dP do.
template <class T>
struct ScoreGradientRows {
  AttentionShape shape;
  AttentionTile tile;
  const AttentionRow* statistics;
  const float* deltas;
  const float* scores;
  const float* probability_gradients;
  T* probabilities;
  T* score_gradients;

  std::int64_t team_tasks() const { return tile.items * tile.queries * shape.group(); }
  std::int64_t team_width() const { return tile.keys; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const AttentionTileRow at(shape, tile, task);
    const AttentionRow row = statistics[at.place];
    const float delta = deltas[at.place];
    const std::int64_t begin = task * tile.leading;
    const auto both = [&](std::int64_t key) {
      if (key >= at.visible) return Gradient{0.0f, 0.0f};
      const std::int64_t i = begin + key;
      const float p = math::exp((scores[i] - row.maximum) * shape.scale) * row.inverse_sum;
      return Gradient{p, p * (probability_gradients[i] - delta)};
    };
    team.for_each(tile.keys, both, [&](std::int64_t key, const Gradient& gradient) {
      probabilities[begin + key] = static_cast<T>(gradient.probability);
      score_gradients[begin + key] = static_cast<T>(gradient.of_score);
    });
  }

 private:
  struct Gradient {
    float probability, of_score;
  };
};

/// rowsum(dO O) of each query of each head. A task is a row of the tensors.
template <class T>
struct AttentionDeltas {
  AttentionShape shape;
  HeadsView<const T> output, output_gradient;
  float* deltas;

  std::int64_t team_tasks() const { return shape.batch * shape.queries * shape.heads; }
  std::int64_t team_width() const { return shape.width; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t row = task / shape.heads, head = task % shape.heads;
    const T* const y = output.data + row * output.leading + head * shape.width;
    const T* const dy = output_gradient.data + row * output_gradient.leading + head * shape.width;
    const auto term = [&](std::int64_t i) { return static_cast<float>(y[i]) * static_cast<float>(dy[i]); };
    const float delta = team.reduce(shape.width, term, 0.0f, compute::Plus{});
    const std::int64_t place =
        (row / shape.queries * shape.heads + head) * shape.queries + row % shape.queries;
    if (team.leads()) deltas[place] = delta;
  }
};

/// Sums of a product go to where their heads lie, times `factor` and, with statistics, times the inverse sum
/// of their query. A task is one of `count` positions from `first` on, of an item; the sums have `rows`
/// positions an item. Keys that no query sees get 0.
template <class T>
struct StoreHeads {
  AttentionShape shape;
  std::int64_t first_item, items;
  std::int64_t first, count, rows;
  const float* sums;
  float factor;
  const AttentionRow* statistics;
  bool are_keys;
  HeadsTarget<T> to;

  HALFSTEP_HOST_DEVICE std::int64_t group() const { return are_keys ? 1 : shape.group(); }
  std::int64_t team_tasks() const { return items * count; }
  std::int64_t team_width() const { return group() * shape.width; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t item = first_item + task / count, position = first + task % count;
    const std::int64_t sequence = item / shape.key_value_heads, heads = group();
    const bool is_seen = !are_keys || position < shape.visible_keys(sequence, shape.queries - 1);
    const float* const source = sums + (task / count * rows + task % count) * heads * shape.width;
    const GradientTarget<T> target{
        to.view.data + heads_offset(shape, to.view.rows, to.view.leading, heads, item, position),
        to.accumulate};
    const std::int64_t head = sequence * shape.heads + item % shape.key_value_heads * shape.group();
    const auto value = [&](std::int64_t i) {
      const float by =
          statistics == nullptr
              ? factor
              : factor * statistics[(head + i / shape.width) * shape.queries + position].inverse_sum;
      return is_seen ? source[i] * by : 0.0f;
    };
    team.for_each(heads * shape.width, value,
                   [&](std::int64_t i, float sum) { store_gradient(target, i, sum); });
  }
};

}  // namespace halfstep::detail
