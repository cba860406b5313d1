#pragma once

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/nn/store_gradient.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/nn/window2d.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/numeric/simd.hpp>

namespace halfstep::detail {

/// Elements of the matrix of patches that are in memory at a time, unless one place has more or, in the
/// backward pass, one line of places. A CPU's caches hold them; a GPU needs products of some size.
template <class Device>
inline constexpr std::int64_t patch_elements = std::int64_t{1} << (Device::shares_host_memory ? 18 : 24);

/// Writes what the window sees at places `first_row` to `first_row + rows`: a matrix with a row for each
/// place and a column for each element under the window, by line, pixel and channel; zeros for padding. One
/// task is a row.
template <class T>
struct GatherPatches {
  Window2d window;
  const T* images;
  std::int64_t first_row;
  std::int64_t rows;
  T* patches;

  void operator()(std::int64_t row) const {
    const std::int64_t place = first_row + row;
    const std::int64_t image = place / window.places(), in_image = place % window.places();
    const std::int64_t top = in_image / window.out_width * window.stride_height - window.padding_height;
    const std::int64_t left = in_image % window.out_width * window.stride_width - window.padding_width;
    const std::int64_t channels = window.channels, line = window.kernel_width * channels;
    // The pixels of a line that are in the image lie side by side there as they do in the patch.
    const std::int64_t first = (std::clamp)(-left, std::int64_t{0}, window.kernel_width) * channels;
    const std::int64_t last =
        (std::clamp)(window.width - left, first / channels, window.kernel_width) * channels;
    T* patch = patches + row * window.area() * channels;
    for (std::int64_t y = top; y < top + window.kernel_height; ++y, patch += line) {
      if (y < 0 || y >= window.height) {
        std::fill(patch, patch + line, T{});
        continue;
      }
      std::fill(patch, patch + first, T{});
      if (last > first) {
        const T* pixels = images + (image * window.height + y) * window.width * channels;
        std::copy(pixels + (left * channels + first), pixels + (left * channels + last), patch + first);
      }
      std::fill(patch + last, patch + line, T{});
    }
  }

  std::int64_t team_tasks() const { return rows; }
  std::int64_t team_width() const { return window.area() * window.channels; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t row) const {
    const std::int64_t place = first_row + row;
    const std::int64_t image = place / window.places(), in_image = place % window.places();
    const std::int64_t top = in_image / window.out_width * window.stride_height - window.padding_height;
    const std::int64_t left = in_image % window.out_width * window.stride_width - window.padding_width;
    const std::int64_t channels = window.channels, line = window.kernel_width * channels;
    const std::int64_t columns = window.area() * channels;
    const auto seen = [&](std::int64_t i) {
      const std::int64_t y = top + i / line, in_line = left * channels + i % line;
      const bool is_pixel =
          y >= 0 && y < window.height && in_line >= 0 && in_line < window.width * channels;
      const std::int64_t from = (image * window.height + y) * window.width * channels + in_line;
      return is_pixel ? images[from] : T{};
    };
    team.for_each(columns, seen, [&](std::int64_t i, T value) { patches[row * columns + i] = value; });
  }
};

/// Gives pixels the sums of their gradients in the patches that they are part of: those of lines of places
/// `begin_line` to `end_line`, counted over all images. Sums are float, in an order that depends on the
/// window alone; what earlier lines gave lies in `sums`. One task is a line of pixels of the images from
/// `first_image` on.
template <class T>
struct ScatterPatches {
  Window2d window;
  const float* patches;
  std::int64_t first_image, image_count;
  std::int64_t begin_line, end_line;
  /// The images' sums; null where these lines are all that the images have.
  float* sums;
  bool is_first, is_last;
  GradientTarget<T> images;

  void operator()(std::int64_t task) const {
    const std::int64_t image = first_image + task / window.height, y = task % window.height;
    const ReadBy lines =
        read_by(y, window.kernel_height, window.stride_height, window.padding_height, window.out_height);
    const std::int64_t image_line = image * window.out_height;
    const std::int64_t begin = (std::max)(lines.begin, begin_line - image_line);
    const std::int64_t end = (std::min)(lines.end, end_line - image_line);
    if (!is_first && !is_last && begin >= end) return;
    for (std::int64_t x = 0; x < window.width; ++x) {
      constexpr std::int64_t block = 64;
      for (std::int64_t c = 0; c < window.channels; c += block) {
        add_up(task, image, y, x, begin, end, c, (std::min)(block, window.channels - c));
      }
    }
  }

  std::int64_t team_tasks() const { return image_count * window.height; }
  std::int64_t team_width() const { return window.width * window.channels; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t task) const {
    const std::int64_t image = first_image + task / window.height, y = task % window.height;
    const ReadBy lines =
        read_by(y, window.kernel_height, window.stride_height, window.padding_height, window.out_height);
    const std::int64_t first = begin_line - image * window.out_height;
    const std::int64_t last = end_line - image * window.out_height;
    const std::int64_t begin = lines.begin < first ? first : lines.begin;
    const std::int64_t end = lines.end < last ? lines.end : last;
    if (!is_first && !is_last && begin >= end) return;
    const std::int64_t channels = window.channels;
    team.for_each(window.width * channels, [&](std::int64_t i) {
      float* const kept = sums == nullptr ? nullptr : sums + task * window.width * channels + i;
      const float sum = add_up_one(is_first ? 0.0f : *kept, image, y, i / channels, begin, end, i % channels);
      if (is_last) {
        store_gradient(images, (image * window.height + y) * window.width * channels + i, sum);
      } else {
        *kept = sum;
      }
    });
  }

 private:
  HALFSTEP_HOST_DEVICE float add_up_one(float sum, std::int64_t image, std::int64_t y, std::int64_t x,
                                        std::int64_t begin, std::int64_t end, std::int64_t channel) const {
    const ReadBy columns =
        read_by(x, window.kernel_width, window.stride_width, window.padding_width, window.out_width);
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t kernel_y = y + window.padding_height - line * window.stride_height;
      const std::int64_t row = (image * window.out_height + line - begin_line) * window.out_width;
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const std::int64_t kernel_x = x + window.padding_width - column * window.stride_width;
        sum += patches[((row + column) * window.area() + kernel_y * window.kernel_width + kernel_x) *
                           window.channels +
                       channel];
      }
    }
    return sum;
  }
  void add_up(std::int64_t task, std::int64_t image, std::int64_t y, std::int64_t x, std::int64_t begin,
              std::int64_t end, std::int64_t channel, std::int64_t count) const {
    float block[64];
    const std::int64_t channels = window.channels;
    float* const kept = sums == nullptr ? nullptr : sums + (task * window.width + x) * channels + channel;
    for (std::int64_t c = 0; c < count; ++c) block[c] = is_first ? 0.0f : kept[c];
    const ReadBy columns =
        read_by(x, window.kernel_width, window.stride_width, window.padding_width, window.out_width);
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t kernel_y = y + window.padding_height - line * window.stride_height;
      const std::int64_t row = (image * window.out_height + line - begin_line) * window.out_width;
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const std::int64_t kernel_x = x + window.padding_width - column * window.stride_width;
        const float* patch = patches + (row + column) * window.area() * channels +
                             (kernel_y * window.kernel_width + kernel_x) * channels + channel;
        HALFSTEP_SIMD
        for (std::int64_t c = 0; c < count; ++c) block[c] += patch[c];
      }
    }
    if (!is_last) {
      for (std::int64_t c = 0; c < count; ++c) kept[c] = block[c];
      return;
    }
    const std::int64_t at = ((image * window.height + y) * window.width + x) * channels + channel;
    const GradientTarget<T> target{images.data + at, images.accumulate};
    for (std::int64_t c = 0; c < count; ++c) store_gradient(target, c, block[c]);
  }
};

}  // namespace halfstep::detail
