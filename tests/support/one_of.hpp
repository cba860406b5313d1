#pragma once

#include <concepts>
#include <variant>

#include <halfstep/nn/variable.hpp>

namespace halfstep::test {

/// One of several models, chosen when the test runs: they share a type of trainer, and what compiling it costs. The
/// loss of another model's batch has no sum, which a trainer refuses.
template <class... Models>
struct OneOf {
  template <class Model>
  requires(std::same_as<Model, Models> || ...)
  OneOf(const Model& model) : models(model) {}

  template <class Visitor>
  void parameters(Visitor&& visit) {
    const auto name = [&](auto* model) {
      if (model != nullptr) model->parameters(visit);
    };
    (name(std::get_if<Models>(&models)), ...);
  }
  template <class Tape, class Batch>
  Loss loss(Tape& tape, const Batch& batch) {
    Loss result;
    const auto compute = [&](auto* model) {
      if constexpr (requires { model->loss(tape, batch); }) {
        if (model != nullptr) result = model->loss(tape, batch);
      }
    };
    (compute(std::get_if<Models>(&models)), ...);
    return result;
  }

  std::variant<Models...> models;
};

}  // namespace halfstep::test
