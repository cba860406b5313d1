#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <halfstep/device/buffer.hpp>
#include <halfstep/nn/sum.hpp>

#include "support/tape.hpp"

/// What a test needs to compute the same on the host and on a GPU and compare: a session as that of tape.hpp, for any
/// device. Nothing here touches a device's memory.
namespace halfstep::test {

template <class T, class Device>
std::vector<float> on_host(Device& device, const Tensor<const T>& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.size()));
  if (!values.empty()) device.download(values.data(), tensor.data(), values.size() * sizeof(T));
  std::vector<float> numbers;
  for (const T value : values) numbers.push_back(static_cast<float>(value));
  return numbers;
}

template <class T>
struct CopyGradient {
  Tensor<const T>* kept;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> gradient) const {
    // Whoever comes after may use the memory again.
    const Tensor<T> copy = tape.template allocate<T>(gradient.shape());
    tape.device().copy(copy.data(), gradient.data(), static_cast<std::size_t>(copy.size()) * sizeof(T));
    *kept = copy;
  }
};

template <class T>
struct WeightedTerm {
  const T* values;
  const float* weights;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t i) const { return static_cast<float>(values[i]) * weights[i]; }
};
template <class T>
struct WeightedTermGradient {
  const float* weights;
  const float* sum_gradient;
  GradientTarget<T> gradient;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    store_gradient(gradient, i, weights[i] * *sum_gradient);
  }
};
template <class T>
struct WeightedTermsBackward {
  Variable<T> input;
  const float* weights;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> sum_gradient) const {
    if (const auto target = tape.gradient_target(input)) {
      compute::for_each(tape.device(), input.size(), WeightedTermGradient<T>{weights, sum_gradient.data(), target});
    }
  }
};

struct TotalGradient {
  const float* from;
  GradientTarget<float> to;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { store_gradient(to, i, *from); }
};
struct TotalOfTermsBackward {
  Variable<float> a, b;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> gradient) const {
    for (const Variable<float>& input : {a, b}) {
      if (const auto target = tape.gradient_target(input)) {
        compute::for_each(tape.device(), 1, TotalGradient{gradient.data(), target});
      }
    }
  }
};
struct TotalTerm {
  const float* a;
  const float* b;
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t) const { return *a + *b; }
};

template <class P, class D, class Model = NoLayers>
struct TapeOn {
  using Policy = P;
  using Compute = typename P::compute_type;

  explicit TapeOn(Model the_model = {}, std::uint64_t seed = 1)
      : model(std::move(the_model)),
        parameters(device, model, seed),
        tape(device, parameters),
        seed_of_loss(device, 1) {
    begin();
  }
  void begin(RandomPass random = {}) {
    parameters.clear_gradients();
    kept_floats_.clear();
    kept_halves_.clear();
    tape.begin(Pass::training, random);
  }

  /// A variable of these values, which begin `shift` elements behind the device's alignment. Its gradient is
  /// `gradients()[n]` after the backward pass, for the n-th.
  template <class T>
  Variable<T> input(Shape shape, const std::vector<float>& numbers, std::int64_t shift = 0) {
    std::vector<T> values;
    for (const float number : numbers) values.push_back(static_cast<T>(number));
    const Tensor<T> tensor(tape.template allocate<T>({shift + shape.size()}).data() + shift, shape);
    device.upload(tensor.data(), values.data(), values.size() * sizeof(T));
    auto& kept = kept_of<T>();
    kept.reserve(16);
    kept.push_back({});
    return tape.record(WatchOperation{}, tensor, true, CopyGradient<T>{&kept.back()});
  }

  /// A loss whose gradient by each element of `input` is the weight given.
  template <class T>
  Variable<float> weighted_sum(const Variable<T>& input, const std::vector<float>& weights) {
    const Tensor<float> kept = tape.template allocate<float>(input.shape());
    device.upload(kept.data(), weights.data(), weights.size() * sizeof(float));
    const Tensor<float> sum =
        halfstep::detail::sum_of_terms(tape, input.size(), WeightedTerm<T>{input.data(), kept.data()});
    return tape.record(operation::Loss{}, sum, input.requires_gradient(), WeightedTermsBackward<T>{input, kept.data()});
  }
  Variable<float> total(const Variable<float>& a, const Variable<float>& b) {
    const Tensor<float> sum = halfstep::detail::sum_of_terms(tape, 1, TotalTerm{a.data(), b.data()});
    return tape.record(operation::Loss{}, sum, true, TotalOfTermsBackward{a, b});
  }

  void backward(const Variable<float>& loss, float seed = 1.0f) {
    device.upload(seed_of_loss.data(), &seed, sizeof(float));
    tape.backward(loss, seed_of_loss.data());
  }

  template <class T>
  std::vector<float> values(const Variable<T>& variable) {
    return on_host(device, variable.value());
  }
  /// Empty where the backward pass did not come by.
  template <class T>
  std::vector<std::vector<float>> gradients() {
    std::vector<std::vector<float>> all;
    for (const Tensor<const T>& kept : kept_of<T>()) all.push_back(on_host(device, kept));
    return all;
  }
  std::vector<float> parameter_gradient(const char* name) {
    return on_host(device, Tensor<const float>(parameters.gradient(parameters.find(name))));
  }

  D device;
  Model model;
  ParameterStore<Compute, D> parameters;
  Tape<Policy, D> tape;
  Buffer<float, D> seed_of_loss;

 private:
  template <class T>
  std::vector<Tensor<const T>>& kept_of() {
    if constexpr (std::is_same_v<T, float>) return kept_floats_;
    else return kept_halves_;
  }
  std::vector<Tensor<const float>> kept_floats_;
  std::vector<Tensor<const std::conditional_t<std::is_same_v<Compute, float>, float16, Compute>>> kept_halves_;
};

}  // namespace halfstep::test
