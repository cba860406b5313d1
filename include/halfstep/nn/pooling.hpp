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

/// The part of a window that lies in the image: lines `top` to `bottom`, pixels `left` to `right`.
struct WindowInImage {
  std::int64_t top, bottom, left, right;

  HALFSTEP_HOST_DEVICE WindowInImage(const Window2d& window, std::int64_t line, std::int64_t column) {
    const std::int64_t y = line * window.stride_height - window.padding_height;
    const std::int64_t x = column * window.stride_width - window.padding_width;
    top = y > 0 ? y : 0;
    bottom = y + window.kernel_height < window.height ? y + window.kernel_height : window.height;
    left = x > 0 ? x : 0;
    right = x + window.kernel_width < window.width ? x + window.kernel_width : window.width;
  }
};

/// On a GPU a thread has one channel of one pixel: of a line of `width` pixels each of a team's threads calls
/// `function(pixel, channel)` for its own.
template <class Team, class Function>
HALFSTEP_HOST_DEVICE void for_each_in_line(const Team& team, std::int64_t width, std::int64_t channels,
                                           const Function& function) {
  team.for_each(width * channels, [&](std::int64_t i) { function(i / channels, i % channels); });
}

/// One line of results of a max pooling, and which pixel of its image each of them is.
template <class T>
struct MaxPoolLine {
  Window2d window;
  const T* images;
  T* results;
  std::int32_t* pixels;

  void operator()(std::int64_t line) const {
    const std::int64_t image = line / window.out_height, channels = window.channels;
    const T* const first = images + image * window.height * window.width * channels;
    for (std::int64_t column = 0; column < window.out_width; ++column) {
      const WindowInImage in(window, line % window.out_height, column);
      const std::int64_t at = (line * window.out_width + column) * channels;
      for (std::int64_t c = 0; c < channels; c += pooled_channels) {
        find(first, in, c, (std::min)(pooled_channels, channels - c), at + c);
      }
    }
  }

  std::int64_t team_tasks() const { return window.batch * window.out_height; }
  std::int64_t team_width() const { return window.out_width * window.channels; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t line) const {
    const std::int64_t image = line / window.out_height, channels = window.channels;
    const T* const first = images + image * window.height * window.width * channels;
    for_each_in_line(team, window.out_width, channels, [&](std::int64_t column, std::int64_t c) {
      const WindowInImage in(window, line % window.out_height, column);
      std::int64_t found = in.top * window.width + in.left;
      float largest = static_cast<float>(first[found * channels + c]);
      for (std::int64_t y = in.top; y < in.bottom; ++y) {
        for (std::int64_t x = in.left; x < in.right; ++x) {
          const std::int64_t place = y * window.width + x;
          const float value = static_cast<float>(first[place * channels + c]);
          if (!is_larger(value, largest)) continue;
          largest = value;
          found = place;
        }
      }
      const std::int64_t at = (line * window.out_width + column) * channels + c;
      results[at] = static_cast<T>(largest);
      pixels[at] = static_cast<std::int32_t>(found);
    });
  }

 private:
  /// Does `value` take the place of the largest so far? NaN is larger than all else.
  HALFSTEP_HOST_DEVICE static bool is_larger(float value, float largest) {
    if (halfstep::is_nan(largest)) return false;
    return halfstep::is_nan(value) || value > largest;
  }
  void find(const T* image, const WindowInImage& in, std::int64_t channel, std::int64_t count,
            std::int64_t at) const {
    float largest[pooled_channels];
    std::int64_t places[pooled_channels];
    const std::int64_t start = in.top * window.width + in.left;
    for (std::int64_t c = 0; c < count; ++c) {
      largest[c] = static_cast<float>(image[start * window.channels + channel + c]);
      places[c] = start;
    }
    for (std::int64_t y = in.top; y < in.bottom; ++y) {
      for (std::int64_t x = in.left; x < in.right; ++x) {
        const std::int64_t place = y * window.width + x;
        const T* const pixel = image + place * window.channels + channel;
        for (std::int64_t c = 0; c < count; ++c) {
          const float value = static_cast<float>(pixel[c]);
          if (!is_larger(value, largest[c])) continue;
          largest[c] = value;
          places[c] = place;
        }
      }
    }
    for (std::int64_t c = 0; c < count; ++c) {
      results[at + c] = static_cast<T>(largest[c]);
      pixels[at + c] = static_cast<std::int32_t>(places[c]);
    }
  }
};

template <class T>
struct AveragePoolLine {
  Window2d window;
  const T* images;
  T* results;

  void operator()(std::int64_t line) const {
    const std::int64_t image = line / window.out_height, channels = window.channels;
    const T* const first = images + image * window.height * window.width * channels;
    const float area = static_cast<float>(window.area());
    for (std::int64_t column = 0; column < window.out_width; ++column) {
      const WindowInImage in(window, line % window.out_height, column);
      T* const result = results + (line * window.out_width + column) * channels;
      for (std::int64_t c = 0; c < channels; c += pooled_channels) {
        const std::int64_t count = (std::min)(pooled_channels, channels - c);
        float sums[pooled_channels] = {};
        for (std::int64_t y = in.top; y < in.bottom; ++y) {
          for (std::int64_t x = in.left; x < in.right; ++x) {
            const T* const pixel = first + (y * window.width + x) * channels + c;
            for (std::int64_t k = 0; k < count; ++k) sums[k] += static_cast<float>(pixel[k]);
          }
        }
        for (std::int64_t k = 0; k < count; ++k) result[c + k] = static_cast<T>(sums[k] / area);
      }
    }
  }

  std::int64_t team_tasks() const { return window.batch * window.out_height; }
  std::int64_t team_width() const { return window.out_width * window.channels; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t line) const {
    const std::int64_t image = line / window.out_height, channels = window.channels;
    const T* const first = images + image * window.height * window.width * channels;
    for_each_in_line(team, window.out_width, channels, [&](std::int64_t column, std::int64_t c) {
      const WindowInImage in(window, line % window.out_height, column);
      float sum = 0.0f;
      for (std::int64_t y = in.top; y < in.bottom; ++y) {
        for (std::int64_t x = in.left; x < in.right; ++x) {
          sum += static_cast<float>(first[(y * window.width + x) * channels + c]);
        }
      }
      results[(line * window.out_width + column) * channels + c] =
          static_cast<T>(sum / static_cast<float>(window.area()));
    });
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

/// Checks the call; `options` get the stride that is meant.
inline Window2d pooling_window(const char* name, const Shape& images, Extents2d kernel,
                               PoolingOptions& options) {
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
  const auto x = tape.variable(input);
  using T = typename std::remove_cvref_t<decltype(x)>::value_type;
  const auto window = detail::pooling_window("max_pool2d", x.shape(), kernel, options);
  const Tensor<T> result =
      tape.template allocate<T>({window.batch, window.out_height, window.out_width, window.channels});
  auto* const pixels = tape.template allocate<std::int32_t>(result.shape()).data();
  compute::for_each_task(tape.device(), window.batch * window.out_height,
                         detail::MaxPoolLine<T>{window, x.data(), result.data(), pixels});
  return tape.record(operation::MaxPool{}, result, x.requires_gradient(),
                     detail::PoolBackward<T>{x, window, pixels});
}

/// The mean of each channel under a window, called as max_pool2d, in the type of its input, summed in float
/// and rounded once. Padding counts as zeros: the sum is always divided by the size of the whole kernel, as
/// by PyTorch's avg_pool2d unless it is told otherwise (count_include_pad). Throws as max_pool2d does.
template <class Tape, class Input>
auto average_pool2d(Tape& tape, const Input& input, Extents2d kernel, PoolingOptions options = {}) {
  const auto x = tape.variable(input);
  using T = typename std::remove_cvref_t<decltype(x)>::value_type;
  const auto window = detail::pooling_window("average_pool2d", x.shape(), kernel, options);
  const Tensor<T> result =
      tape.template allocate<T>({window.batch, window.out_height, window.out_width, window.channels});
  compute::for_each_task(tape.device(), window.batch * window.out_height,
                         detail::AveragePoolLine<T>{window, x.data(), result.data()});
  return tape.record(operation::AveragePool{}, result, x.requires_gradient(),
                     detail::PoolBackward<T>{x, window, nullptr});
}

}  // namespace halfstep
