#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <halfstep/evidence/detail/diagnosis_advice.hpp>
#include <halfstep/evidence/diagnosis.hpp>
#include <halfstep/evidence/probe.hpp>
#include <halfstep/scaling/scalers.hpp>
#include <halfstep/scaling/unscale.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace halfstep::detail {

/// Computes the micro-batches of a window again, as often as a diagnosis needs it, with gradients of its own
/// in the place of the trainer's, which are back when this object is gone.
template <class Core>
class Diagnoser {
  using DeviceType = typename Core::DeviceType;

 public:
  Diagnoser(Core& core, std::span<const BatchView<Core>> batches, const WindowFacts& window,
            DiagnoseOptions options)
      : core_(core),
        batches_(batches),
        window_(window),
        options_(options),
        gradients_(core.device(), core.store().size()),
        has_gradient_(core.store().infos().size(), 0),
        seed_(core.device(), 1),
        outer_(core.tape().observe(nullptr)) {
    core_.store().swap_gradients(gradients_, has_gradient_);
  }
  Diagnoser(const Diagnoser&) = delete;
  Diagnoser& operator=(const Diagnoser&) = delete;
  ~Diagnoser() {
    core_.store().swap_gradients(gradients_, has_gradient_);
    core_.tape().observe(outer_);
  }

  Diagnosis run() {
    ProbeType probe = new_probe();
    if (options_.table && Core::scales) probe.remember_zeros();
    const double loss = compute(window_.scale, probe);

    Diagnosis diagnosis;
    diagnosis.attempt = window_.attempt;
    diagnosis.skip_cause = window_.skip_cause;
    diagnosis.micro_batches = (std::max)(static_cast<std::int64_t>(batches_.size()), window_.micro_batches);
    diagnosis.scale = window_.scale;
    diagnosis.loss = loss;
    diagnosis.first = probe.first();
    diagnosis.first_gradient = probe.first_gradient();
    if (options_.table) diagnosis.table = table_of(probe);
    if (Core::scales && is_finite(loss)) diagnosis.fitting_scale = fitting_scale(range_of(probe));
    diagnosis.advice = advice_for(diagnosis, Core::scales);
    return diagnosis;
  }

 private:
  using ProbeType = Probe<DeviceType>;
  /// How much larger the scale is at which gradients that are zero are looked at again.
  static constexpr float magnified = 4096;
  /// A scale fits if it leaves one binade free.
  static constexpr double share_in_use = 0.5;

  ProbeType new_probe() {
    ProbeType probe(core_.device(), core_.store().infos(), options_);
    probe.show_also(outer_);
    return probe;
  }

  /// Forward and backward over all micro-batches, as the window did it, but from this scale. Gives the mean
  /// loss.
  double compute(float scale, ProbeType& probe) {
    struct Observed {
      typename Core::TapeType& tape;
      Observed(typename Core::TapeType& observed, TapeObserver& observer) : tape(observed) {
        tape.observe(&observer);
      }
      ~Observed() { tape.observe(nullptr); }
    } const observed(core_.tape(), probe);
    core_.store().clear_gradients();
    double normalizer = window_.normalizer, loss_sum = 0;
    std::int64_t valid = 0;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      const std::size_t number = i + static_cast<std::size_t>(options_.micro_batch);
      probe.begin_micro_batch(static_cast<std::int64_t>(number));
      const Loss loss = batches_[i].loss(core_, batches_[i].batch, window_.first_random_pass + number);
      probe.mark_loss(loss.sum);
      if (loss.count == 0) continue;
      float sum = 0;
      core_.device().download(&sum, loss.sum.data(), sizeof sum);
      loss_sum += static_cast<double>(sum);
      valid += loss.count;
      if (normalizer == 0) normalizer = window_normalizer(loss.count);
      const float seed = loss_seed(scale, normalizer);
      core_.device().upload(seed_.data(), &seed, sizeof seed);
      core_.tape().backward(loss.sum, seed_.data());
    }
    return valid == 0 ? std::numeric_limits<double>::quiet_NaN() : loss_sum / static_cast<double>(valid);
  }

  std::vector<TensorEvidence> table_of(const ProbeType& probe) {
    if (!Core::scales || window_.scale > largest_loss_scale / magnified) return probe.complete_tensors();
    ProbeType larger = new_probe();
    larger.compare_zeros(probe.zeros());
    compute(window_.scale * magnified, larger);
    std::vector<TensorEvidence> table = probe.complete_tensors();
    for (TensorEvidence& tensor : table) {
      tensor.statistics.rounded_to_zero =
          larger.tensors()[static_cast<std::size_t>(tensor.position)].statistics.rounded_to_zero;
    }
    return table;
  }

  /// How the gradients of one computation use their types: whether any is not finite, and how near the
  /// largest finite one comes to the largest number.
  struct GradientRange {
    bool overflows;
    double share;
  };
  static GradientRange range_of(const ProbeType& probe) {
    return {probe.first_gradient().has_value(), probe.largest_share_of_range()};
  }
  GradientRange range_at(float scale) {
    ProbeType probe = new_probe();
    compute(scale, probe);
    return range_of(probe);
  }

  /// The largest power of two that keeps a binade free above every gradient. Where gradients overflow at the
  /// window's scale, their size is learned at a smaller one; what is found is tried.
  std::optional<float> fitting_scale(GradientRange range) {
    float scale = window_.scale;
    while (range.overflows) {
      scale *= 0x1p-12f;
      if (scale < smallest_loss_scale) return std::nullopt;
      range = range_at(scale);
    }
    float candidate = power_that_fits(scale, range.share), fits = 0;
    constexpr int most_tries = 16;
    for (int tries = 0; tries < most_tries && candidate >= smallest_loss_scale; ++tries) {
      range = range_at(candidate);
      if (range.overflows || range.share > share_in_use) {
        // Near the bottom of a type magnitudes are coarse: what was seen at the smaller scale promised too
        // much.
        candidate /= 2;
        if (candidate == fits) return fits;
        continue;
      }
      const float better = power_that_fits(candidate, range.share);
      if (better <= candidate) return candidate;
      fits = candidate;
      candidate = better;
    }
    return std::nullopt;
  }

  /// The largest power of two at which gradients that use this share of the range at `scale` use no more than
  /// `share_in_use`; 0 where all of them are zero.
  static float power_that_fits(float scale, double share) {
    if (share == 0) return 0;
    const double exponent = std::floor(std::log2(static_cast<double>(scale) * share_in_use / share));
    return static_cast<float>(std::exp2((std::min)(exponent, 127.0)));
  }

  Core& core_;
  std::span<const BatchView<Core>> batches_;
  WindowFacts window_;
  DiagnoseOptions options_;
  Buffer<float, DeviceType> gradients_;
  std::vector<std::uint8_t> has_gradient_;
  Buffer<float, DeviceType> seed_;
  TapeObserver* outer_;
};

template <class Core>
Diagnosis diagnose(Core& core, std::span<const BatchView<Core>> batches, const WindowFacts& window,
                   const DiagnoseOptions& options) {
  return Diagnoser<Core>(core, batches, window, options).run();
}

/// Trainer::diagnose.
template <class Core, class Batch>
Diagnosis diagnose_batch(Core& core, const Batch& batch, const DiagnoseOptions& options) {
  const WindowFacts window = core.window_to_diagnose();
  const std::int64_t count = (std::max)(window.micro_batches, std::int64_t{1});
  if (options.micro_batch < 0 || options.micro_batch >= count) {
    throw ConfigurationError("diagnose: micro_batch is " + std::to_string(options.micro_batch) +
                             ", but the window had " + std::to_string(count) + "; they are counted from 0");
  }
  const auto view = BatchView<Core>::of(batch);
  return diagnose<Core>(core, {&view, 1}, window, options);
}

/// Trainer::diagnose_window.
template <class Core, class Batches>
Diagnosis diagnose_batches(Core& core, const Batches& batches, DiagnoseOptions options) {
  std::vector<BatchView<Core>> views;
  for (const auto& batch : batches) views.push_back(BatchView<Core>::of(batch));
  const WindowFacts window = core.window_to_diagnose();
  const auto count = static_cast<std::int64_t>(views.size());
  if (count == 0 || (window.micro_batches > 0 && count != window.micro_batches)) {
    throw ConfigurationError("diagnose_window: " + std::to_string(count) + " micro-batches were given; " +
                             (window.micro_batches > 0
                                  ? "the skipped window had " + std::to_string(window.micro_batches)
                                  : std::string("a window has at least one")));
  }
  options.micro_batch = 0;
  return diagnose<Core>(core, views, window, options);
}

/// Of a window whose micro-batches had finite gradients each: the sum that is not finite, if there is one.
template <class Core>
std::optional<TensorEvidence> overflow_of_sum(Core& core, std::int64_t micro_batch) {
  const std::int64_t parameter = core.record().facts.first_bad_parameter;
  if (parameter < 0) return std::nullopt;
  const Tensor<float> sum = core.store().gradient(static_cast<int>(parameter));
  std::vector<float> values(static_cast<std::size_t>(sum.size()));
  core.device().download(values.data(), sum.data(), values.size() * sizeof(float));
  TensorEvidence evidence;
  evidence.place = Place::parameter_gradient;
  evidence.layer = core.store().infos()[static_cast<std::size_t>(parameter)].name;
  evidence.micro_batch = micro_batch;
  evidence.shape = sum.shape();
  evidence.statistics = measure_tensor(values.data(), sum.size());
  if (evidence.statistics.non_finite == 0) return std::nullopt;
  return evidence;
}

/// Training goes on whatever becomes of the explanation: what is thrown on the way becomes its text.
template <class Core>
std::shared_ptr<Diagnosis> look_at_micro_batch(Core& core, const BatchView<Core>& batch, const WindowFacts& so_far) {
  auto diagnosis = std::make_shared<Diagnosis>();
  const std::int64_t micro_batch = so_far.micro_batches - 1;
  try {
    *diagnosis = diagnose<Core>(core, {&batch, 1}, so_far, {.micro_batch = micro_batch});
    if (diagnosis->first) return diagnosis;
    diagnosis->first = diagnosis->first_gradient = overflow_of_sum(core, micro_batch);
    if (!diagnosis->first) return diagnosis;
    diagnosis->fitting_scale.reset();
    diagnosis->advice = advice_on_sum(Core::scales);
  } catch (const std::exception& error) {
    diagnosis->attempt = so_far.attempt;
    diagnosis->scale = so_far.scale;
    diagnosis->advice = std::string("the micro-batch could not be computed again: ") + error.what();
  }
  return diagnosis;
}

inline std::string tell_of_window(Diagnosis& found, const WindowFacts& window, double loss) {
  found.skip_cause = window.skip_cause;
  found.micro_batches = window.micro_batches;
  found.loss = loss;
  return found.text();
}

/// Trainer::diagnose_skips.
template <class Core>
void explain_skips(Core& core, bool on) {
  static constexpr SkipExplainer<Core> explainer{&look_at_micro_batch<Core>, &tell_of_window};
  core.explain_with(on ? &explainer : nullptr);
}

}  // namespace halfstep::detail
