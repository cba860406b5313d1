#pragma once

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/matmul.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/cast.hpp>
#include <halfstep/nn/im2col.hpp>
#include <halfstep/nn/initializer.hpp>
#include <halfstep/nn/parameter.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/nn/window2d.hpp>
#include <halfstep/policy/operation.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>

namespace halfstep {

struct Convolution2dOptions {
  Extents2d stride = 1;
  Extents2d padding = 0;
  bool bias = true;
};

namespace detail {

/// The images of a convolution as a matrix of patches, a number of rows at a time.
template <class T, class Device>
struct PatchRows {
  Window2d window;
  const T* images;

  std::int64_t columns() const { return window.area() * window.channels; }
  std::int64_t rows_at_once() const {
    return (std::clamp)(patch_elements<Device> / columns(), std::int64_t{1},
                        (std::max)(window.rows(), std::int64_t{1}));
  }
  /// One chunk at least, so that what is summed over no rows becomes zero.
  std::int64_t chunks() const {
    return (std::max)((window.rows() + rows_at_once() - 1) / rows_at_once(), std::int64_t{1});
  }
  std::int64_t first(std::int64_t chunk) const { return chunk * rows_at_once(); }
  std::int64_t count(std::int64_t chunk) const {
    return (std::min)(rows_at_once(), window.rows() - first(chunk));
  }

  /// Where each pixel is a patch, the images are the matrix.
  bool is_given() const {
    return window.area() == 1 && window.stride_height == 1 && window.stride_width == 1 &&
           window.padding_height == 0 && window.padding_width == 0;
  }
  template <class Tape>
  T* scratch(Tape& tape) const {
    return is_given() ? nullptr : tape.template allocate<T>({rows_at_once(), columns()}).data();
  }
  compute::Matrix<const T> get(Device& device, std::int64_t chunk, T* scratch) const {
    if (is_given()) return compute::matrix(images + first(chunk) * columns(), count(chunk), columns());
    compute::for_each_task(device, count(chunk), GatherPatches<T>{window, images, first(chunk), count(chunk), scratch});
    return compute::matrix(static_cast<const T*>(scratch), count(chunk), columns());
  }
};

/// dW += dY^T patches and db += column sums of dY in float;  dX = dY W, each pixel's share of all patches
/// added up in float and rounded once.
template <class T, class Device>
struct ConvolutionBackward {
  Variable<T> input;
  Tensor<const T> weight;
  // By value: `forward` may have computed with a copy of the layer that is gone by now.
  Parameter weight_parameter;
  Parameter bias_parameter;
  bool has_bias;
  PatchRows<T, Device> patches;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> output_gradient) const {
    const auto dy = compute::matrix(output_gradient.data(), patches.window.rows(), output_gradient.columns());
    if (const auto target = tape.gradient_target(input)) scatter(tape, dy, target);
    if (const auto target = tape.gradient_target(weight_parameter)) {
      T* const scratch = patches.scratch(tape);
      for (std::int64_t chunk = 0; chunk < patches.chunks(); ++chunk) {
        const std::int64_t first = patches.first(chunk), count = patches.count(chunk);
        compute::matmul(tape.device(), dy.block(first, 0, count, dy.columns).transposed(),
                        patches.get(tape.device(), chunk, scratch),
                        compute::matrix(target.data, dy.columns, patches.columns()),
                        {.accumulate = target.accumulate || chunk > 0,
                         .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
      }
    }
    if (!has_bias) return;
    if (const auto target = tape.gradient_target(bias_parameter)) {
      compute::column_sum(tape.device(), tape.arena(), dy, target.data, target.accumulate);
    }
  }

 private:
  template <class Tape>
  void scatter(Tape& tape, const compute::Matrix<const T>& dy, const GradientTarget<T>& target) const {
    const Window2d& window = patches.window;
    const std::int64_t columns = patches.columns();
    const auto weights = compute::matrix(weight.data(), dy.columns, columns);
    if (patches.is_given()) {
      compute::matmul(tape.device(), dy, weights, compute::matrix(target.data, dy.rows, columns),
                      {.accumulate = target.accumulate, .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
      return;
    }
    // Whole images at a time; of images that are too large for that, whole lines of places.
    const std::int64_t images = (std::clamp)(patch_elements<Device> / columns / window.places(), std::int64_t{1},
                                             (std::max)(window.batch, std::int64_t{1}));
    const std::int64_t lines_at_once = images > 1 ? images * window.out_height
                                                  : (std::clamp)(patch_elements<Device> / columns / window.out_width,
                                                                 std::int64_t{1}, window.out_height);
    float* const gradients =
        tape.template allocate<float>({lines_at_once * window.out_width, columns}).data();
    float* const sums =
        lines_at_once >= window.out_height
            ? nullptr
            : tape.template allocate<float>({window.height, window.width, window.channels}).data();
    for (std::int64_t image = 0; image < window.batch; image += images) {
      const std::int64_t count = (std::min)(images, window.batch - image);
      const std::int64_t end = (image + count) * window.out_height;
      for (std::int64_t line = image * window.out_height; line < end; line += lines_at_once) {
        const std::int64_t lines = (std::min)(lines_at_once, end - line);
        const std::int64_t rows = lines * window.out_width;
        compute::matmul(tape.device(), dy.block(line * window.out_width, 0, rows, dy.columns), weights,
                        compute::matrix(gradients, rows, columns),
                        {.tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
        compute::for_each_task(
            tape.device(), count * window.height,
            ScatterPatches<T>{window, gradients, image, count, line, line + lines, sums,
                              line == image * window.out_height, line + lines == end, target});
      }
    }
  }
};

}  // namespace detail

/// Convolves images, channels last: [batch, height, width, in] -> [batch, out height, out width, out], as
/// PyTorch's Conv2d does (a cross-correlation), with its first values (uniform within 1/sqrt(in * kernel)).
/// Outside the images are `padding` zeros; out height is (height + 2 padding - kernel) / stride + 1, rounded
/// down, and so is out width.
///
///     Convolution2d first{1, 32, 3, {.padding = 1}};
///     Convolution2d down{32, 64, {3, 5}, {.stride = 2, .bias = false}};
///
/// It is a product with the matrix of all patches, of which a bounded part is in memory at a time. Sums are
/// float and rounded once, bias included; the gradient of an image is summed in float and rounded once, those
/// of weight and bias are float. The bits are the same for every number of threads where those of products
/// are: see compute/matmul.hpp.
class Convolution2d {
 public:
  /// Throws ConfigurationError unless channels, kernel and stride are 1 or more and the padding is 0 or more.
  Convolution2d(std::int64_t in_channels, std::int64_t out_channels, Extents2d kernel,
                Convolution2dOptions options = {})
      : Convolution2d(weight_shape(in_channels, out_channels, kernel, options), options) {}

  /// [out, kernel height, kernel width, in], which is PyTorch's weight.permute(0, 2, 3, 1); and [out].
  Parameter weight;
  Parameter bias;

  bool has_bias() const { return options_.bias; }
  std::int64_t in_channels() const { return weight.shape[3]; }
  std::int64_t out_channels() const { return weight.shape[0]; }
  Extents2d kernel() const { return {weight.shape[1], weight.shape[2]}; }
  Extents2d stride() const { return options_.stride; }
  Extents2d padding() const { return options_.padding; }

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("weight", weight);
    if (has_bias()) visit("bias", bias);
  }

  /// Computes in the type that the tape's policy gives to operation::Convolution. `input` is a variable or a
  /// tensor in the program's memory. Throws ShapeError unless it is [batch, height, width, in_channels] and
  /// the kernel has a place in it.
  template <class Tape, class Input>
  auto operator()(Tape& tape, const Input& input) const {
    return apply<operation_type<typename Tape::Policy, operation::Convolution>>(tape, input);
  }

  /// The same in type T.
  template <class T, class Tape, class Input>
  Variable<T> apply(Tape& tape, const Input& input) const {
    const auto given = tape.variable(input);
    const detail::Window2d window = window_over(given.shape());
    const Variable<T> x = cast<T>(tape, given);
    const Tensor<const T> w = tape.template weight<T>(weight);
    const T* b = has_bias() ? tape.template weight<T>(bias).data() : nullptr;
    const std::int64_t out = out_channels();
    const Tensor<T> result =
        tape.template allocate<T>({window.batch, window.out_height, window.out_width, out});
    using D = typename Tape::DeviceType;
    const detail::PatchRows<T, D> patches{window, x.data()};
    const auto weights = compute::matrix(w.data(), out, patches.columns()).transposed();
    T* const scratch = patches.scratch(tape);
    for (std::int64_t chunk = 0; chunk < patches.chunks(); ++chunk) {
      compute::matmul(tape.device(), patches.get(tape.device(), chunk, scratch), weights,
                      compute::matrix(result.data() + patches.first(chunk) * out, patches.count(chunk), out),
                      {.bias = b, .tensor_float32 = uses_tensor_float32<typename Tape::Policy>});
    }
    const bool wants_gradient =
        x.requires_gradient() || tape.trains(weight) || (has_bias() && tape.trains(bias));
    return tape.record(operation::Convolution{}, result, wants_gradient,
                       detail::ConvolutionBackward<T, D>{x, w, weight, bias, has_bias(), patches});
  }

 private:
  Convolution2d(const Shape& extents, const Convolution2dOptions& options)
      : weight(extents, Initializer::kaiming_uniform(extents[1] * extents[2] * extents[3])),
        bias(Shape{options.bias ? extents[0] : 0},
             Initializer::kaiming_uniform(extents[1] * extents[2] * extents[3])),
        options_(options) {}

  static std::string name(std::int64_t in, std::int64_t out, Extents2d kernel) {
    return "Convolution2d{" + std::to_string(in) + ", " + std::to_string(out) + ", " + kernel.text() + "}";
  }
  static Shape weight_shape(std::int64_t in, std::int64_t out, Extents2d kernel,
                            const Convolution2dOptions& options) {
    if (in < 1 || out < 1) {
      throw ConfigurationError(name(in, out, kernel) + ": the numbers of channels must be 1 or more");
    }
    detail::check_window(name(in, out, kernel), kernel, options.stride, options.padding);
    return {out, kernel.height, kernel.width, in};
  }

  detail::Window2d window_over(const Shape& images) const {
    const std::string what = name(in_channels(), out_channels(), kernel());
    const auto window = detail::window_over(what, images, kernel(), options_.stride, options_.padding);
    if (window.channels == in_channels()) return window;
    throw ShapeError(what + " got images of shape " + images.text() +
                     ": their last extent, the channels, must be " + std::to_string(in_channels()) +
                     (images[1] == in_channels() ? "; the second is, and must be moved to the end" : ""));
  }

  Convolution2dOptions options_;
};

}  // namespace halfstep
