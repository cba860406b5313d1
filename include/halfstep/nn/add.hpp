#pragma once

#include <cstdint>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/fours.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/store_value.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>
#include <type_traits>

namespace halfstep {

namespace operation {
/// Works in the wider of its inputs' types whatever the policy says, and so belongs to no group.
struct Add {};
}  // namespace operation

namespace detail {

/// The type of a sum: that of both terms where they agree, else float.
template <class A, class B>
using sum_type = std::conditional_t<std::is_same_v<A, B>, A, float>;

/// sum[i] = a[i] + b[i], in float, rounded once.
template <class A, class B, class S>
void add_range(const A* a, const B* b, S* sum, std::int64_t count) {
  HALFSTEP_SIMD
  for (std::int64_t i = 0; i < count; ++i) {
    store_value(sum, i, static_cast<float>(a[i]) + static_cast<float>(b[i]));
  }
}

/// `from[i]` is the gradient of element i; see store_gradient.
template <class S, class X>
void store_gradients(const S* from, const GradientTarget<X>& target, std::int64_t begin, std::int64_t count) {
  const GradientTarget<X> moved{target.data + begin, target.accumulate};
  HALFSTEP_SIMD
  for (std::int64_t i = 0; i < count; ++i) store_gradient(moved, i, static_cast<float>(from[i]));
}

/// One chunk of a + b, where b repeats after `period` elements.
template <class A, class B, class S>
struct AddChunk {
  const A* a;
  const B* b;
  S* sum;
  std::int64_t size;
  std::int64_t period;

  void operator()(std::int64_t chunk) const {
    std::int64_t i = chunk * compute::chunk_size;
    const std::int64_t end = i + compute::chunk_size < size ? i + compute::chunk_size : size;
    for (std::int64_t place = i % period; i < end; place = 0) {
      const std::int64_t count = period - place < end - i ? period - place : end - i;
      add_range(a + i, b + place, sum + i, count);
      i += count;
    }
  }

  std::int64_t team_tasks() const { return (size + compute::warp_elements - 1) / compute::warp_elements; }
  std::int64_t team_width() const { return compute::warp_elements; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t begin = task * compute::warp_elements, left = size - begin;
    const std::int64_t place = period == size ? begin : begin % period;
    const auto term = [&](std::int64_t i) {
      return static_cast<float>(a[begin + i]) + static_cast<float>(b[place_in_period(place + i)]);
    };
    if (takes_fours()) {
      const auto on_four = [&](std::int64_t i) {
        auto values = compute::floats_of(compute::load_four(a + i));
        const auto others = compute::floats_of(compute::load_four(b + place_in_period(place + (i - begin))));
        for (int k = 0; k < 4; ++k) values.of[k] = values.of[k] + others.of[k];
        compute::store_four(sum + i, compute::four_of<S>(values));
      };
      const auto on_rest = [&](std::int64_t i, std::int64_t count) {
        for (std::int64_t k = i - begin; k < i - begin + count; ++k) store_value(sum, begin + k, term(k));
      };
      compute::for_each_four(team, begin, size, true, on_four, on_rest);
    } else {
      team.for_each(left < compute::warp_elements ? left : compute::warp_elements, term,
                    [&](std::int64_t i, float value) { store_value(sum, begin + i, value); });
    }
  }

 private:
  /// Where b repeats no four of the sum may see the end of one repetition and the beginning of the next.
  HALFSTEP_HOST_DEVICE bool takes_fours() const {
    return (period == size || period % 4 == 0) && compute::begins_a_four(a) && compute::begins_a_four(b) &&
           compute::begins_a_four(sum);
  }
  /// `place % period` for a place at most a task behind the period; 64-bit divisions are slow on a GPU.
  HALFSTEP_HOST_DEVICE std::int64_t place_in_period(std::int64_t place) const {
    if (place < period) return place;
    if (period >= compute::warp_elements) return place - period;
    return static_cast<std::uint32_t>(place) % static_cast<std::uint32_t>(period);
  }
};

/// Lets the gradient of a sum be that of one of its terms too, in the same memory: once the backward pass has
/// come to the sum nobody reads it there again. Possible where types agree and the term has no gradient yet.
template <class X, class S, class Tape>
bool hand_gradient_on(Tape& tape, const Variable<X>& term, S* gradient) {
  if constexpr (std::is_same_v<X, S>) {
    GradientSlot* slot = term.slot();
    // The gradient of a single element may be a loss's own, which is the caller's.
    if (slot == nullptr || slot->data != nullptr || term.size() == 1) return false;
    slot->data = gradient;
    tape.gradient_target(term);
    return true;
  } else {
    return false;
  }
}

/// The terms of a sum that still need the sum's gradient written, each in its own type.
template <class A, class B>
struct GradientOfTerms {
  GradientTarget<A> a;
  GradientTarget<B> b;

  explicit operator bool() const { return a || b; }
  template <class S>
  void store(const S* gradient, std::int64_t begin, std::int64_t count) const {
    if (a) store_gradients(gradient, a, begin, count);
    if (b) store_gradients(gradient, b, begin, count);
  }
  HALFSTEP_HOST_DEVICE void store(std::int64_t i, float gradient) const {
    if (a.data != nullptr) store_gradient(a, i, gradient);
    if (b.data != nullptr) store_gradient(b, i, gradient);
  }
  HALFSTEP_HOST_DEVICE bool take_fours() const {
    return compute::begins_a_four(a.data) && compute::begins_a_four(b.data);
  }
  HALFSTEP_HOST_DEVICE void store_four(std::int64_t i, const compute::Four<float>& gradient) const {
    if (a.data != nullptr) store_four_gradients(a, i, gradient);
    if (b.data != nullptr) store_four_gradients(b, i, gradient);
  }
};

/// For two terms of the sum's own shape: hands the gradient on to one of them where that is possible.
template <class A, class B, class S, class Tape>
GradientOfTerms<A, B> gradient_of_terms(Tape& tape, const Variable<A>& a, const Variable<B>& b, S* gradient) {
  if (hand_gradient_on(tape, a, gradient)) return {{}, tape.gradient_target(b)};
  if (hand_gradient_on(tape, b, gradient)) return {tape.gradient_target(a), {}};
  return {tape.gradient_target(a), tape.gradient_target(b)};
}

template <class A, class B, class S>
struct AddGradientChunk {
  const S* gradient;
  GradientOfTerms<A, B> terms;
  std::int64_t size;
  void operator()(std::int64_t chunk) const {
    const std::int64_t begin = chunk * compute::chunk_size;
    const std::int64_t end = begin + compute::chunk_size < size ? begin + compute::chunk_size : size;
    terms.store(gradient + begin, begin, end - begin);
  }

  std::int64_t team_tasks() const { return (size + compute::warp_elements - 1) / compute::warp_elements; }
  std::int64_t team_width() const { return compute::warp_elements; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t begin = task * compute::warp_elements, left = size - begin;
    const auto value = [&](std::int64_t i) { return static_cast<float>(gradient[begin + i]); };
    if (terms.take_fours() && compute::begins_a_four(gradient)) {
      const auto on_four = [&](std::int64_t i) {
        terms.store_four(i, compute::floats_of(compute::load_four(gradient + i)));
      };
      const auto on_rest = [&](std::int64_t i, std::int64_t count) {
        for (std::int64_t k = i; k < i + count; ++k) terms.store(k, static_cast<float>(gradient[k]));
      };
      compute::for_each_four(team, begin, size, true, on_four, on_rest);
    } else {
      team.for_each(left < compute::warp_elements ? left : compute::warp_elements, value,
                    [&](std::int64_t i, float dy) { terms.store(begin + i, dy); });
    }
  }
};

template <class A, class B, class S>
struct AddBackward {
  Variable<A> a;
  Variable<B> b;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const S> sum_gradient) const {
    const std::int64_t size = a.size();
    // The tape's own memory, which only this operation still reads.
    S* gradient = const_cast<S*>(sum_gradient.data());
    if (b.shape() == a.shape()) {
      pass_on(tape, gradient_of_terms(tape, a, b, gradient), gradient, size);
      return;
    }
    if (const auto target = tape.gradient_target(b)) sum_rows(tape, gradient, size, target);
    if (!hand_gradient_on(tape, a, gradient)) {
      pass_on(tape, GradientOfTerms<A, B>{tape.gradient_target(a), {}}, gradient, size);
    }
  }

 private:
  template <class Tape>
  static void pass_on(Tape& tape, const GradientOfTerms<A, B>& terms, const S* gradient, std::int64_t size) {
    if (!terms) return;
    compute::for_each_chunk(tape.device(), (size + compute::chunk_size - 1) / compute::chunk_size,
                            AddGradientChunk<A, B, S>{gradient, terms, size});
  }

  /// What was repeated gets the sum over its repetitions, in float.
  template <class Tape>
  void sum_rows(Tape& tape, const S* gradient, std::int64_t size, const GradientTarget<B>& target) const {
    const std::int64_t columns = b.size();
    if (columns == 0) return;
    const auto rows = compute::matrix(gradient, size / columns, columns);
    if constexpr (std::is_same_v<B, float>) {
      compute::column_sum(tape.device(), tape.arena(), rows, target.data, target.accumulate);
    } else {
      float* sums = tape.arena().template allocate<float>(columns);
      compute::column_sum(tape.device(), tape.arena(), rows, sums);
      compute::for_each(tape.device(), columns, CastGradientKernel<B, float>{sums, target});
    }
  }
};

inline void check_add(const Shape& a, const Shape& b) {
  bool trails = b.rank() <= a.rank();
  for (int axis = 1; trails && axis <= b.rank(); ++axis) trails = a[a.rank() - axis] == b[b.rank() - axis];
  if (trails) return;
  throw ShapeError("add: shapes " + a.text() + " and " + b.text() +
                   " do not add: the second must be the first or its last extents; reshape one of them, or "
                   "exchange the two");
}

}  // namespace detail

/// a + b, element by element: the residual of a block, or learned positions [T, C] onto [B, T, C].
///
/// Both are variables or tensors in the program's memory; b's shape is a's or the last extents of it, along
/// which b repeats. The sum has the type of both, or float where they differ, whatever the policy says: as
/// PyTorch promotes. It is computed in float and rounded once. The gradient of each term has the term's type;
/// that of a repeated b is summed over the repetitions in float, in an order that depends on shapes alone.
/// Throws ShapeError for shapes that do not add.
template <class Tape, class InputA, class InputB>
auto add(Tape& tape, const InputA& first, const InputB& second) {
  const auto a = tape.variable(first);
  const auto b = tape.variable(second);
  using A = typename decltype(a)::value_type;
  using B = typename decltype(b)::value_type;
  using S = detail::sum_type<A, B>;
  detail::check_add(a.shape(), b.shape());
  const Tensor<S> sum = tape.template allocate<S>(a.shape());
  compute::for_each_chunk(tape.device(), (a.size() + compute::chunk_size - 1) / compute::chunk_size,
                          detail::AddChunk<A, B, S>{a.data(), b.data(), sum.data(), a.size(), b.size()});
  return tape.record(operation::Add{}, sum, a.requires_gradient() || b.requires_gradient(),
                     detail::AddBackward<A, B, S>{a, b});
}

}  // namespace halfstep
