#pragma once

#include <cstddef>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/tape.hpp>
#include <halfstep/policy.hpp>
#include <type_traits>
#include <vector>

namespace halfstep::test {

/// What a micro-batch does to the weights, dictated: for each of them the derivative of the loss sum by each
/// of its elements. An empty list: no gradient reaches that weight.
struct GivenBatch {
  std::vector<std::vector<float>> gradients;
  std::int64_t count = 1;
  float loss_sum = 0.0f;
};

template <class Compute>
struct StoreGiven {
  const float* seed;
  const float* given;
  GradientTarget<float> target;
  bool rounds;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    const float scaled = seed[0] * given[i];
    store_gradient(target, i, rounds ? static_cast<float>(static_cast<Compute>(scaled)) : scaled);
  }
};

/// A model whose gradients are dictated by the batch: weights w.0, w.1, ... of these sizes, zero at first.
/// The gradient is what the backward pass of a real model computes: the product with the scaled seed, in
/// float, or rounded to the compute type as gradients inside a model are.
struct GivenGradients {
  explicit GivenGradients(const std::vector<std::int64_t>& sizes, bool in_compute_type = false)
      : rounds(in_compute_type) {
    for (const std::int64_t size : sizes) weights.emplace_back(Shape{size}, Initializer::zeros());
  }

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("w", weights);
  }

  struct Backward {
    const GivenGradients* model;
    const GivenBatch* batch;
    template <class Tape>
    void operator()(Tape& tape, Tensor<const float> seed) const {
      for (std::size_t p = 0; p < batch->gradients.size(); ++p) {
        const auto& gradient = batch->gradients[p];
        if (gradient.empty()) continue;
        if (const auto target = tape.gradient_target(model->weights[p])) {
          const auto size = static_cast<std::int64_t>(gradient.size());
          const float* given = gradient.data();
          if constexpr (!std::remove_cvref_t<decltype(tape.device())>::shares_host_memory) {
            const Tensor<float> sent = tape.template allocate<float>({size});
            tape.device().upload(sent.data(), given, gradient.size() * sizeof(float));
            given = sent.data();
          }
          compute::for_each(tape.device(), size,
                            StoreGiven<typename Tape::Compute>{seed.data(), given, target, model->rounds});
        }
      }
    }
  };

  template <class Tape>
  Loss loss(Tape& tape, const GivenBatch& batch) const {
    const Tensor<float> sum = tape.template allocate<float>(Shape());
    tape.device().upload(sum.data(), &batch.loss_sum, sizeof(float));
    bool wanted = false;
    for (std::size_t p = 0; p < batch.gradients.size(); ++p) {
      wanted = wanted || (!batch.gradients[p].empty() && tape.trains(weights[p]));
    }
    return {tape.record(operation::Loss{}, sum, wanted, Backward{this, &batch}), batch.count};
  }

  /// The numbers of one weight that the model computes with.
  template <class Tape>
  auto forward(Tape& tape, std::size_t which) const {
    return tape.template weight<typename Tape::Compute>(weights[which]);
  }

  std::vector<Parameter> weights;
  bool rounds;
};

#if defined(__CUDACC__)
/// What kernels of this file read, for they cannot read the host's.
static __device__ DynamicScaler chosen_for_kernels;
#endif

/// A scaler whose options are set when the test runs, so that one trainer type serves all of them.
struct ChosenScaler {
  static constexpr const char* name = "ChosenScaler";
  static constexpr bool scales = true;
  static inline thread_local DynamicScaler options{};

  ScalerState first_state() const { return options.first_state(); }
  HALFSTEP_HOST_DEVICE ScalerStep after(const ScalerState& state, Outcome outcome, SkipCause cause) const {
#if defined(__CUDA_ARCH__)
    return chosen_for_kernels.after(state, outcome, cause);
#else
    return options.after(state, outcome, cause);
#endif
  }
  constexpr detail::OptionFault fault() const { return {}; }
};

/// Sets them, for trainers that have no step under way.
[[maybe_unused]] static void choose_scaler(const DynamicScaler& options) {
  ChosenScaler::options = options;
#if defined(__CUDACC__)
  if (cudaMemcpyToSymbol(chosen_for_kernels, &options, sizeof options) != cudaSuccess) {
    throw DeviceError("cudaMemcpyToSymbol of a test's scaler");
  }
#endif
}

/// Chooses a scaler for as long as it lives.
struct ScalerChoice {
  explicit ScalerChoice(const DynamicScaler& options) { choose_scaler(options); }
  ScalerChoice(const ScalerChoice&) = delete;
  ScalerChoice& operator=(const ScalerChoice&) = delete;
  ~ScalerChoice() { choose_scaler({}); }
};

struct ChosenScalerPolicy : Float16ScaledPolicy {
  static constexpr std::string_view name = "float16, chosen scaler";
  static constexpr ChosenScaler scaler{};
};

}  // namespace halfstep::test
