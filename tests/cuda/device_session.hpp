#pragma once

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/tape.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/tape.hpp"
#include "support/tolerance.hpp"

/// The same operations on the CPU and on the GPU that the tests' CUDA runtime plays, and their results side
/// by side.
namespace halfstep::test {

/// What one run gives to be compared.
struct Part {
  std::string name;
  std::vector<float> values;
  Tolerance tolerance;
};

template <class T, class D>
std::vector<T> downloaded(D& device, const Tensor<const T>& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.size()));
  device.download(values.data(), tensor.data(), values.size() * sizeof(T));
  return values;
}
template <class T, class D>
std::vector<float> downloaded_floats(D& device, const Tensor<const T>& tensor) {
  std::vector<float> values;
  for (const T value : downloaded(device, tensor)) values.push_back(static_cast<float>(value));
  return values;
}

/// Keeps the gradient that arrives at an input.
template <class T>
struct KeepGradient {
  std::vector<Part>* parts;
  std::size_t part;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> gradient) const {
    (*parts)[part].values = downloaded_floats(tape.device(), gradient);
  }
};

template <class T>
struct GiveGradientKernel {
  const float* given;
  GradientTarget<T> target;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { store_gradient(target, i, given[i]); }
};
template <class T>
struct GiveGradient {
  Variable<T> input;
  const float* given;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const float>) const {
    if (const auto target = tape.gradient_target(input)) {
      compute::for_each(tape.device(), input.size(), GiveGradientKernel<T>{given, target});
    }
  }
};

/// A small workspace: opening and closing the memory of a GPU of the tests takes time by the page.
template <class D>
typename D::Options options_of_test() {
  if constexpr (D::shares_host_memory)
    return {};
  else
    return {.workspace_bytes = std::size_t{1} << 16};
}

/// A tape on a device, with a model's parameters, and what is to be compared with another device's.
template <class P, class D, class Model>
struct DeviceSession {
  using Policy = P;
  using Compute = typename Policy::compute_type;

  explicit DeviceSession(const Model& the_model)
      : model(the_model), parameters(device, model, 1), tape(device, parameters) {
    tape.begin(Pass::training);
  }

  /// An input of random numbers whose gradient is compared, with sums of `terms` terms.
  template <class T>
  Variable<T> input(const std::string& name, Shape shape, std::int64_t terms = 1, float range = 2.0f) {
    std::vector<T> values;
    const auto seed = static_cast<std::uint32_t>(parts.size() + 11);
    for (const float number : random_numbers(shape.size(), -range, range, seed))
      values.push_back(static_cast<T>(number));
    return input(name, shape, values, terms);
  }
  template <class T>
  Variable<T> input(const std::string& name, Shape shape, const std::vector<T>& values,
                    std::int64_t terms = 1) {
    const Tensor<T> room = tape.template allocate<T>(shape);
    device.upload(room.data(), values.data(), values.size() * sizeof(T));
    parts.push_back({"gradient of " + name, {}, tolerance_of<T>.over(terms)});
    return tape.record(WatchOperation{}, room, true, KeepGradient<T>{&parts, parts.size() - 1});
  }
  /// Compares a result.
  template <class T>
  void keep(const std::string& name, const Variable<T>& result, std::int64_t terms = 1) {
    parts.push_back({name, downloaded_floats(device, result.value()), tolerance_of<T>.over(terms)});
  }
  /// The backward pass, with a random gradient at `result`. Parameters' gradients are compared, as sums of
  /// `terms` terms.
  template <class T>
  void backward(const Variable<T>& result, std::int64_t terms) {
    const auto numbers = random_numbers(result.size(), -1.0f, 1.0f, 5);
    const Tensor<float> given = tape.template allocate<float>(result.shape());
    device.upload(given.data(), numbers.data(), numbers.size() * sizeof(float));
    const Tensor<float> scalar = tape.template allocate<float>({2});
    const auto loss = tape.record(operation::Loss{}, Tensor<float>(scalar.data(), Shape()), true,
                                  GiveGradient<T>{result, given.data()});
    tape.backward(loss, scalar.data() + 1);
    for (std::size_t i = 0; i < parameters.infos().size(); ++i) {
      if (parameters.has_gradient()[i] == 0) continue;
      const Tensor<const float> gradient = parameters.gradient(static_cast<int>(i));
      parts.push_back({"gradient of " + parameters.infos()[i].name, downloaded_floats(device, gradient),
                       float_tolerance.over(terms)});
    }
  }

  D device{options_of_test<D>()};
  Model model;
  ParameterStore<Compute, D> parameters;
  Tape<Policy, D> tape;
  std::vector<Part> parts;
};

/// What `run(session)` computes on the GPU must be what it computes on the CPU.
template <class Policy, class Model, class Run>
void compare_devices(const Model& model, const Run& run) {
  DeviceSession<Policy, Host, Model> on_host(model);
  DeviceSession<Policy, Cuda, Model> on_gpu(model);
  run(on_host);
  run(on_gpu);
  BOOST_TEST_REQUIRE(on_gpu.parts.size() == on_host.parts.size());
  for (std::size_t i = 0; i < on_host.parts.size(); ++i) {
    BOOST_TEST_CONTEXT(on_host.parts[i].name << " under " << Policy::name) {
      check_close(on_gpu.parts[i].values, on_host.parts[i].values, on_host.parts[i].tolerance);
    }
  }
}

}  // namespace halfstep::test
