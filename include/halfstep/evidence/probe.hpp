#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <halfstep/evidence/diagnosis.hpp>
#include <halfstep/nn/parameter_store.hpp>
#include <halfstep/trainer/window_facts.hpp>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace halfstep::detail {

/// Looks at every tensor of the passes that it observes: where it belongs, and its statistics. What looked
/// before goes on looking, and is shown each tensor first.
template <Device D>
class Probe final : public TapeObserver {
 public:
  /// Which elements are zero: for each gradient, in the order in which they were seen.
  using Zeros = std::vector<std::vector<bool>>;

  Probe(D& device, std::span<const ParameterInfo> parameters, const DiagnoseOptions& options)
      : device_(device), parameters_(parameters), options_(options) {}

  void show_also(TapeObserver* other) { other_ = other; }
  void remember_zeros() { keeps_zeros_ = true; }
  const Zeros& zeros() const { return zeros_; }
  /// Counts, for each gradient, how many of the elements that were zero are finite and not zero now.
  void compare_zeros(const Zeros& zeros) { compared_ = &zeros; }

  void begin_micro_batch(std::int64_t number) {
    micro_batch_ = number;
    results_.clear();
    shown_parameters_.clear();
    uses_.clear();
    layer_.clear();
    own_layer_ = false;
    backward_ = false;
    next_input_ = 0;
  }

  /// Says which of the activations seen is the loss.
  void mark_loss(const Variable<float>& sum) {
    const auto found = std::find(places_.rbegin(), places_.rend(), place_of(sum.slot(), sum.data()));
    if (found == places_.rend()) return;
    TensorEvidence& loss = tensors_[static_cast<std::size_t>(places_.rend() - found - 1)];
    loss.place = Place::loss;
    if (first_ && first_->position == loss.position) first_->place = Place::loss;
  }

  void see(const Observation& seen) override {
    if (other_ != nullptr) other_->see(seen);
    if (seen.place == Place::parameter && !first_use(seen)) return;
    TensorEvidence tensor = place(seen);
    look(seen, tensor);
    if (tensor.statistics.non_finite > 0) {
      if (!first_) first_ = tensor;
      if (!first_gradient_ && tensor.is_gradient()) first_gradient_ = tensor;
    }
    tensors_.push_back(std::move(tensor));
    places_.push_back(place_of(seen.slot, seen.data));
  }

  const std::optional<TensorEvidence>& first() const { return first_; }
  const std::optional<TensorEvidence>& first_gradient() const { return first_gradient_; }
  /// All that was seen, in order: a gradient that was added to once for each time.
  const std::vector<TensorEvidence>& tensors() const { return tensors_; }

  /// The same with each gradient once, as it was when it was complete.
  std::vector<TensorEvidence> complete_tensors() const {
    std::vector<TensorEvidence> kept;
    std::set<std::pair<std::int64_t, const void*>> seen;
    for (std::size_t i = tensors_.size(); i-- > 0;) {
      const TensorEvidence& tensor = tensors_[i];
      // The next micro-batch uses activations' places anew; a parameter's gradient is added up over all.
      const std::int64_t lifetime = tensor.place == Place::parameter_gradient ? -1 : tensor.micro_batch;
      if (tensor.is_gradient() && !seen.emplace(lifetime, places_[i]).second) continue;
      kept.push_back(tensor);
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

  /// How near a gradient comes to the largest number of its type: 1 is that number.
  double largest_share_of_range() const {
    double share = 0;
    for (const TensorEvidence& tensor : tensors_) {
      if (!tensor.is_gradient() || tensor.written_by.empty()) continue;
      share = (std::max)(share, tensor.statistics.largest / largest_of(tensor.dtype));
    }
    return share;
  }

 private:
  /// What tells a tensor from others: one memory may hold several in a pass, each for a while.
  static const void* place_of(const GradientSlot* slot, const void* data) { return slot != nullptr ? slot : data; }

  /// Several uses of a layer read the same numbers. In the backward pass nothing is named after what is read.
  bool first_use(const Observation& seen) {
    own_layer_ = !backward_;
    if (own_layer_) layer_ = layer_of(parameters_[static_cast<std::size_t>(seen.parameter)].name);
    return shown_parameters_.emplace(seen.parameter, seen.dtype).second;
  }

  static std::string layer_of(const std::string& parameter) {
    const std::size_t dot = parameter.rfind('.');
    return dot == std::string::npos ? parameter : parameter.substr(0, dot);
  }

  TensorEvidence place(const Observation& seen) {
    TensorEvidence tensor;
    tensor.place = seen.place;
    tensor.micro_batch = micro_batch_;
    tensor.position = next_position_++;
    tensor.dtype = seen.dtype;
    tensor.shape = seen.shape;
    switch (seen.place) {
      case Place::input:
        tensor.input = next_input_++;
        break;
      case Place::parameter:
        tensor.layer = parameters_[static_cast<std::size_t>(seen.parameter)].name;
        break;
      case Place::activation:
      case Place::loss:
        name_result(seen, tensor);
        break;
      case Place::activation_gradient:
      case Place::parameter_gradient:
        backward_ = true;
        name_gradient(seen, tensor);
        break;
    }
    return tensor;
  }

  void name_result(const Observation& seen, TensorEvidence& tensor) {
    tensor.operation = seen.operation;
    tensor.layer = layer_;
    // Casts prepare operands, before a layer's parameters are read or after.
    const bool prepares = seen.operation == "Cast";
    tensor.follows_layer = prepares || !own_layer_;
    if (!prepares) own_layer_ = false;
    tensor.use = ++uses_[operation_text(tensor)];
    if (seen.slot != nullptr) results_[seen.slot] = tensor;
  }

  void name_gradient(const Observation& seen, TensorEvidence& tensor) {
    if (seen.through != nullptr) {
      const auto writer = results_.find(seen.through);
      if (writer != results_.end()) tensor.written_by = operation_text(writer->second);
    }
    if (seen.place == Place::parameter_gradient) {
      tensor.layer = parameters_[static_cast<std::size_t>(seen.parameter)].name;
      return;
    }
    const auto found = results_.find(seen.slot);
    if (found == results_.end()) return;
    const TensorEvidence& result = found->second;
    tensor.layer = result.layer;
    tensor.follows_layer = result.follows_layer;
    tensor.operation = result.operation;
    tensor.use = result.use;
  }

  void look(const Observation& seen, TensorEvidence& tensor) {
    const void* data = seen.data;
    std::vector<std::byte> copy;
    if constexpr (!D::shares_host_memory) {
      copy.resize(static_cast<std::size_t>(seen.shape.size() * size_of(seen.dtype)));
      device_.download(copy.data(), data, copy.size());
      data = copy.data();
    }
    with_floating_type(seen.dtype, data, [&](const auto* values) {
      tensor.statistics = measure_tensor(values, seen.shape.size());
      if (tensor.is_gradient()) look_at_zeros(values, tensor.statistics);
    });
    tensor.values_hidden = !options_.input_values && shows_samples(seen, tensor);
    if (tensor.values_hidden) {
      tensor.statistics.largest = tensor.statistics.smallest = tensor.statistics.mean = 0;
      tensor.statistics.near_overflow = tensor.statistics.zeros = 0;
    }
  }

  /// Input data, and what operations without parameters make of it: its copy in another type, above all.
  static bool shows_samples(const Observation& seen, const TensorEvidence& tensor) {
    if (seen.place == Place::input) return true;
    return seen.place == Place::activation && seen.slot == nullptr && tensor.follows_layer;
  }

  template <class T>
  void look_at_zeros(const T* values, TensorStatistics& statistics) {
    const auto is_zero = [values](std::int64_t i) {
      return static_cast<typename numeric_traits<T>::arithmetic_type>(values[i]) == 0;
    };
    const std::size_t gradient = gradients_++;
    const auto size = static_cast<std::size_t>(statistics.size);
    if (keeps_zeros_) {
      std::vector<bool>& zeros = zeros_.emplace_back(size);
      for (std::size_t i = 0; i < size; ++i) zeros[i] = is_zero(static_cast<std::int64_t>(i));
    }
    if (compared_ == nullptr || gradient >= compared_->size()) return;
    const std::vector<bool>& were_zero = (*compared_)[gradient];
    std::int64_t count = 0;
    for (std::size_t i = 0; i < (std::min)(size, were_zero.size()); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      if (were_zero[i] && is_finite(values[position]) && !is_zero(position)) ++count;
    }
    statistics.rounded_to_zero = count;
  }

  D& device_;
  std::span<const ParameterInfo> parameters_;
  DiagnoseOptions options_;
  TapeObserver* other_ = nullptr;
  bool keeps_zeros_ = false;
  const Zeros* compared_ = nullptr;

  /// What was seen, and its place.
  std::vector<TensorEvidence> tensors_;
  std::vector<const void*> places_;
  std::optional<TensorEvidence> first_, first_gradient_;
  Zeros zeros_;
  std::size_t gradients_ = 0;
  std::int64_t next_position_ = 0;

  /// Of the micro-batch: the results by the places of their gradients, the layer whose parameters were read
  /// last and whether an operation has used them yet, and what was counted.
  std::int64_t micro_batch_ = 0;
  std::map<const detail::GradientSlot*, TensorEvidence> results_;
  std::set<std::pair<int, DType>> shown_parameters_;
  std::map<std::string, std::int64_t> uses_;
  std::string layer_;
  bool own_layer_ = false;
  bool backward_ = false;
  std::int64_t next_input_ = 0;
};

}  // namespace halfstep::detail
