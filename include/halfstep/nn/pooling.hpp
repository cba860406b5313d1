#pragma once

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/nn/window2d.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/traits.hpp>
#include <halfstep/tensor/tensor.hpp>
#include <string>
#include <type_traits>

namespace halfstep {

namespace operation {
/// They work in the type of their input whatever the policy says, and so belong to no group.
struct MaxPool {};
struct AveragePool {};
}  // namespace operation

struct PoolingOptions {
  /// 0, as at first: the kernel's, so that windows lie side by side.
  Extents2d stride = 0;
  Extents2d padding = 0;
};

namespace detail {

/// Channels that a task has in hand at a time.
inline constexpr std::int64_t pooled_channels = 64;

/// The pixels under a window at one of its places, as far as they are in the image: lines `top` to `bottom`, pixels
/// `left` to `right`.
template <class T>
struct PixelsUnderWindow {
  const T* image;
  std::int64_t width, channels;
  std::int64_t top, bottom, left, right;

  /// For a line of results, counted over all images, and a column.
  HALFSTEP_HOST_DEVICE PixelsUnderWindow(const Window2d& window, const T* images, std::int64_t line,
                                         std::int64_t column)
      : image(images + line / window.out_height * window.height * window.width * window.channels),
        width(window.width),
        channels(window.channels) {
    const std::int64_t y = line % window.out_height * window.stride_height - window.padding_height;
    const std::int64_t x = column * window.stride_width - window.padding_width;
    top = y > 0 ? y : 0;
    bottom = y + window.kernel_height < window.height ? y + window.kernel_height : window.height;
    left = x > 0 ? x : 0;
    right = x + window.kernel_width < width ? x + window.kernel_width : width;
  }

  HALFSTEP_HOST_DEVICE std::int64_t first_place() const { return top * width + left; }
  HALFSTEP_HOST_DEVICE const T* pixel(std::int64_t place) const { return image + place * channels; }
  /// Calls `function(place)` for each pixel, by lines; a place counts the pixels of the image.
  template <class Function>
  HALFSTEP_HOST_DEVICE void for_each(const Function& function) const {
    for (std::int64_t y = top; y < bottom; ++y) {
      for (std::int64_t x = left; x < right; ++x) function(y * width + x);
    }
  }
};

/// On a GPU a thread has one channel of one pixel: of a line of `width` pixels each of a team's threads calls
/// `function(pixel, channel)` for its own.
template <class Team, class Function>
HALFSTEP_HOST_DEVICE void for_each_in_line(const Team& team, std::int64_t width, std::int64_t channels,
                                           const Function& function) {
  team.for_each(width * channels, [&](std::int64_t i) { function(i / channels, i % channels); });
}

/// One line of results of a pooling. What becomes of the pixels under a window is the rule's: `on_channels` has some
/// channels of them at a time, `on_channel` one.
template <class T, class Rule>
struct PoolLine {
  Window2d window;
  const T* images;
  Rule rule;

  void operator()(std::int64_t line) const {
    for (std::int64_t column = 0; column < window.out_width; ++column) {
      const PixelsUnderWindow<T> pixels(window, images, line, column);
      const std::int64_t at = (line * window.out_width + column) * window.channels;
      for (std::int64_t c = 0; c < window.channels; c += pooled_channels) {
        rule.on_channels(pixels, c, (std::min)(pooled_channels, window.channels - c), at + c);
      }
    }
  }

  std::int64_t team_tasks() const { return window.batch * window.out_height; }
  std::int64_t team_width() const { return window.out_width * window.channels; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t line) const {
    for_each_in_line(team, window.out_width, window.channels, [&](std::int64_t column, std::int64_t c) {
      const PixelsUnderWindow<T> pixels(window, images, line, column);
      rule.on_channel(pixels, c, (line * window.out_width + column) * window.channels + c);
    });
  }
};

/// The largest value, and which pixel of its image that is.
template <class T>
struct Largest {
  T* results;
  std::int32_t* pixels;

  HALFSTEP_HOST_DEVICE void on_channels(const PixelsUnderWindow<T>& under, std::int64_t channel, std::int64_t count,
                                        std::int64_t at) const {
    float largest[pooled_channels];
    std::int64_t places[pooled_channels];
    const T* const start = under.pixel(under.first_place()) + channel;
    for (std::int64_t c = 0; c < count; ++c) {
      largest[c] = static_cast<float>(start[c]);
      places[c] = under.first_place();
    }
    under.for_each([&](std::int64_t place) {
      const T* const pixel = under.pixel(place) + channel;
      for (std::int64_t c = 0; c < count; ++c) {
        const float value = static_cast<float>(pixel[c]);
        if (!is_larger(value, largest[c])) continue;
        largest[c] = value;
        places[c] = place;
      }
    });
    for (std::int64_t c = 0; c < count; ++c) {
      results[at + c] = static_cast<T>(largest[c]);
      pixels[at + c] = static_cast<std::int32_t>(places[c]);
    }
  }
  HALFSTEP_HOST_DEVICE void on_channel(const PixelsUnderWindow<T>& under, std::int64_t channel,
                                       std::int64_t at) const {
    std::int64_t found = under.first_place();
    float largest = static_cast<float>(under.pixel(found)[channel]);
    under.for_each([&](std::int64_t place) {
      const float value = static_cast<float>(under.pixel(place)[channel]);
      if (!is_larger(value, largest)) return;
      largest = value;
      found = place;
    });
    results[at] = static_cast<T>(largest);
    pixels[at] = static_cast<std::int32_t>(found);
  }

 private:
  /// Does `value` take the place of the largest so far? NaN is larger than all else.
  HALFSTEP_HOST_DEVICE static bool is_larger(float value, float largest) {
    if (halfstep::is_nan(largest)) return false;
    return halfstep::is_nan(value) || value > largest;
  }
};

/// The sum of the values by the size of the whole kernel.
template <class T>
struct Mean {
  T* results;
  float area;

  HALFSTEP_HOST_DEVICE void on_channels(const PixelsUnderWindow<T>& under, std::int64_t channel, std::int64_t count,
                                        std::int64_t at) const {
    float sums[pooled_channels] = {};
    under.for_each([&](std::int64_t place) {
      const T* const pixel = under.pixel(place) + channel;
      for (std::int64_t c = 0; c < count; ++c) sums[c] += static_cast<float>(pixel[c]);
    });
    for (std::int64_t c = 0; c < count; ++c) results[at + c] = static_cast<T>(sums[c] / area);
  }
  HALFSTEP_HOST_DEVICE void on_channel(const PixelsUnderWindow<T>& under, std::int64_t channel,
                                       std::int64_t at) const {
    float sum = 0.0f;
    under.for_each([&](std::int64_t place) { sum += static_cast<float>(under.pixel(place)[channel]); });
    results[at] = static_cast<T>(sum / area);
  }
};

/// One line of pixels' gradients: each the sum, in float and in the order of the windows, of the gradients of
/// results that read the pixel. With `pixels` only of those whose largest it was.
template <class T>
struct PoolGradientLine {
  Window2d window;
  const T* result_gradient;
  const std::int32_t* pixels;
  GradientTarget<T> images;

  void operator()(std::int64_t line) const {
    const std::int64_t image = line / window.height, y = line % window.height, channels = window.channels;
    const float divisor = pixels != nullptr ? 1.0f : static_cast<float>(window.area());
    const ReadBy lines =
        read_by(y, window.kernel_height, window.stride_height, window.padding_height, window.out_height);
    for (std::int64_t x = 0; x < window.width; ++x) {
      const ReadBy columns =
          read_by(x, window.kernel_width, window.stride_width, window.padding_width, window.out_width);
      const auto place = static_cast<std::int32_t>(y * window.width + x);
      for (std::int64_t c = 0; c < channels; c += pooled_channels) {
        const std::int64_t count = (std::min)(pooled_channels, channels - c);
        float sums[pooled_channels] = {};
        for (std::int64_t r = lines.begin; r < lines.end; ++r) {
          for (std::int64_t s = columns.begin; s < columns.end; ++s) {
            const std::int64_t at = ((image * window.out_height + r) * window.out_width + s) * channels + c;
            for (std::int64_t k = 0; k < count; ++k) {
              if (pixels == nullptr || pixels[at + k] == place)
                sums[k] += static_cast<float>(result_gradient[at + k]);
            }
          }
        }
        const std::int64_t pixel = (line * window.width + x) * channels + c;
        for (std::int64_t k = 0; k < count; ++k) store_gradient(images, pixel + k, sums[k] / divisor);
      }
    }
  }

  std::int64_t team_tasks() const { return window.batch * window.height; }
  std::int64_t team_width() const { return window.width * window.channels; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t line) const {
    const std::int64_t image = line / window.height, y = line % window.height, channels = window.channels;
    const float divisor = pixels != nullptr ? 1.0f : static_cast<float>(window.area());
    const ReadBy lines =
        read_by(y, window.kernel_height, window.stride_height, window.padding_height, window.out_height);
    for_each_in_line(team, window.width, channels, [&](std::int64_t x, std::int64_t c) {
      const ReadBy columns =
          read_by(x, window.kernel_width, window.stride_width, window.padding_width, window.out_width);
      const auto place = static_cast<std::int32_t>(y * window.width + x);
      float sum = 0.0f;
      for (std::int64_t r = lines.begin; r < lines.end; ++r) {
        for (std::int64_t s = columns.begin; s < columns.end; ++s) {
          const std::int64_t at = ((image * window.out_height + r) * window.out_width + s) * channels + c;
          if (pixels == nullptr || pixels[at] == place) sum += static_cast<float>(result_gradient[at]);
        }
      }
      store_gradient(images, (line * window.width + x) * channels + c, sum / divisor);
    });
  }
};

template <class T>
struct PoolBackward {
  Variable<T> input;
  Window2d window;
  const std::int32_t* pixels;

  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> result_gradient) const {
    if (const auto target = tape.gradient_target(input)) {
      compute::for_each_task(tape.device(), window.batch * window.height,
                             PoolGradientLine<T>{window, result_gradient.data(), pixels, target});
    }
  }
};

/// Checks the call.
inline Window2d pooling_window(const char* name, const Shape& images, Extents2d kernel, PoolingOptions options) {
  if (options.stride.height == 0 && options.stride.width == 0) options.stride = kernel;
  check_window(name, kernel, options.stride, options.padding);
  if (options.padding.height > kernel.height / 2 || options.padding.width > kernel.width / 2) {
    throw ConfigurationError(std::string(name) + ": the padding is " + options.padding.text() +
                             " for a kernel of " + kernel.text() +
                             "; it must be half of the kernel at most, so that each window sees a pixel");
  }
  const Window2d window = window_over(name, images, kernel, options.stride, options.padding);
  if (window.height > largest_window / window.width) {
    throw ShapeError(std::string(name) + " got images of shape " + images.text() +
                     ": an image must have no more than 2^30 pixels");
  }
  return window;
}

/// What every pooling of x begins with: its window, and memory for its results.
template <class T>
struct Pooling {
  using Value = T;
  Variable<T> input;
  Window2d window;
  Tensor<T> result;

  template <class Tape>
  Pooling(Tape& tape, const char* name, const Variable<T>& x, Extents2d kernel, PoolingOptions options)
      : input(x),
        window(pooling_window(name, x.shape(), kernel, options)),
        result(tape.template allocate<T>(
            {window.batch, window.out_height, window.out_width, window.channels})) {}

  /// Computes the results. `pixels` are what the rule has put down of them, null if nothing.
  template <class Operation, class Tape, class Rule>
  Variable<T> record(Tape& tape, const Rule& rule, const std::int32_t* pixels) const {
    compute::for_each_task(tape.device(), window.batch * window.out_height,
                           PoolLine<T, Rule>{window, input.data(), rule});
    return tape.record(Operation{}, result, input.requires_gradient(), PoolBackward<T>{input, window, pixels});
  }
};

}  // namespace detail

/// The largest value of each channel under a window that slides over images [batch, height, width, channels],
/// in the type of its input and without rounding:
///
///     max_pool2d(tape, x, 2)                               // windows side by side
///     max_pool2d(tape, x, {3, 5}, {.stride = 2, .padding = {1, 2}})
///
/// The result has (height + 2 padding - kernel) / stride + 1 lines, rounded down, and so many columns;
/// padding is never the largest. NaN counts as larger than any number. Of equal values the first, by lines,
/// is the one that gets the gradient; a pixel's gradients are added up in float, in an order that depends on
/// the shapes alone.
///
/// Throws ConfigurationError for a kernel or stride under 1 and a padding that is negative or more than half
/// of the kernel, ShapeError for images that are no such or in which the window has no place.
template <class Tape, class Input>
auto max_pool2d(Tape& tape, const Input& input, Extents2d kernel, PoolingOptions options = {}) {
  const detail::Pooling pooling(tape, "max_pool2d", tape.variable(input), kernel, options);
  auto* const pixels = tape.template allocate<std::int32_t>(pooling.result.shape()).data();
  const detail::Largest<typename decltype(pooling)::Value> rule{pooling.result.data(), pixels};
  return pooling.template record<operation::MaxPool>(tape, rule, pixels);
}

/// The mean of each channel under a window, called as max_pool2d, in the type of its input, summed in float
/// and rounded once. Padding counts as zeros: the sum is always divided by the size of the whole kernel, as
/// by PyTorch's avg_pool2d unless it is told otherwise (count_include_pad). Throws as max_pool2d does.
template <class Tape, class Input>
auto average_pool2d(Tape& tape, const Input& input, Extents2d kernel, PoolingOptions options = {}) {
  const detail::Pooling pooling(tape, "average_pool2d", tape.variable(input), kernel, options);
  const detail::Mean<typename decltype(pooling)::Value> rule{pooling.result.data(),
                                                             static_cast<float>(pooling.window.area())};
  return pooling.template record<operation::AveragePool>(tape, rule, nullptr);
}

}  // namespace halfstep
