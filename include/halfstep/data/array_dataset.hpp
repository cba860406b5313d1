#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <halfstep/data/hash.hpp>
#include <halfstep/data/typed_array.hpp>
#include <halfstep/error.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/tensor/dtype.hpp>
#include <halfstep/tensor/shape.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfstep {

/// Samples in memory: features of one shape, and a label each unless there are none. What the readers of
/// files give.
template <class Feature = float, class Label = std::int32_t>
class ArrayDataset {
  static_assert(std::is_trivially_copyable_v<Feature> && std::is_trivially_copyable_v<Label>);

 public:
  /// Owns the memory that its tensors show, so it moves but does not copy.
  class Batch {
   public:
    /// [samples] and then a sample's shape.
    Tensor<const Feature> features;
    /// [samples] and then a label's shape; of size 0 for a dataset without labels.
    Tensor<const Label> labels;

    Batch() = default;
    Batch(Batch&&) = default;
    Batch& operator=(Batch&&) = default;

   private:
    friend ArrayDataset;
    std::vector<Feature> feature_values_;
    std::vector<Label> label_values_;
  };

  /// Takes the features of all samples, one sample after the other, and their labels. A label is one number
  /// unless `label_shape` says otherwise. Throws ShapeError where the numbers of values do not fit the
  /// shapes.
  ArrayDataset(const Shape& sample_shape, std::vector<Feature> features, std::vector<Label> labels = {},
               const Shape& label_shape = Shape())
      : sample_shape_(sample_shape),
        label_shape_(label_shape),
        features_(std::move(features)),
        labels_(std::move(labels)) {
    const auto values = static_cast<std::int64_t>(features_.size());
    if (sample_shape.size() < 1 || label_shape.size() < 1 || values % sample_shape.size() != 0) {
      throw ShapeError("dataset: " + std::to_string(values) +
                       " values are no whole number of samples of shape " + sample_shape.text() +
                       " with labels of shape " + label_shape.text());
    }
    size_ = values / sample_shape.size();
    // Here rather than in a batch: a shape of too many extents is refused at once.
    batch_shape(sample_shape_, size_);
    batch_shape(label_shape_, size_);
    const auto label_values = static_cast<std::int64_t>(labels_.size());
    // Divided, not multiplied: the product may not fit 64 bits.
    if (!labels_.empty() &&
        (label_values % label_shape.size() != 0 || label_values / label_shape.size() != size_)) {
      throw ShapeError("dataset: " + std::to_string(size_) + " samples need as many labels of shape " +
                       label_shape.text() + ", " + std::to_string(label_values) + " values were given");
    }
    detail::ContentHash hash;
    hash.add(std::span<const Feature>(features_)).add(std::span<const Label>(labels_));
    identity_ =
        std::to_string(size_) + " x " + sample_shape.text() + " " + std::string(name_of(dtype_of<Feature>));
    if (!labels_.empty())
      identity_ += ", labels " + label_shape.text() + " " + std::string(name_of(dtype_of<Label>));
    identity_ += ", content " + hash.text();
  }

  std::int64_t size() const { return size_; }
  const Shape& sample_shape() const { return sample_shape_; }
  bool has_labels() const { return !labels_.empty(); }
  /// All samples' features and labels, shaped as in a batch.
  Tensor<const Feature> features() const { return {features_.data(), batch_shape(sample_shape_, size_)}; }
  Tensor<const Label> labels() const {
    return {labels_.data(), batch_shape(label_shape_, has_labels() ? size_ : 0)};
  }
  /// Number, shape and type of the samples, and a hash of their content.
  const std::string& identity() const { return identity_; }

  /// Throws ShapeError for an index outside the dataset; the batch then holds nothing of use.
  void load(std::span<const std::int64_t> indices, Batch& batch) const {
    const auto rows = static_cast<std::int64_t>(indices.size());
    gather(indices, features_, sample_shape_.size(), batch.feature_values_);
    if (has_labels()) gather(indices, labels_, label_shape_.size(), batch.label_values_);
    batch.features = {batch.feature_values_.data(), batch_shape(sample_shape_, rows)};
    batch.labels = {batch.label_values_.data(), batch_shape(label_shape_, has_labels() ? rows : 0)};
  }

  /// All samples as one batch.
  Batch all() const {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(size_));
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    Batch batch;
    load(indices, batch);
    return batch;
  }

  /// A dataset of these samples, in this order. Throws ShapeError for an index outside this one.
  ArrayDataset subset(std::span<const std::int64_t> indices) const {
    std::vector<Feature> features;
    std::vector<Label> labels;
    gather(indices, features_, sample_shape_.size(), features);
    if (has_labels()) gather(indices, labels_, label_shape_.size(), labels);
    return ArrayDataset(sample_shape_, std::move(features), std::move(labels), label_shape_);
  }

 private:
  static Shape batch_shape(const Shape& of_one, std::int64_t rows) {
    std::vector<std::int64_t> extents{rows};
    extents.insert(extents.end(), of_one.begin(), of_one.end());
    return Shape(extents);
  }

  template <class T>
  void gather(std::span<const std::int64_t> indices, const std::vector<T>& all, std::int64_t of_one,
              std::vector<T>& chosen) const {
    chosen.resize(indices.size() * static_cast<std::size_t>(of_one));
    auto to = chosen.begin();
    for (const std::int64_t index : indices) {
      if (index < 0 || index >= size_) {
        throw ShapeError("dataset: sample " + std::to_string(index) + " was asked for, of " +
                         std::to_string(size_));
      }
      to = std::copy_n(all.begin() + index * of_one, of_one, to);
    }
  }

  Shape sample_shape_, label_shape_;
  std::vector<Feature> features_;
  std::vector<Label> labels_;
  std::int64_t size_ = 0;
  std::string identity_;
};

/// What becomes of a value on its way from a file into a dataset: (value - subtract) / divide_by, in float.
struct Normalization {
  float subtract = 0.0f;
  float divide_by = 1.0f;

  /// Throws ConfigurationError for numbers that would spoil every value.
  void apply(std::span<float> values) const {
    if (!is_finite(subtract) || !is_finite(divide_by) || divide_by == 0.0f) {
      throw ConfigurationError("normalization: subtract is " + detail::number_in_message(subtract) +
                               ", divide_by " + detail::number_in_message(divide_by) +
                               "; both must be finite, and divide_by not 0");
    }
    for (float& value : values) value = (value - subtract) / divide_by;
  }
};

/// A dataset from arrays whose first extent counts samples, as files of images and of labels hold them.
/// Throws ShapeError unless both have as many, and Error for a value that the dataset's types do not hold.
template <class Label = std::int32_t>
ArrayDataset<float, Label> array_dataset(const TypedArray& features, const TypedArray& labels,
                                         const Normalization& normalization = {}) {
  const auto of_one = [](const TypedArray& array) {
    if (array.shape().rank() == 0)
      throw ShapeError(array.name() + ": a single number is no array of samples");
    return Shape(std::span(array.shape().begin() + 1, array.shape().end()));
  };
  const Shape sample_shape = of_one(features), label_shape = of_one(labels);
  if (features.shape()[0] != labels.shape()[0]) {
    throw ShapeError(features.name() + " holds " + std::to_string(features.shape()[0]) + " samples, but " +
                     labels.name() + " " + std::to_string(labels.shape()[0]) +
                     " labels; they do not belong together");
  }
  std::vector<float> values = features.template to<float>();
  normalization.apply(values);
  return ArrayDataset<float, Label>(sample_shape, std::move(values), labels.template to<Label>(),
                                    label_shape);
}

}  // namespace halfstep
