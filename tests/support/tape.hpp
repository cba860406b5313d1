#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/nn/parameter_store.hpp>
#include <halfstep/nn/tape.hpp>
#include <halfstep/policy.hpp>
#include <random>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/sanitizers.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace halfstep::test {

/// What a test of numbers runs in.
using AllPolicies = std::tuple<Float32Policy, BFloat16Policy, Float16ScaledPolicy>;
/// For what the number of bits may change and their division into exponent and fraction does not: both types of 16
/// bits take the same way through the code. Tests of what is recorded, and for whom, do with one of them.
using FloatAnd16Bits = std::tuple<Float32Policy, BFloat16Policy>;
using Only16Bits = std::tuple<BFloat16Policy, Float16ScaledPolicy>;
/// For tests of threads, which compute much: the accesses that sanitizers check are the same in both types.
using ThreadPolicies = std::conditional_t<under_sanitizers, std::tuple<BFloat16Policy>, FloatAnd16Bits>;

/// A model without layers, for operations that need none.
struct NoLayers {
  Parameter unused{Shape{1}, Initializer::zeros()};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("unused", unused);
  }
};

/// A model with its parameters and a tape: what a trainer holds, without the trainer.
template <class Policy, class Model = NoLayers>
struct Session {
  using Compute = typename Policy::compute_type;

  explicit Session(Model the_model = {}, std::uint64_t seed = 1)
      : model(std::move(the_model)), parameters(host, model, seed), tape(host, parameters) {
    tape.begin(Pass::training);
  }

  /// The gradients of everything recorded, from a loss whose own gradient is `seed`.
  void backward(const Variable<float>& loss, float seed = 1.0f) {
    seed_ = seed;
    tape.backward(loss, &seed_);
  }
  std::vector<float> master(const char* name) { return copy(parameters.master(parameters.find(name))); }
  std::vector<float> gradient(const char* name) { return copy(parameters.gradient(parameters.find(name))); }
  bool has_gradient(const char* name) {
    return parameters.has_gradient()[static_cast<std::size_t>(parameters.find(name))] != 0;
  }
  /// The numbers that the model computes with.
  std::vector<double> working(const char* name) {
    std::vector<double> values;
    for (const Compute value : parameters.working(parameters.find(name))) {
      values.push_back(static_cast<double>(static_cast<float>(value)));
    }
    return values;
  }

  Host host;
  Model model;
  ParameterStore<Compute, Host> parameters;
  Tape<Policy, Host> tape;

 private:
  static std::vector<float> copy(const Tensor<float>& tensor) { return {tensor.begin(), tensor.end()}; }
  float seed_ = 1.0f;
};

/// An input whose gradient can be read after the backward pass.
template <class T>
struct Watched {
  Watched(Shape the_shape, const std::vector<float>& numbers) : shape(the_shape) {
    for (const float number : numbers) values.push_back(static_cast<T>(number));
  }
  /// The values as they are after rounding to T.
  std::vector<double> exact() const {
    std::vector<double> result;
    for (const T value : values) result.push_back(static_cast<double>(static_cast<float>(value)));
    return result;
  }

  Shape shape;
  std::vector<T> values;
  std::vector<float> gradient;
  int visits = 0;
};

struct WatchOperation {};

template <class T>
struct WatchBackward {
  Watched<T>* watched;
  template <class Tape>
  void operator()(Tape&, Tensor<const T> gradient) const {
    ++watched->visits;
    watched->gradient.clear();
    for (const T value : gradient) watched->gradient.push_back(static_cast<float>(value));
  }
};

template <class T, class Tape>
Variable<T> watch(Tape& tape, Watched<T>& watched) {
  const Tensor<T> values = tape.template allocate<T>(watched.shape);
  std::copy(watched.values.begin(), watched.values.end(), values.data());
  return tape.record(WatchOperation{}, values, true, WatchBackward<T>{&watched});
}

template <class T>
struct WeightedSumBackward {
  Variable<T> input;
  const float* weights;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> gradient) const {
    const auto target = tape.gradient_target(input);
    if (!target) return;
    for (std::int64_t i = 0; i < input.size(); ++i) {
      const float before = target.accumulate ? static_cast<float>(target.data[i]) : 0.0f;
      target.data[i] = static_cast<T>(before + weights[i] * gradient[0]);
    }
  }
};

/// A scalar whose gradient by each element of `input` is the weight given: it sends any gradient one likes
/// back.
template <class T, class Tape>
Variable<float> weighted_sum(Tape& tape, const Variable<T>& input, const std::vector<float>& weights) {
  const Tensor<float> result = tape.template allocate<float>(Shape());
  double sum = 0;
  for (std::int64_t i = 0; i < input.size(); ++i) {
    sum += static_cast<double>(weights[static_cast<std::size_t>(i)]) *
           static_cast<double>(static_cast<float>(input.data()[i]));
  }
  result[0] = static_cast<float>(sum);
  const Tensor<float> kept = tape.template allocate<float>(input.shape());
  std::copy(weights.begin(), weights.end(), kept.data());
  return tape.record(operation::Loss{}, result, input.requires_gradient(),
                     WeightedSumBackward<T>{input, kept.data()});
}

struct TotalBackward {
  Variable<float> a, b;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const float> gradient) const {
    for (const Variable<float>& input : {a, b}) {
      if (const auto target = tape.gradient_target(input)) {
        target.data[0] = (target.accumulate ? target.data[0] : 0.0f) + gradient[0];
      }
    }
  }
};

/// The sum of two scalars: a loss that reaches its inputs on two ways.
template <class Tape>
Variable<float> total(Tape& tape, const Variable<float>& a, const Variable<float>& b) {
  const Tensor<float> result = tape.template allocate<float>(Shape());
  result[0] = *a.data() + *b.data();
  return tape.record(operation::Loss{}, result, a.requires_gradient() || b.requires_gradient(),
                     TotalBackward{a, b});
}

template <class T>
std::vector<float> floats(const Tensor<const T>& tensor) {
  std::vector<float> values;
  for (const T value : tensor) values.push_back(static_cast<float>(value));
  return values;
}

/// The same numbers in every run and on every machine.
inline std::vector<float> random_numbers(std::int64_t count, float low, float high, std::uint32_t seed = 7) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = low + (high - low) * (static_cast<float>(generator() >> 8) * 0x1p-24f);
  return values;
}

/// The values as they are after rounding to T.
template <class T>
std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) value = static_cast<float>(static_cast<T>(value));
  return values;
}

/// d function / d x for each x, by central differences in double.
inline std::vector<double> numeric_gradient(
    std::vector<double> x, const std::function<double(const std::vector<double>&)>& function) {
  constexpr double step = 1e-5;
  std::vector<double> gradient;
  for (double& value : x) {
    const double middle = value;
    value = middle + step;
    const double above = function(x);
    value = middle - step;
    const double below = function(x);
    value = middle;
    gradient.push_back((above - below) / (2 * step));
  }
  return gradient;
}

/// What `run()` returns with one thread and with two.
template <class Run>
auto with_one_and_two_threads(const Run& run) {
#if defined(_OPENMP)
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  auto one = run();
  omp_set_num_threads(2);
  auto two = run();
  omp_set_num_threads(before);
  return std::pair(std::move(one), std::move(two));
#else
  return std::pair(run(), run());
#endif
}

}  // namespace halfstep::test
