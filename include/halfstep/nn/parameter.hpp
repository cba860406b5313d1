#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#include <halfstep/nn/initializer.hpp>
#include <halfstep/tensor/shape.hpp>

namespace halfstep {

/// What a layer says of a tensor that is learned: its shape, its first values, whether it is frozen. It holds no
/// numbers; a trainer lays those of all parameters into its flat buffers and notes here which are this one's.
class Parameter {
 public:
  Parameter() = default;
  Parameter(Shape extents, Initializer first_values, bool is_frozen = false)
      : shape(extents), initializer(first_values), frozen(is_frozen) {}

  Shape shape{0};
  Initializer initializer;
  /// A frozen parameter gets no gradient and no update; a trainer reads this once, when it is built.
  bool frozen = false;

  /// Position among the model's parameters, in the order in which the model names them; -1 before a trainer has
  /// taken the model in.
  int index() const { return index_; }
  void bind(int index) { index_ = index; }

 private:
  int index_ = -1;
};

namespace detail {

template <class T>
concept HasParameters = requires(T& object) { object.parameters([](std::string_view, auto&) {}); };

template <class Function>
class ParameterVisitor {
 public:
  ParameterVisitor(std::string prefix, Function& function) : prefix_(std::move(prefix)), function_(function) {}

  template <class Child>
  void operator()(std::string_view name, Child& child) {
    const std::string path = prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
    if constexpr (std::same_as<Child, Parameter>) {
      function_(path, child);
    } else if constexpr (std::ranges::range<Child>) {
      ParameterVisitor nested(path, function_);
      std::size_t position = 0;
      for (auto& element : child) nested(std::to_string(position++), element);
    } else {
      ParameterVisitor nested(path, function_);
      child.parameters(nested);
    }
  }

 private:
  std::string prefix_;
  Function& function_;
};

}  // namespace detail

/// Calls `function(name, parameter)` for every parameter of a model, in the model's order. A model, a layer or a
/// block names its parts in `template <class Visitor> void parameters(Visitor&& visit)`; parts are parameters,
/// objects with parameters of their own, or ranges of either, and their names are joined by dots: blocks.0.weight.
template <class Model, class Function>
void visit_parameters(Model& model, Function&& function) {
  detail::ParameterVisitor<std::remove_reference_t<Function>> visitor("", function);
  model.parameters(visitor);
}

}  // namespace halfstep
