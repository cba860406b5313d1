#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/nn/tape.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>
#include <type_traits>
#include <utility>

namespace halfstep {

namespace detail {

/// Runs a function on a tape and takes back the memory that it used: at once in the forward pass, and once
/// more, with the gradients, in the backward pass.
template <class Tape>
class Rerun {
  using Slot = GradientSlot;

 public:
  template <class X, class Function>
  static auto forward(Tape& tape, const Variable<X>& x, const Function& function) {
    Slot* const before = tape.last_slot_;
    const auto nodes_before = tape.last_;
    const std::uint64_t random_before = tape.random_operations_;
    const auto mark = tape.values_.mark();
    const auto result = function(tape, x);
    using T = typename std::remove_cvref_t<decltype(result)>::value_type;
    // A variable from before: there is nothing to compute again.
    if (result.slot() != nullptr && result.slot()->number <= before->number) return Variable<T>(result);
    tape.last_ = nodes_before;
    tape.values_.rollback(mark);
    const Tensor<T> kept = keep(tape, result.value());
    // The result stays the one that an observer has seen.
    if (result.slot() != nullptr) {
      tape.template add_node<T>(
          result.slot(), kept.shape(),
          Backward<X, T, Function>{x, function, before, tape.last_slot_, result.slot(), random_before});
    }
    return Variable<T>(kept, result.slot());
  }

 private:
  template <class X, class T, class Function>
  struct Backward {
    Variable<X> input;
    Function function;
    /// The slots before the function's first, its last, and its result's.
    Slot* before;
    Slot* last;
    Slot* result;
    std::uint64_t first_random_operation;

    void operator()(Tape& tape, Tensor<const T> gradient) const {
      const auto mark = tape.values_.mark();
      {
        const Recording recording(tape, before, first_random_operation);
        record_again(tape, gradient.shape());
        // The tape's own memory, which only this operation still reads.
        result->data = const_cast<T*>(gradient.data());
        result->written = true;
        tape.reached_ = {before->number, input.slot()};
        tape.run_nodes();
      }
      tape.values_.rollback(mark);
      Slot* const slot = input.slot();
      if (slot != nullptr && tape.values_.is_since(mark, slot->data)) {
        slot->data = keep(tape, Tensor<const X>(static_cast<const X*>(slot->data), input.shape())).data();
      }
    }

   private:
    /// An observer has seen the values before.
    void record_again(Tape& tape, const Shape& shape) const {
      struct Unobserved {
        Tape& tape;
        TapeObserver* observer;
        ~Unobserved() { tape.observe(observer); }
      } const unobserved{tape, tape.observe(nullptr)};
      const auto again = function(tape, input);
      if (tape.last_slot_ != last || again.slot() != result || again.shape() != shape) {
        throw ConfigurationError(
            "recompute: in the backward pass the function computed other operations than in the forward "
            "pass, or a result of shape " +
            again.shape().text() + " instead of " + shape.text() +
            "; it must do the same both times, from its input, its own members and parameters");
      }
    }
  };

  /// A list of operations of its own, for as long as it lives: with the slots and random numbers of the first
  /// time.
  class Recording {
   public:
    Recording(Tape& tape, Slot* before, std::uint64_t first_random_operation)
        : tape_(tape),
          nodes_(tape.nodes_.mark()),
          last_(std::exchange(tape.last_, nullptr)),
          last_slot_(std::exchange(tape.last_slot_, before)),
          random_operations_(std::exchange(tape.random_operations_, first_random_operation)),
          reached_(tape.reached_) {}
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    ~Recording() {
      tape_.nodes_.rollback(nodes_);
      tape_.last_ = last_;
      tape_.last_slot_ = last_slot_;
      tape_.random_operations_ = random_operations_;
      tape_.reached_ = reached_;
    }

   private:
    Tape& tape_;
    Arena<Host>::Mark nodes_;
    decltype(std::declval<Tape&>().last_) last_;
    Slot* last_slot_;
    std::uint64_t random_operations_;
    decltype(std::declval<Tape&>().reached_) reached_;
  };

  /// Brings values that were taken back to the front of what is free. They may overlap what they were: the
  /// copy goes forward in pieces no longer than the way. On a GPU, where every piece is a call of its own, a short
  /// way is not gone: the values stay, with what lies before them.
  template <class T>
  static Tensor<T> keep(Tape& tape, const Tensor<const T>& values) {
    constexpr std::size_t most_pieces = 4;
    const auto mark = tape.values_.mark();
    const Tensor<T> kept = tape.template allocate<T>(values.shape());
    const auto bytes = static_cast<std::size_t>(values.size()) * sizeof(T);
    auto* const to = reinterpret_cast<std::byte*>(kept.data());
    const auto* const from = reinterpret_cast<const std::byte*>(values.data());
    const auto way = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(from) -
                                              reinterpret_cast<std::uintptr_t>(to));
    if constexpr (!Tape::DeviceType::shares_host_memory) {
      if (way != 0 && way < bytes / most_pieces) {
        tape.values_.rollback(mark);
        const auto reach = static_cast<std::int64_t>(way + bytes);
        if (tape.values_.template allocate<std::byte>(reach) == to) {
          return Tensor<T>(reinterpret_cast<T*>(to + way), values.shape());
        }
        tape.values_.rollback(mark);
        tape.template allocate<T>(values.shape());
      }
    }
    for (std::size_t done = 0; way != 0 && done < bytes; done += way) {
      tape.device().copy(to + done, from + done, (std::min)(way, bytes - done));
      if (way >= bytes) break;
    }
    return kept;
  }
};

template <class T>
inline constexpr bool is_variable = false;
template <class T>
inline constexpr bool is_variable<Variable<T>> = true;

}  // namespace detail

/// function(tape, x), but in training without keeping what it computes on the way: its values are taken back
/// when the result is there, and computed again in the backward pass (activation checkpointing; Chen et al.,
/// Training Deep Nets with Sublinear Memory Cost, 2016). A stack of blocks then needs memory for the blocks'
/// results and for the inside of one block, for the price of a second forward pass.
///
///     x = recompute(tape, x, [&block](auto& tape, const auto& x) { return block(tape, x); });
///
/// Results and gradients have the same bits as without: the function gets the same random numbers both times,
/// and gradients are added up in the same order. In inference it is function(tape, x) and nothing else. It
/// may be nested.
///
/// `input` is a variable or a tensor in the program's memory; `function` returns one variable. It is copied,
/// runs again when `forward` has long returned, and so must capture by value or by references to what lives
/// as long as the model; it must need no destruction. It must compute the same both times. It may use
/// parameters, tensors in the program's memory and variables without a gradient that were computed before;
/// the only variable with a gradient that it may use from outside is its input. No variable of its inside may
/// be used outside.
///
/// An observer of the tape sees the inside's values in the forward pass, when they are computed for the first
/// time, and their gradients in the backward pass. Throws what the function throws; in the backward pass
/// ConfigurationError where the function uses another variable from outside, or computes other operations
/// than before.
template <class Tape, class Input, class Function>
auto recompute(Tape& tape, const Input& input, const Function& function) {
  const auto x = tape.variable(input);
  using X = typename std::remove_cvref_t<decltype(x)>::value_type;
  using Result = std::remove_cvref_t<decltype(function(tape, x))>;
  if constexpr (detail::is_variable<Result>) {
    if (!tape.recording()) return Result(function(tape, x));
    return Result(detail::Rerun<Tape>::forward(tape, Variable<X>(x), function));
  } else {
    static_assert(detail::is_variable<Result>,
                  "halfstep: the function of recompute must return one variable; compute a loss after it, "
                  "from its result");
  }
}

}  // namespace halfstep
