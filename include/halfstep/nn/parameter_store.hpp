#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <halfstep/compute/chunks.hpp>
#include <halfstep/compute/convert.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/parameter.hpp>
#include <halfstep/tensor/tensor.hpp>

namespace halfstep {

/// A parameter as a trainer knows it.
struct ParameterInfo {
  std::string name;
  Shape shape;
  bool frozen = false;
};

/// The numbers of all parameters of one model, in flat buffers: float masters, float gradients and the working copy
/// in the compute type. Where the compute type is float the masters are the working copy.
///
/// A gradient is cleared by forgetting it: the first contribution of a window overwrites, later ones add. Until
/// then the parameter has no gradient, and what its place in the buffer holds means nothing.
template <class Compute, Device D>
class ParameterStore {
 public:
  static constexpr bool has_working_copy = !std::is_same_v<Compute, float>;

  /// Binds the model's parameters to positions and gives them their first values, which depend on the seed and the
  /// parameter's name alone. Throws ConfigurationError where the model has no parameter, two of one name, or one of two
  /// names.
  template <class Model>
  ParameterStore(D& device, Model& model, std::uint64_t seed) : device_(&device) {
    std::vector<Initializer> initializers;
    std::vector<const Parameter*> visited;
    visit_parameters(model, [&](const std::string& name, Parameter& parameter) {
      for (std::size_t i = 0; i < visited.size(); ++i) {
        if (visited[i] != &parameter) continue;
        throw ConfigurationError("one parameter of the model is named twice, \"" + infos_[i].name + "\" and \"" + name +
                                 "\"; name a layer once, wherever `forward` uses it");
      }
      visited.push_back(&parameter);
      add(name, parameter);
      initializers.push_back(parameter.initializer);
    });
    if (infos_.empty()) {
      throw ConfigurationError("the model names no parameters; its `parameters(visit)` must name each of its layers");
    }
    masters_ = Buffer<float, D>(device, size_);
    gradients_ = Buffer<float, D>(device, size_);
    if constexpr (has_working_copy) working_ = Buffer<Compute, D>(device, size_);
    has_gradient_.assign(infos_.size(), 0);
    chunks_ = compute::cut_into_chunks(segments_);
    initialize(initializers, seed);
  }

  std::span<const ParameterInfo> infos() const { return infos_; }
  std::span<const compute::Segment> segments() const { return segments_; }
  std::span<const compute::SegmentChunk> chunks() const { return chunks_; }
  /// Elements of each flat buffer, the padding between segments included.
  std::int64_t size() const { return size_; }

  /// Position of the named parameter. Throws ConfigurationError that lists the names there are.
  int find(std::string_view name) const {
    const auto found = positions_.find(std::string(name));
    if (found != positions_.end()) return found->second;
    throw ConfigurationError("no parameter is named \"" + std::string(name) + "\"; the model has" + names());
  }
  /// All names, quoted, each after a space: for messages.
  std::string names() const {
    std::string text;
    for (const ParameterInfo& info : infos_) text += " \"" + info.name + "\"";
    return text;
  }

  void freeze(int index) { infos_[static_cast<std::size_t>(index)].frozen = true; }

  float* masters() const { return masters_.data(); }
  float* gradients() const { return gradients_.data(); }
  /// The flat buffer that the model computes with; the masters themselves where there is no copy.
  Compute* working() const {
    if constexpr (has_working_copy) return working_.data();
    else return masters_.data();
  }

  Tensor<float> master(int index) const { return view(masters_.data(), index); }
  Tensor<float> gradient(int index) const { return view(gradients_.data(), index); }
  Tensor<const Compute> working(int index) const { return view<const Compute>(working(), index); }

  /// One flag a parameter: has it received a gradient since the last clear?
  std::span<const std::uint8_t> has_gradient() const { return has_gradient_; }
  bool mark_gradient(int index) {
    return std::exchange(has_gradient_[static_cast<std::size_t>(index)], std::uint8_t{1}) != 0;
  }
  void clear_gradients() { std::fill(has_gradient_.begin(), has_gradient_.end(), std::uint8_t{0}); }

  /// Puts other masters, or gradients, in the place of these and gives these back. Requires a buffer of `size()` elements
  /// on this device; the working copy and the flags are the caller's.
  void swap_masters(Buffer<float, D>& masters) noexcept { std::swap(masters_, masters); }
  void swap_gradients(Buffer<float, D>& gradients) noexcept { std::swap(gradients_, gradients); }
  /// The same with what lies in the place of the gradients, of which there must be none.
  void swap_masters_with_gradients() noexcept { std::swap(masters_, gradients_); }
  /// Puts other gradients, with their flags, in the place of these and gives these back. Requires buffers of `size()`
  /// elements on this device and as many flags as there are parameters.
  void swap_gradients(Buffer<float, D>& gradients, std::vector<std::uint8_t>& has_gradient) noexcept {
    std::swap(gradients_, gradients);
    has_gradient_.swap(has_gradient);
  }

  /// Brings the working copy of one parameter up to its master.
  void refresh_working_copy(int index) {
    if constexpr (has_working_copy) {
      const compute::Segment segment = segments_[static_cast<std::size_t>(index)];
      compute::convert(*device_, masters_.data() + segment.offset, working_.data() + segment.offset, segment.size);
    }
  }

  std::size_t master_bytes() const { return masters_.bytes(); }
  std::size_t gradient_bytes() const { return gradients_.bytes(); }
  std::size_t working_copy_bytes() const { return working_.bytes(); }

 private:
  void add(const std::string& name, Parameter& parameter) {
    const int index = static_cast<int>(infos_.size());
    if (!positions_.emplace(name, index).second) {
      throw ConfigurationError("two parameters are named \"" + name + "\"; give each part of the model its own name");
    }
    parameter.bind(index);
    infos_.push_back({name, parameter.shape, parameter.frozen});
    segments_.push_back({size_, parameter.shape.size()});
    const std::int64_t blocks =
        (parameter.shape.size() + compute::segment_alignment - 1) / compute::segment_alignment;
    size_ += blocks * compute::segment_alignment;
  }

  void initialize(std::span<const Initializer> initializers, std::uint64_t seed) {
    std::vector<float> values;
    for (std::size_t i = 0; i < infos_.size(); ++i) {
      values.resize(static_cast<std::size_t>(segments_[i].size));
      initializers[i].fill(values, seed, infos_[i].name);
      device_->upload(masters_.data() + segments_[i].offset, values.data(), values.size() * sizeof(float));
      refresh_working_copy(static_cast<int>(i));
    }
  }

  template <class T>
  Tensor<T> view(T* flat, int index) const {
    const auto i = static_cast<std::size_t>(index);
    return Tensor<T>(flat + segments_[i].offset, infos_[i].shape);
  }

  D* device_;
  std::vector<ParameterInfo> infos_;
  std::vector<compute::Segment> segments_;
  std::vector<compute::SegmentChunk> chunks_;
  std::unordered_map<std::string, int> positions_;
  std::int64_t size_ = 0;
  Buffer<float, D> masters_;
  Buffer<float, D> gradients_;
  Buffer<Compute, D> working_;
  std::vector<std::uint8_t> has_gradient_;
};

}  // namespace halfstep
