#pragma once

#include <cmath>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/store_value.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/option_fault.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>

namespace halfstep {

struct RotaryOptions {
  /// Elements of one head, an even number.
  std::int64_t head_width = 0;
  /// Pair i of a head turns by base^(-2i / head_width) for each position.
  float base = 10000.0f;
  /// The position of the first row: that of the next token, where keys of earlier ones are kept.
  std::int64_t first_position = 0;
};

namespace detail {

/// Cosines and sines of [positions, pairs], in float. Angles are double: in float they would be wrong by
/// whole radians at position 2^24.
struct RotaryTable {
  float* cosines;
  float* sines;
  std::int64_t positions;
  std::int64_t pairs;
  std::int64_t first_position;
  double base;

  /// Positions in one task. Its first angle is computed afresh; from one position to the next the complex
  /// number turns, which loses some 2^-53 each time.
  static constexpr std::int64_t positions_of_task = 64;
  std::int64_t tasks() const { return (positions + positions_of_task - 1) / positions_of_task; }

  void operator()(std::int64_t task) const {
    for (std::int64_t pair = 0; pair < pairs; ++pair) fill(task, pair);
  }

  std::int64_t team_tasks() const { return tasks(); }
  std::int64_t team_width() const { return pairs; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    team.for_each(pairs, [&](std::int64_t pair) { fill(task, pair); });
  }

 private:
  HALFSTEP_HOST_DEVICE void fill(std::int64_t task, std::int64_t pair) const {
    const std::int64_t begin = task * positions_of_task;
    const std::int64_t end = begin + positions_of_task < positions ? begin + positions_of_task : positions;
    const double turn = std::pow(base, -static_cast<double>(pair) / static_cast<double>(pairs));
    const double angle = static_cast<double>(first_position + begin) * turn;
    const double turn_cosine = std::cos(turn), turn_sine = std::sin(turn);
    double cosine = std::cos(angle), sine = std::sin(angle);
    for (std::int64_t position = begin; position < end; ++position) {
      cosines[position * pairs + pair] = static_cast<float>(cosine);
      sines[position * pairs + pair] = static_cast<float>(sine);
      const double before = cosine;
      cosine = before * turn_cosine - sine * turn_sine;
      sine = before * turn_sine + sine * turn_cosine;
    }
  }
};

/// Turns the pairs of each row's heads, values going forward or, by the opposite angle, gradients coming
/// back.
template <class T, bool backwards>
struct RotaryRows {
  const T* from;
  GradientTarget<T> to;
  std::int64_t rows;
  std::int64_t width;
  RotaryTable table;

  /// At least one, of rows without heads too.
  std::int64_t rows_of_task() const {
    return width > 0 && width < compute::chunk_size ? compute::chunk_size / width : 1;
  }
  std::int64_t tasks() const { return (rows + rows_of_task() - 1) / rows_of_task(); }

  void operator()(std::int64_t task) const {
    const std::int64_t begin = task * rows_of_task();
    const std::int64_t end = begin + rows_of_task() < rows ? begin + rows_of_task() : rows;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t angles = row % table.positions * table.pairs;
      for (std::int64_t head = 0; head < width; head += 2 * table.pairs) {
        turn(row * width + head, table.cosines + angles, table.sines + angles);
      }
    }
  }

  /// A row, its pairs side by side.
  std::int64_t team_tasks() const { return rows; }
  std::int64_t team_width() const { return width; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t row) const {
    const std::int64_t pairs = table.pairs, angles = row % table.positions * pairs;
    const auto first_of_pair = [&](std::int64_t i) { return row * width + i / pairs * 2 * pairs + i % pairs; };
    const auto turned = [&](std::int64_t i) {
      const std::int64_t a = first_of_pair(i), angle = angles + i % pairs;
      const float x = static_cast<float>(from[a]), y = static_cast<float>(from[a + pairs]);
      const float cosine = table.cosines[angle], sine = backwards ? -table.sines[angle] : table.sines[angle];
      return Pair{x * cosine - y * sine, y * cosine + x * sine};
    };
    team.for_each(width / 2, turned, [&](std::int64_t i, const Pair& pair) {
      const std::int64_t a = first_of_pair(i);
      store_gradient(to, a, pair.first);
      store_gradient(to, a + pairs, pair.second);
    });
  }

 private:
  struct Pair {
    float first, second;
  };
  void turn(std::int64_t head, const float* cosines, const float* sines) const {
    const std::int64_t pairs = table.pairs;
    const T* a = from + head;
    const T* b = a + pairs;
    const GradientTarget<T> to_a{to.data + head, to.accumulate}, to_b{to_a.data + pairs, to.accumulate};
    HALFSTEP_SIMD
    for (std::int64_t i = 0; i < pairs; ++i) turn_pair(a, b, to_a, to_b, cosines, sines, i);
  }
  HALFSTEP_INLINE static void turn_pair(const T* a, const T* b,
                                                             const GradientTarget<T>& to_a,
                                                             const GradientTarget<T>& to_b,
                                                             const float* cosines, const float* sines,
                                                             std::int64_t i) {
    const float x = static_cast<float>(a[i]), y = static_cast<float>(b[i]);
    const float cosine = cosines[i], sine = backwards ? -sines[i] : sines[i];
    if constexpr (backwards) {
      store_gradient(to_a, i, x * cosine - y * sine);
      store_gradient(to_b, i, y * cosine + x * sine);
    } else {
      store_value(to_a.data, i, x * cosine - y * sine);
      store_value(to_b.data, i, y * cosine + x * sine);
    }
  }
};

template <class T>
struct RotaryBackward {
  Variable<T> input;
  RotaryTable table;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> output_gradient) const {
    if (const auto target = tape.gradient_target(input)) {
      const RotaryRows<T, true> rows{output_gradient.data(), target, input.rows(), input.columns(), table};
      compute::for_each_task(tape.device(), rows.tasks(), rows);
    }
  }
};

inline void check_rotary(const Shape& input, const RotaryOptions& options) {
  if (options.head_width < 2 || options.head_width % 2 != 0) {
    throw ConfigurationError("rotary: head_width is " + std::to_string(options.head_width) +
                             "; it must be even and 2 or more, because elements turn in pairs");
  }
  if (!(options.base > 0.0f && is_finite(options.base))) {
    throw ConfigurationError("rotary: base is " + describe_number(static_cast<double>(options.base)) +
                             "; it must be finite and above 0");
  }
  if (options.first_position < 0) {
    throw ConfigurationError("rotary: first_position is " + std::to_string(options.first_position) +
                             "; it must be 0 or more");
  }
  if (input.rank() < 2) {
    throw ShapeError("rotary: the input has shape " + input.text() +
                     "; it needs an axis of positions before the last, as [batch, positions, heads * " +
                     std::to_string(options.head_width) + "]");
  }
  if (input.columns() % options.head_width != 0) {
    throw ShapeError("rotary: an input of shape " + input.text() +
                     " has no whole number of heads of head_width " + std::to_string(options.head_width) +
                     " in its last extent " + std::to_string(input.columns()) +
                     "; give a head_width that divides it");
  }
}

}  // namespace detail

/// Rotary positions (Su et al., RoFormer, 2021) in type T whatever the policy says.
template <class T, class Tape, class Input>
Variable<T> rotary(Tape& tape, const Input& input, const RotaryOptions& options) {
  const auto given = tape.variable(input);
  detail::check_rotary(given.shape(), options);
  const Variable<T> x = cast<T>(tape, given);
  const std::int64_t positions = x.shape()[-2], pairs = options.head_width / 2;
  const detail::RotaryTable table{tape.arena().template allocate<float>(positions * pairs),
                                  tape.arena().template allocate<float>(positions * pairs),
                                  positions,
                                  pairs,
                                  options.first_position,
                                  static_cast<double>(options.base)};
  compute::for_each_task(tape.device(), table.tasks(), table);
  const Tensor<T> result = tape.template allocate<T>(x.shape());
  const detail::RotaryRows<T, false> rows{x.data(), {result.data(), false}, x.rows(), x.columns(), table};
  compute::for_each_task(tape.device(), rows.tasks(), rows);
  return tape.record(operation::Rotary{}, result, x.requires_gradient(), detail::RotaryBackward<T>{x, table});
}

/// Rotary positions (Su et al., RoFormer, 2021): in each head of D elements pair i turns by the angle
/// position * base^(-2i / D), so that products of queries and keys depend on the distance of their positions.
///
/// `input` is [..., T, H * D], a variable or a tensor in the program's memory; row t of it is at position
/// `first_position` + t. Pairs are split in halves, as LLaMA, GPT-NeoX and Hugging Face's rotate_half have
/// them: element i of a head turns with element i + D/2, not with its neighbour (as in RoFormer itself and
/// GPT-J). The result has the type that the tape's policy gives to operation::Rotary; angles are computed in
/// double, the rotation in float, rounded once. The pass keeps T * D floats of cosines and sines.
///
/// Throws ConfigurationError for a head_width that is odd or below 2, a base that is not finite and positive
/// and a negative position, ShapeError for an input of fewer than two axes and for a last extent that is no
/// multiple of head_width.
template <class Tape, class Input>
auto rotary(Tape& tape, const Input& input, const RotaryOptions& options) {
  return rotary<operation_type<typename Tape::Policy, operation::Rotary>>(tape, input, options);
}

}  // namespace halfstep
