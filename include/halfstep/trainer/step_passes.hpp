#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/parameter_store.hpp>
#include <halfstep/optim/update_pass.hpp>
#include <halfstep/scaling/measure.hpp>
#include <halfstep/trainer/device_table.hpp>
#include <halfstep/trainer/parameter_rule.hpp>
#include <halfstep/trainer/step_record.hpp>

namespace halfstep::detail {

/// The passes of a step over the flat buffers, in their order: measure, decide, update. Each reads what it needs in
/// device memory and is one launch. Holds what belongs to the optimizer: moments, and each parameter's own options.
/// Requires that device and store outlive it and stay where they are.
template <class Record, class Optimizer, class Policy, Device D>
class StepPasses {
 public:
  using Compute = typename Policy::compute_type;
  using Store = ParameterStore<Compute, D>;

  /// Freezes what the rules freeze. Throws ConfigurationError for a rule that matches nothing, or whose numbers cannot
  /// be.
  StepPasses(D& device, Store& store, std::span<const ParameterRule> rules)
      : device_(device),
        store_(store),
        partials_(device, static_cast<std::int64_t>(store.chunks().size())),
        options_(store.infos().size()) {
    for (auto& moment : moments_) moment = Buffer<float, D>(device, store.size());
    for (const ParameterRule& rule : rules) apply(rule);
    for (std::size_t i = 0; i < options_.size(); ++i) validate(options_[i], store.infos()[i].name.c_str());
  }

  /// Writes the facts of the gradients as they are now into the record.
  void measure(Record* record) {
    measure_chunks(record);
    compute::for_each_task(device_, 1, measurements(record));
  }

  struct Decide {
    /// Are the record's facts those of the window as it is?
    bool is_measured = false;
    float max_norm = (std::numeric_limits<float>::infinity)();
    float max_value = (std::numeric_limits<float>::infinity)();
  };
  /// Measures what was not, and decides the step.
  void decide(Record* record, const Optimizer& optimizer, const Decide& how) {
    if (!how.is_measured) measure_chunks(record);
    compute::for_each_task(device_, 1,
                           DecideStep<Record, Policy, Optimizer>{measurements(record), how.is_measured, record,
                                                                 optimizer, how.max_norm, how.max_value});
  }
  /// Carries out what was decided.
  void update(const Record* record) {
    const auto count = static_cast<std::int64_t>(store_.chunks().size());
    UpdateChunk<Optimizer, Compute> pass{chunks_.show_once(device_, store_.chunks()),
                                         flags_.show(device_, store_.has_gradient()),
                                         shown_options_.show_once(device_, std::span<const ParameterOptions>(options_)),
                                         store_.gradients(),
                                         store_.masters(),
                                         Store::has_working_copy ? store_.working() : nullptr,
                                         {},
                                         &record->update,
                                         count};
    for (std::size_t m = 0; m < moments_.size(); ++m) pass.moments[m] = moments_[m].data();
    compute::for_each_chunk(device_, count, pass);
  }

  Buffer<float, D>& moment(std::size_t position) { return moments_[position]; }

  std::size_t moment_bytes() const {
    std::size_t total = 0;
    for (const auto& moment : moments_) total += moment.bytes();
    return total;
  }
  std::size_t bookkeeping_bytes() const {
    return partials_.bytes() + chunks_.bytes() + segments_.bytes() + flags_.bytes() + shown_options_.bytes();
  }

 private:
  void apply(const ParameterRule& rule) {
    bool matched = false;
    for (std::size_t i = 0; i < options_.size(); ++i) {
      if (!rule.matches(store_.infos()[i])) continue;
      matched = true;
      options_[i].weight_decay_factor = rule.weight_decay_factor().value_or(options_[i].weight_decay_factor);
      options_[i].learning_rate_factor = rule.learning_rate_factor().value_or(options_[i].learning_rate_factor);
      if (rule.freezes()) store_.freeze(static_cast<int>(i));
    }
    if (matched) return;
    throw ConfigurationError("a rule for " + rule.description() + " matches none; the model has" + store_.names());
  }

  void measure_chunks(const Record* record) {
    const auto chunks = store_.chunks();
    const auto count = static_cast<std::int64_t>(chunks.size());
    compute::for_each_chunk(device_, count,
                            MeasureChunk{chunks_.show_once(device_, chunks),
                                         segments_.show_once(device_, store_.segments()),
                                         flags_.show(device_, store_.has_gradient()), store_.gradients(),
                                         &record->window.inverse_scale, partials_.data(), count});
  }
  JoinMeasurements<Record> measurements(Record* record) {
    const auto chunks = store_.chunks();
    return {record, partials_.data(), chunks_.show_once(device_, chunks), static_cast<std::int64_t>(chunks.size()),
            any_gradient()};
  }
  bool any_gradient() const {
    for (const std::uint8_t has : store_.has_gradient()) {
      if (has != 0) return true;
    }
    return false;
  }

  D& device_;
  Store& store_;
  Buffer<MeasurePartial, D> partials_;
  std::array<Buffer<float, D>, static_cast<std::size_t>(Optimizer::moments)> moments_;
  std::vector<ParameterOptions> options_;
  DeviceTable<compute::SegmentChunk, D> chunks_;
  DeviceTable<compute::Segment, D> segments_;
  DeviceTable<std::uint8_t, D> flags_;
  DeviceTable<ParameterOptions, D> shown_options_;
};

}  // namespace halfstep::detail
