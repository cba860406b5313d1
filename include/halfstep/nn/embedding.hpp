#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <halfstep/compute/convert.hpp>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/compute/matmul.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/embedding_gradient.hpp>
#include <halfstep/nn/initializer.hpp>
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/parameter.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <span>
#include <string>
#include <type_traits>

namespace halfstep {

namespace detail {

template <class T, class Token>
struct LookUpRows {
  const T* weight;
  const Token* tokens;
  std::int64_t count;
  std::int64_t width;
  T* result;

  std::int64_t tokens_of_task() const {
    return width < compute::chunk_size ? compute::chunk_size / width : 1;
  }
  std::int64_t tasks() const { return (count + tokens_of_task() - 1) / tokens_of_task(); }

  void operator()(std::int64_t task) const {
    const std::int64_t begin = task * tokens_of_task();
    const std::int64_t end = begin + tokens_of_task() < count ? begin + tokens_of_task() : count;
    for (std::int64_t i = begin; i < end; ++i) {
      const T* from = weight + static_cast<std::int64_t>(tokens[i]) * width;
      T* to = result + i * width;
      HALFSTEP_SIMD
      for (std::int64_t j = 0; j < width; ++j) to[j] = from[j];
    }
  }

  HALFSTEP_HOST_DEVICE std::int64_t column_tasks() const {
    return (width + compute::warp_elements - 1) / compute::warp_elements;
  }
  std::int64_t team_tasks() const { return count * column_tasks(); }
  std::int64_t team_width() const { return compute::warp_elements; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t position = task / column_tasks();
    const T* const from = weight + static_cast<std::int64_t>(tokens[position]) * width;
    T* const to = result + position * width;
    const auto on_four = [=](std::int64_t j) { compute::store_four(to + j, compute::load_four(from + j)); };
    const auto on_rest = [=](std::int64_t begin, std::int64_t number) {
      for (std::int64_t j = begin; j < begin + number; ++j) to[j] = from[j];
    };
    const bool aligned = width % 4 == 0 && compute::begins_a_four(weight) && compute::begins_a_four(result);
    compute::for_each_four(team, task % column_tasks() * compute::warp_elements, width, aligned, on_four, on_rest);
  }
};

struct ZeroKernel {
  float* values;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { values[i] = 0.0f; }
};

template <class T, class Token>
struct EmbeddingBackward {
  // By value: `forward` may have computed with a copy of the layer that is gone by now.
  Parameter weight;
  Tensor<const Token> tokens;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> output_gradient) const {
    const auto target = tape.gradient_target(weight);
    if (!target) return;
    // Rows that no token names get a gradient of zero.
    if (!target.accumulate) compute::for_each(tape.device(), weight.shape.size(), ZeroKernel{target.data});
    add_to_rows(tape.device(), tape.arena(),
                RowsToAdd<T, Token>{output_gradient.data(), tokens.data(), tokens.size(), weight.shape[1],
                                    target.data});
  }
};

template <class T>
struct EmbeddingRowsBackward {
  Parameter weight;
  std::int64_t first;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> output_gradient) const {
    const auto target = tape.gradient_target(weight);
    if (!target) return;
    const std::int64_t begin = first * weight.shape[1], end = begin + output_gradient.size();
    if (!target.accumulate) {
      compute::for_each(tape.device(), begin, ZeroKernel{target.data});
      compute::for_each(tape.device(), weight.shape.size() - end, ZeroKernel{target.data + end});
    }
    compute::for_each(
        tape.device(), output_gradient.size(),
        CastGradientKernel<float, T>{output_gradient.data(), {target.data + begin, target.accumulate}});
  }
};

}  // namespace detail

/// A table of `count` rows of `width` numbers, with PyTorch's name, shape and first values (normal around 0
/// with standard deviation 1).
///
///     Embedding tokens{50257, 768}, positions{1024, 768};
///     auto x = add(tape, tokens(tape, ids), positions.rows(tape, 0, ids.columns()));
///     auto logits = tokens.project(tape, hidden);   // a head tied to the embedding
///
/// All uses of one table in a pass add up in its gradient, which is float, in an order that does not depend
/// on the number of threads; rows that nothing used get zeros.
class Embedding {
 public:
  /// Throws ConfigurationError unless both sizes are 1 or more.
  Embedding(std::int64_t count, std::int64_t width)
      : weight(sizes(count, width), Initializer::normal(1.0f)) {}

  /// [count, width]. Another initializer, or `frozen`, may be set before a trainer takes the model in.
  Parameter weight;

  std::int64_t count() const { return weight.shape[0]; }
  std::int64_t width() const { return weight.shape[1]; }

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("weight", weight);
  }

  /// The rows that the tokens name: [...] -> [..., width], in the type that the tape's policy gives to
  /// operation::Embedding. `tokens` are integers in the program's memory, of any shape. Throws ShapeError for
  /// a token outside [0, count).
  template <class Tape, class Token>
  auto operator()(Tape& tape, const Tensor<Token>& tokens) const {
    return apply<operation_type<typename Tape::Policy, operation::Embedding>>(tape, tokens);
  }
  /// The same in type T.
  template <class T, class Tape, class Token>
  requires std::integral<std::remove_const_t<Token>> Variable<T> apply(Tape& tape,
                                                                       const Tensor<Token>& tokens)
  const {
    check_tokens(tokens);
    const Tensor<const std::remove_const_t<Token>> ids = tape.upload(tokens);
    const Tensor<T> result = tape.template allocate<T>(with_width(tokens.shape()));
    const detail::LookUpRows<T, std::remove_const_t<Token>> rows{
        tape.template weight<T>(weight).data(), ids.data(), ids.size(), width(), result.data()};
    compute::for_each_task(tape.device(), rows.tasks(), rows);
    return tape.record(operation::Embedding{}, result, tape.trains(weight),
                       detail::EmbeddingBackward<T, std::remove_const_t<Token>>{weight, ids});
  }

  /// The product of `hidden` [..., width] with every row, [..., count]: a head that shares its weight with
  /// the embedding (Press and Wolf, Using the Output Embedding to Improve Language Models, 2017). In the type
  /// that the tape's policy gives to products, as a Linear without bias. Throws ShapeError unless the last
  /// extent is `width`.
  template <class Tape, class Input>
  auto project(Tape& tape, const Input& hidden) const {
    return project<operation_type<typename Tape::Policy, operation::Matmul>>(tape, hidden);
  }
  /// The same in type T.
  template <class T, class Tape, class Input>
  Variable<T> project(Tape& tape, const Input& hidden) const {
    const auto given = tape.variable(hidden);
    check_hidden(given.shape());
    const Variable<T> x = cast<T>(tape, given);
    const Tensor<const T> w = tape.template weight<T>(weight);
    const Tensor<T> result = tape.template allocate<T>(x.shape().with_columns(count()));
    compute::matmul(tape.device(), compute::matrix(x.data(), x.rows(), width()),
                    compute::matrix(w.data(), count(), width()).transposed(),
                    compute::matrix(result.data(), x.rows(), count()),
                    {.tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
    return tape.record(operation::Matmul{}, result, x.requires_gradient() || tape.trains(weight),
                       detail::LinearBackward<T>{x, w, weight, Parameter{}, false});
  }

  /// Rows `first` to `first + number`, [number, width], in the type that the tape's policy gives to
  /// operation::Embedding: learned positions. Throws ShapeError unless the table has them all.
  template <class Tape>
  auto rows(Tape& tape, std::int64_t first, std::int64_t number) const {
    return rows<operation_type<typename Tape::Policy, operation::Embedding>>(tape, first, number);
  }
  /// The same in type T.
  template <class T, class Tape>
  Variable<T> rows(Tape& tape, std::int64_t first, std::int64_t number) const {
    check_rows(first, number);
    const Tensor<T> result = tape.template allocate<T>(Shape{number, width()});
    compute::convert(tape.device(), tape.template weight<T>(weight).data() + first * width(), result.data(),
                     result.size());
    return tape.record(operation::Embedding{}, result, tape.trains(weight),
                       detail::EmbeddingRowsBackward<T>{weight, first});
  }

 private:
  static Shape sizes(std::int64_t count, std::int64_t width) {
    if (count < 1 || width < 1) {
      throw ConfigurationError("Embedding{" + std::to_string(count) + ", " + std::to_string(width) +
                               "}: the number of rows and their width must be 1 or more");
    }
    return {count, width};
  }
  std::string name() const {
    return "Embedding{" + std::to_string(count()) + ", " + std::to_string(width()) + "}";
  }

  Shape with_width(const Shape& tokens) const {
    if (tokens.rank() == Shape::largest_rank) {
      throw ShapeError(name() + " got tokens of shape " + tokens.text() +
                       ": with a width there would be more than " + std::to_string(Shape::largest_rank) +
                       " extents; reshape the tokens");
    }
    std::int64_t extents[Shape::largest_rank];
    std::int64_t* end = std::copy(tokens.begin(), tokens.end(), extents);
    *end++ = width();
    return Shape(std::span<const std::int64_t>(extents, end));
  }

  template <class Token>
  void check_tokens(const Tensor<Token>& tokens) const {
    for (std::int64_t i = 0; i < tokens.size(); ++i) {
      const auto token = static_cast<std::int64_t>(tokens[i]);
      if (token >= 0 && token < count()) continue;
      throw ShapeError(name() + ": token " + std::to_string(tokens[i]) + " at position " + std::to_string(i) +
                       " of tokens of shape " + tokens.shape().text() + " is outside [0, " +
                       std::to_string(count()) +
                       "); build the embedding with as many rows as the vocabulary has entries");
    }
  }
  void check_hidden(const Shape& hidden) const {
    if (hidden.rank() >= 1 && hidden.columns() == width()) return;
    throw ShapeError(name() + "::project got an input of shape " + hidden.text() +
                     ": its last extent must be " + std::to_string(width()) + ", the embedding's width");
  }
  void check_rows(std::int64_t first, std::int64_t number) const {
    if (first >= 0 && number >= 0 && first <= count() && number <= count() - first) return;
    throw ShapeError(name() + ": rows " + std::to_string(first) + " to " + std::to_string(first) + " + " +
                     std::to_string(number) + " are not all within its " + std::to_string(count()) +
                     "; use fewer positions, or build the embedding with more rows");
  }
};

}  // namespace halfstep
