#pragma once

#include <cmath>
#include <cstdint>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/store_value.hpp>
#include <halfstep/nn/sum.hpp>
#include <halfstep/nn/team_row.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/bits.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/numeric/traits.hpp>

// What norms compute, row by row: on a CPU some rows a task, on a GPU a row a team.

namespace halfstep::detail {

/// What LayerNorm and RmsNorm share: a row becomes (x - center) * scale, times weight, plus bias. They differ
/// in a `Rule`, which measures center and scale.
struct RowNorm {
  float center;
  float scale;
};

template <class X>
struct CenteredTerm {
  const X* row;
  float center;
  float operator()(std::int64_t j) const { return static_cast<float>(row[j]) - center; }
};
template <class X>
struct CenteredSquareTerm {
  const X* row;
  float center;
  float operator()(std::int64_t j) const {
    const float distance = static_cast<float>(row[j]) - center;
    return distance * distance;
  }
};

template <class Term>
float mean_of(const Term& term, std::int64_t width) {
  return compute::detail::reduce_range(0, width, term, 0.0f, compute::Plus{}) / static_cast<float>(width);
}

/// 1 / sqrt(mean_square + epsilon). Squares beyond float's range make a row of NaN, which is seen, where an
/// infinity here would make one of zeros, which is not.
HALFSTEP_HOST_DEVICE inline float scale_of(float mean_square, float epsilon) {
  return is_finite(mean_square) ? 1.0f / std::sqrt(mean_square + epsilon) : float_of(0x7fc00000u);
}

struct LayerNormRule {
  static constexpr bool centers = true;
  /// Mean, and then variance around it: E[x^2] - E[x]^2 would cancel. The mean is corrected by the mean
  /// distance from it, so that a row of equal numbers is zeros and not its own rounding times 1 /
  /// sqrt(epsilon).
  template <class X>
  static RowNorm measure(const X* row, std::int64_t width, float epsilon) {
    const float first = mean_of(ValueTerm<X>{row}, width);
    const float mean = first + mean_of(CenteredTerm<X>{row, first}, width);
    return {mean, scale_of(mean_of(CenteredSquareTerm<X>{row, mean}, width), epsilon)};
  }
  template <class Row>
  HALFSTEP_HOST_DEVICE static RowNorm measure(const Row& row, float epsilon) {
    const float first = row.mean([](float x) { return x; });
    const float mean = first + row.mean([first](float x) { return x - first; });
    return {mean, scale_of(row.mean([mean](float x) { return (x - mean) * (x - mean); }), epsilon)};
  }
};

struct RmsNormRule {
  static constexpr bool centers = false;
  template <class X>
  static RowNorm measure(const X* row, std::int64_t width, float epsilon) {
    return {0.0f, scale_of(mean_of(CenteredSquareTerm<X>{row, 0.0f}, width), epsilon)};
  }
  template <class Row>
  HALFSTEP_HOST_DEVICE static RowNorm measure(const Row& row, float epsilon) {
    return {0.0f, scale_of(row.mean([](float x) { return x * x; }), epsilon)};
  }
};

/// Rows, and how they are cut into tasks: the same for every number of threads.
struct RowBlocks {
  std::int64_t rows;
  std::int64_t width;

  std::int64_t rows_of_task() const { return compute::detail::rows_of_column_block(width); }
  std::int64_t tasks() const { return (rows + rows_of_task() - 1) / rows_of_task(); }
  /// Calls `function(row)` for each row of a task.
  template <class Function>
  void for_rows_of(std::int64_t task, const Function& function) const {
    const std::int64_t begin = task * rows_of_task();
    const std::int64_t end = begin + rows_of_task() < rows ? begin + rows_of_task() : rows;
    for (std::int64_t row = begin; row < end; ++row) function(row);
  }

  /// The cut of the backward pass on a GPU: rows whose parameters' gradients one team sums up. As few as keep
  /// all of a large GPU busy, as many as keep partial sums a small part of what is read and written.
  HALFSTEP_HOST_DEVICE std::int64_t rows_of_team() const {
    constexpr std::int64_t enough_teams = 1024, fewest = 4, most = 64;
    const std::int64_t wanted = rows / enough_teams;
    return wanted < fewest ? fewest : wanted < most ? wanted : most;
  }
  std::int64_t teams() const { return (rows + rows_of_team() - 1) / rows_of_team(); }
  /// How many partial sums of each column there are on a device.
  template <class Device>
  std::int64_t partials() const {
    return Device::shares_host_memory ? tasks() : teams();
  }
};

/// Rows that are there, and rows that are made on the way as the sum of two others.
template <class X>
struct StoredRows {
  const X* values;
  const X* at(std::int64_t offset, std::int64_t) const { return values + offset; }
  HALFSTEP_HOST_DEVICE float element(std::int64_t i) const { return static_cast<float>(values[i]); }
  static constexpr bool are_made = false;
};
template <class A, class B, class S>
struct SummedRows {
  const A* a;
  const B* b;
  S* sum;
  const S* at(std::int64_t offset, std::int64_t width) const {
    add_range(a + offset, b + offset, sum + offset, width);
    return sum + offset;
  }
  HALFSTEP_HOST_DEVICE float element(std::int64_t i) const {
    return static_cast<float>(static_cast<S>(static_cast<float>(a[i]) + static_cast<float>(b[i])));
  }
  static constexpr bool are_made = true;
  HALFSTEP_HOST_DEVICE void store(std::int64_t i, float value) const { sum[i] = static_cast<S>(value); }
};

/// What TeamRow loads in the forward pass.
template <class Rows>
struct InputElement {
  Rows rows;
  std::int64_t begin;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t j) const { return rows.element(begin + j); }
};

template <class Rule, class Rows, class Y>
struct NormalizeRows {
  RowBlocks blocks;
  Rows input;
  const float* weight;
  const float* bias;  // may be null
  float epsilon;
  RowNorm* norms;
  Y* result;

  void operator()(std::int64_t task) const {
    blocks.for_rows_of(task, [this](std::int64_t row) {
      const std::int64_t width = blocks.width;
      const auto* x = input.at(row * width, width);
      const RowNorm norm = Rule::measure(x, width, epsilon);
      norms[row] = norm;
      Y* y = result + row * width;
      const float *w = weight, *b = bias;
      if (b == nullptr) {
        HALFSTEP_SIMD
        for (std::int64_t j = 0; j < width; ++j) {
          store_value(y, j, (static_cast<float>(x[j]) - norm.center) * norm.scale * w[j]);
        }
      } else {
        HALFSTEP_SIMD
        for (std::int64_t j = 0; j < width; ++j) {
          store_value(y, j, (static_cast<float>(x[j]) - norm.center) * norm.scale * w[j] + b[j]);
        }
      }
    });
  }

  std::int64_t team_tasks() const { return blocks.rows; }
  std::int64_t team_width() const { return blocks.width; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t index) const {
    using Load = InputElement<Rows>;
    const TeamRow<Team, 32, Load> row(team, blocks.width, Load{input, index * blocks.width});
    const RowNorm norm = Rule::measure(row, epsilon);
    if (team.leads()) norms[index] = norm;
    const std::int64_t begin = index * blocks.width;
    if constexpr (Rows::are_made) {
      row.for_each([](std::int64_t, float x) { return x; },
                   [&](std::int64_t j, float x) { input.store(begin + j, x); });
    }
    const auto y = [&](std::int64_t j, float x) {
      const float value = (x - norm.center) * norm.scale * weight[j];
      return bias == nullptr ? value : value + bias[j];
    };
    row.for_each(y, [&](std::int64_t j, float value) { store_value(result, begin + j, value); });
  }
};

/// One row of a norm, as its backward pass sees it.
template <class X, class Y>
struct NormRow {
  const X* x;
  const Y* dy;
  const float* weight;
  RowNorm norm;
  std::int64_t width;

  HALFSTEP_HOST_DEVICE float normalized(std::int64_t j) const {
    return (static_cast<float>(x[j]) - norm.center) * norm.scale;
  }
  float weighted_gradient(std::int64_t j) const { return static_cast<float>(dy[j]) * weight[j]; }

  /// With g = dy * weight and n the normalised row:  dx = scale * (g - mean(g) - n * mean(g n)); what does
  /// not center has no mean(g).
  template <class Rule>
  void input_gradient(const GradientTarget<X>& target) const {
    const NormRow row = *this;
    float mean = 0.0f;
    if constexpr (Rule::centers) {
      mean = mean_of([row](std::int64_t j) { return row.weighted_gradient(j); }, width);
    }
    const float slope =
        mean_of([row](std::int64_t j) { return row.weighted_gradient(j) * row.normalized(j); }, width);
    HALFSTEP_SIMD
    for (std::int64_t j = 0; j < row.width; ++j) {
      store_gradient(target, j,
                     row.norm.scale * ((row.weighted_gradient(j) - mean) - row.normalized(j) * slope));
    }
  }
  void add_to_weight(float* sums) const {
    const NormRow row = *this;
    HALFSTEP_SIMD
    for (std::int64_t j = 0; j < row.width; ++j) sums[j] += static_cast<float>(row.dy[j]) * row.normalized(j);
  }
  void add_to_bias(float* sums) const {
    const NormRow row = *this;
    HALFSTEP_SIMD
    for (std::int64_t j = 0; j < row.width; ++j) sums[j] += static_cast<float>(row.dy[j]);
  }
};

/// What becomes of an input's gradient row after it is written: nothing, or it goes on to the terms of the
/// sum that the input is (GradientOfTerms).
struct GoesNowhere {
  explicit operator bool() const { return false; }
  template <class X>
  void store(const X*, std::int64_t, std::int64_t) const {}
  HALFSTEP_HOST_DEVICE void store(std::int64_t, float) const {}
};

/// What TeamRow loads in the backward pass: the output's gradient, the weight and the normalised input.
struct NormElement {
  float gradient, weight, normalized;
  HALFSTEP_HOST_DEVICE float weighted() const { return gradient * weight; }
};
template <class X, class Y>
struct NormElementOfRow {
  NormRow<X, Y> row;
  HALFSTEP_HOST_DEVICE NormElement operator()(std::int64_t j) const {
    return {static_cast<float>(row.dy[j]), row.weight[j], row.normalized(j)};
  }
};

/// Gradients of a block of rows while each is in the cache; those of the parameters as partial sums, one row
/// of them for each task.
template <class Rule, class X, class Y, class Onward>
struct NormGradientRows {
  RowBlocks blocks;
  const X* x;
  const Y* dy;
  const float* weight;
  const RowNorm* norms;
  GradientTarget<X> input_gradient;  // may be empty
  Onward onward;
  float* weight_partials;  // may be null
  float* bias_partials;    // may be null

  void operator()(std::int64_t task) const {
    const std::int64_t width = blocks.width;
    float* weight_sums = partial(weight_partials, task);
    float* bias_sums = partial(bias_partials, task);
    blocks.for_rows_of(task, [&](std::int64_t index) {
      const std::int64_t begin = index * width;
      const NormRow<X, Y> row{x + begin, dy + begin, weight, norms[index], width};
      if (input_gradient) {
        const GradientTarget<X> target{input_gradient.data + begin, input_gradient.accumulate};
        row.template input_gradient<Rule>(target);
        if (onward) onward.store(target.data, begin, width);
      }
      if (weight_sums != nullptr) row.add_to_weight(weight_sums);
      if (bias_sums != nullptr) row.add_to_bias(bias_sums);
    });
  }

  std::int64_t team_tasks() const { return blocks.teams(); }
  /// Of two rows, for which half as many threads' registers do.
  std::int64_t team_width() const { return 2 * blocks.width; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    constexpr int kept = 16;
    using Load = NormElementOfRow<X, Y>;
    const std::int64_t width = blocks.width;
    TeamColumnSums<Team, kept> weight_sums(team, width, partial_of(weight_partials, task));
    TeamColumnSums<Team, kept> bias_sums(team, width, partial_of(bias_partials, task));
    const std::int64_t count = blocks.rows_of_team(), first = task * count;
    for (std::int64_t index = first; index < first + count && index < blocks.rows; ++index) {
      const std::int64_t begin = index * width;
      const RowNorm norm = norms[index];
      const TeamRow<Team, kept, Load> row(team, width, Load{{x + begin, dy + begin, weight, norm, width}});
      if (input_gradient.data != nullptr) store_input_gradient(row, norm.scale, begin);
      row.for_each([&](int k, std::int64_t j, const NormElement& element) {
        weight_sums.add(k, j, element.gradient * element.normalized);
        bias_sums.add(k, j, element.gradient);
      });
    }
    weight_sums.store();
    bias_sums.store();
  }

 private:
  template <class Row>
  HALFSTEP_HOST_DEVICE void store_input_gradient(const Row& row, float scale, std::int64_t begin) const {
    float mean = 0.0f;
    if constexpr (Rule::centers) mean = row.mean([](const NormElement& element) { return element.weighted(); });
    const float slope =
        row.mean([](const NormElement& element) { return element.weighted() * element.normalized; });
    const auto gradient = [&](std::int64_t j, const NormElement& element) {
      const float own = scale * ((element.weighted() - mean) - element.normalized * slope);
      return input_gradient.accumulate ? static_cast<float>(input_gradient.data[begin + j]) + own : own;
    };
    row.for_each(gradient, [&](std::int64_t j, float value) {
      const X stored = static_cast<X>(value);
      input_gradient.data[begin + j] = stored;
      onward.store(begin + j, static_cast<float>(stored));
    });
  }
  HALFSTEP_HOST_DEVICE float* partial_of(float* partials, std::int64_t task) const {
    return partials == nullptr ? nullptr : partials + task * blocks.width;
  }
  float* partial(float* partials, std::int64_t task) const {
    if (partials == nullptr) return nullptr;
    float* sums = partials + task * blocks.width;
    for (std::int64_t j = 0; j < blocks.width; ++j) sums[j] = 0.0f;
    return sums;
  }
};

}  // namespace halfstep::detail
