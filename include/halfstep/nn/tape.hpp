#pragma once

#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/device/arena.hpp>
#include <halfstep/nn/observer.hpp>
#include <halfstep/nn/parameter_store.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/policy.hpp>

namespace halfstep {

/// What a pass over the model is for. Only `training` records a backward pass and lets dropout drop.
enum class Pass { training, inference };

/// What random operations of a pass depend on: the run's seed, and how many training passes came before.
struct RandomPass {
  std::uint64_t seed = 0;
  std::uint64_t number = 0;
};

/// The random numbers of one operation in one pass; see numeric/philox.hpp.
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

namespace detail {
template <class Tape>
class Rerun;
}

/// Records what a model computes, so that gradients can be computed backwards (reverse-mode differentiation). A
/// model gets the tape in `forward` and `loss` and hands it to the operations; an operation allocates its result
/// here and records how gradients flow back through it. All memory comes from two arenas and is taken back at once
/// by the next `begin`.
template <class P, Device D>
class Tape {
 public:
  using Policy = P;
  using DeviceType = D;
  using Compute = typename P::compute_type;
  using Parameters = ParameterStore<Compute, D>;

  Tape(D& device, Parameters& parameters)
      : device_(&device), parameters_(&parameters), values_(device), nodes_(node_memory_) {}

  /// Forgets everything recorded and computed, and starts a pass.
  void begin(Pass pass, RandomPass random = {}) {
    values_.reset();
    nodes_.reset();
    last_ = nullptr;
    before_first_slot_ = {};
    last_slot_ = &before_first_slot_;
    reached_ = {};
    pass_ = pass;
    random_ = random;
    random_operations_ = 0;
  }

  D& device() { return *device_; }
  /// Memory for values that live until the next `begin`.
  Arena<D>& arena() { return values_; }
  Pass pass() const { return pass_; }
  bool recording() const { return pass_ == Pass::training; }

  /// Random numbers that no other operation of any pass gets: the same when the same pass is computed again.
  RandomStream next_random_stream() {
    constexpr std::uint64_t apart_from_first_values = 0x68616c6673746570U;
    constexpr std::uint64_t most_operations = std::uint64_t{1} << 20;
    return {random_.seed ^ apart_from_first_values, random_.number * most_operations + random_operations_++};
  }

  /// Uninitialised room for a value, zeroes where `clear` follows.
  template <class T>
  Tensor<T> allocate(Shape shape) {
    return Tensor<T>(values_.template allocate<T>(shape.size()), shape);
  }

  /// Brings a tensor from the program's memory to the device. Where both are the same nothing is copied: the
  /// memory must then stay as it is until the pass is over.
  template <class T>
  Tensor<const std::remove_const_t<T>> upload(Tensor<T> host) {
    if constexpr (D::shares_host_memory) {
      return show(Place::input, -1, Tensor<const std::remove_const_t<T>>(host));
    } else {
      auto copy = allocate<std::remove_const_t<T>>(host.shape());
      device_->upload(copy.data(), host.data(), static_cast<std::size_t>(host.size()) * sizeof(T));
      return show(Place::input, -1, Tensor<const std::remove_const_t<T>>(copy));
    }
  }

  /// What operations take as input: a variable stays what it is, a tensor in the program's memory becomes one
  /// without a gradient.
  template <class T>
  Variable<T> variable(const Variable<T>& variable) const {
    return variable;
  }
  template <class T>
  Variable<std::remove_const_t<T>> variable(const Tensor<T>& host) {
    return {upload(host), nullptr};
  }

  /// The numbers of a parameter in type T: the masters for float, the working copy for the compute type, else a
  /// conversion that lives as long as the pass.
  template <class T>
  Tensor<const T> weight(const Parameter& parameter) {
    const int index = bound(parameter);
    if constexpr (std::is_same_v<T, float>) {
      return show(Place::parameter, index, Tensor<const T>(parameters_->master(index)));
    } else if constexpr (std::is_same_v<T, Compute>) {
      return show(Place::parameter, index, parameters_->working(index));
    } else {
      const Tensor<float> master = parameters_->master(index);
      auto converted = allocate<T>(master.shape());
      compute::convert(*device_, master.data(), converted.data(), master.size());
      return show(Place::parameter, index, Tensor<const T>(converted));
    }
  }

  /// Does the backward pass compute this parameter's gradient?
  bool trains(const Parameter& parameter) const {
    return recording() && !parameters_->infos()[static_cast<std::size_t>(bound(parameter))].frozen;
  }

  /// For the backward pass: where a parameter's gradient, in float, is to be written or added.
  GradientTarget<float> gradient_target(const Parameter& parameter) {
    if (!trains(parameter)) return {};
    const int index = bound(parameter);
    const bool accumulate = parameters_->mark_gradient(index);
    const Tensor<float> gradient = parameters_->gradient(index);
    if (observer_ != nullptr) note_target(Place::parameter_gradient, nullptr, index, gradient);
    return {gradient.data(), accumulate};
  }
  /// The same for an input of an operation.
  template <class T>
  GradientTarget<T> gradient_target(const Variable<T>& variable) {
    detail::GradientSlot* slot = variable.slot();
    if (slot == nullptr) return {};
    if (slot->number <= reached_.number && slot != reached_.input) refuse_to_reach(variable.shape());
    if (slot->data == nullptr) slot->data = values_.template allocate<T>(variable.size());
    if (observer_ != nullptr) {
      note_target(Place::activation_gradient, slot, -1, Tensor<T>(static_cast<T*>(slot->data), variable.shape()));
    }
    return {static_cast<T*>(slot->data), std::exchange(slot->written, true)};
  }

  /// Ends an operation: its result, whether any input or parameter wants a gradient, and how to give it to them.
  /// `backward(tape, output_gradient)` is called in the backward pass if a gradient arrives at the result; it is a
  /// small value (views, parameters by pointer or copy) that needs no destruction.
  template <class Operation, class T, class Backward>
  Variable<T> record(Operation, Tensor<T> result, bool wants_gradient, const Backward& backward) {
    detail::GradientSlot* slot = recording() && wants_gradient ? next_slot() : nullptr;
    if constexpr (FloatingType<T>) {
      if (observer_ != nullptr) {
        observer_->see({.place = Place::activation,
                        .operation = detail::short_type_name<Operation>(),
                        .slot = slot,
                        .data = result.data(),
                        .dtype = dtype_of<T>,
                        .shape = result.shape()});
      }
    }
    if (slot != nullptr) add_node<T>(slot, result.shape(), backward);
    return {result, slot};
  }

  /// Computes the gradients of everything recorded, from a scalar whose own gradient is `*seed`, a float in device
  /// memory.
  void backward(const Variable<float>& scalar, float* seed) {
    detail::GradientSlot* slot = scalar.slot();
    if (slot == nullptr) return;
    slot->data = seed;
    slot->written = true;
    if (observer_ != nullptr) {
      targets_.clear();
      observer_->see({.place = Place::activation_gradient, .slot = slot, .data = seed, .shape = Shape()});
    }
    run_nodes();
  }

  /// Shows an observer all that is computed from here on; null, as at first, ends that. Gives back the one before.
  TapeObserver* observe(TapeObserver* observer) { return std::exchange(observer_, observer); }

  /// The most device memory that one pass has taken, in bytes.
  std::size_t peak_bytes() const { return values_.peak(); }
  /// What the tape holds now: for values, and for its list of operations.
  std::size_t value_bytes() const { return values_.capacity(); }
  std::size_t node_bytes() const { return nodes_.capacity(); }

 private:
  friend class detail::Rerun<Tape>;

  struct NodeBase {
    NodeBase* previous;
    detail::GradientSlot* output;
    void (*run)(Tape&, NodeBase&);
  };
  template <class T, class Backward>
  struct Node : NodeBase {
    Shape shape;
    Backward backward;
    static void call(Tape& tape, NodeBase& base) {
      Node& node = static_cast<Node&>(base);
      node.backward(tape, Tensor<const T>(static_cast<const T*>(node.output->data), node.shape));
    }
  };

  /// The place for the next result's gradient: where a function is computed again, that of the first time.
  detail::GradientSlot* next_slot() {
    detail::GradientSlot*& next = last_slot_->next;
    if (next == nullptr) {
      next = new (nodes_.template allocate<detail::GradientSlot>(1)) detail::GradientSlot{};
    }
    *next = {.next = next->next, .number = last_slot_->number + 1};
    return last_slot_ = next;
  }
  template <class T, class Backward>
  void add_node(detail::GradientSlot* output, const Shape& shape, const Backward& backward) {
    static_assert(std::is_trivially_destructible_v<Backward>,
                  "what an operation keeps for its backward pass must need no destruction: keep views and pointers");
    using NodeType = Node<T, Backward>;
    void* memory = nodes_.template allocate<std::byte>(static_cast<std::int64_t>(sizeof(NodeType)));
    last_ = new (memory) NodeType{{last_, output, &NodeType::call}, shape, backward};
  }
  void run_nodes() {
    for (NodeBase* node = last_; node != nullptr; node = node->previous) {
      if (!node->output->written) continue;
      node->run(*this, *node);
      if (observer_ != nullptr) show_targets(node->output);
    }
  }
  [[noreturn]] static void refuse_to_reach(const Shape& shape) {
    throw ConfigurationError("recompute: the function uses a variable of shape " + shape.text() +
                             " that was computed outside and is not its input; hand it in as the input");
  }

  template <class T>
  Tensor<T> show(Place place, int parameter, Tensor<T> tensor) {
    if constexpr (FloatingType<std::remove_const_t<T>>) {
      if (observer_ != nullptr) {
        observer_->see({.place = place,
                        .parameter = parameter,
                        .data = tensor.data(),
                        .dtype = dtype_of<T>,
                        .shape = tensor.shape()});
      }
    }
    return tensor;
  }
  /// Gradients are shown when the operation that asked where to write them has written them.
  template <class T>
  void note_target(Place place, const detail::GradientSlot* slot, int parameter, Tensor<T> gradient) {
    if constexpr (FloatingType<T>) {
      targets_.push_back({.place = place,
                          .slot = slot,
                          .parameter = parameter,
                          .data = gradient.data(),
                          .dtype = dtype_of<T>,
                          .shape = gradient.shape()});
    }
  }
  void show_targets(const detail::GradientSlot* through) {
    for (Observation& target : targets_) {
      target.through = through;
      observer_->see(target);
    }
    targets_.clear();
  }

  int bound(const Parameter& parameter) const {
    if (parameter.index() < 0 || parameter.index() >= static_cast<int>(parameters_->infos().size())) {
      throw ConfigurationError(
          "a layer computes with a parameter of shape " + parameter.shape.text() +
          " that the model does not name; its `parameters(visit)` must name every layer that `forward` uses");
    }
    return parameter.index();
  }

  D* device_;
  Parameters* parameters_;
  Pass pass_ = Pass::inference;
  RandomPass random_;
  std::uint64_t random_operations_ = 0;
  Host node_memory_;
  Arena<D> values_;
  Arena<Host> nodes_;
  NodeBase* last_ = nullptr;
  detail::GradientSlot before_first_slot_;
  detail::GradientSlot* last_slot_ = &before_first_slot_;
  /// While a function computed again runs backward: the number of the last slot from before it, and its
  /// input's, the only one of those that it may give a gradient to.
  struct {
    int number = 0;
    detail::GradientSlot* input = nullptr;
  } reached_;
  TapeObserver* observer_ = nullptr;
  /// Of the operation whose backward pass runs; used only while somebody observes.
  std::vector<Observation> targets_;
};

}  // namespace halfstep
