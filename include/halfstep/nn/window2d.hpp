#pragma once

#include <cstdint>
#include <halfstep/error.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/tensor/shape.hpp>
#include <string>

namespace halfstep {

/// A height and a width: of a kernel, a stride, a padding. A single number is both.
struct Extents2d {
  std::int64_t height = 0;
  std::int64_t width = 0;

  constexpr Extents2d(std::int64_t both) : height(both), width(both) {}
  constexpr Extents2d(std::int64_t the_height, std::int64_t the_width)
      : height(the_height), width(the_width) {}

  std::string text() const { return std::to_string(height) + " x " + std::to_string(width); }
};

namespace detail {

/// A window that slides over images [batch, height, width, channels] and gives one result at each of its
/// places. Along each axis result o reads pixels o * stride - padding + [0, kernel), those outside the image
/// being padding.
struct Window2d {
  std::int64_t batch, height, width, channels;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride_height, stride_width;
  std::int64_t padding_height, padding_width;
  std::int64_t out_height, out_width;

  /// Elements under the window, padding included, but for the channels.
  HALFSTEP_HOST_DEVICE std::int64_t area() const { return kernel_height * kernel_width; }
  /// Places of the window in an image, and in all.
  HALFSTEP_HOST_DEVICE std::int64_t places() const { return out_height * out_width; }
  std::int64_t rows() const { return batch * places(); }
};

/// The results of an axis that read a pixel: from `begin` to `end`, none where they meet.
struct ReadBy {
  std::int64_t begin, end;
};
HALFSTEP_HOST_DEVICE inline ReadBy read_by(std::int64_t pixel, std::int64_t kernel, std::int64_t stride,
                                           std::int64_t padding, std::int64_t out) {
  const std::int64_t moved = pixel + padding;
  const std::int64_t begin = moved < kernel ? 0 : (moved - kernel) / stride + 1;
  const std::int64_t end = moved / stride + 1;
  return {begin, end < out ? end : out};
}

inline constexpr std::int64_t largest_window = std::int64_t{1} << 30;

/// Throws ConfigurationError unless a window may be so; `what` begins the message.
inline void check_window(const std::string& what, Extents2d kernel, Extents2d stride, Extents2d padding) {
  const auto check = [&](const char* name, Extents2d extents, std::int64_t smallest) {
    for (const std::int64_t extent : {extents.height, extents.width}) {
      if (extent >= smallest && extent <= largest_window) continue;
      throw ConfigurationError(what + ": the " + name + " is " + extents.text() + "; it must be " +
                               std::to_string(smallest) + " or more, and no more than 2^30");
    }
  };
  check("kernel", kernel, 1);
  check("stride", stride, 1);
  check("padding", padding, 0);
}

/// The window over images of this shape. Throws ShapeError unless they are [batch, height, width, channels]
/// and the window has room in them.
inline Window2d window_over(const std::string& what, const Shape& images, Extents2d kernel, Extents2d stride,
                            Extents2d padding) {
  if (images.rank() != 4) {
    throw ShapeError(what + " got images of shape " + images.text() +
                     "; they must have four extents: batch, height, width, channels (channels last)");
  }
  const std::int64_t height = images[1] + 2 * padding.height, width = images[2] + 2 * padding.width;
  if (images[1] == 0 || images[2] == 0 || height < kernel.height || width < kernel.width) {
    throw ShapeError(what + " got images of shape " + images.text() + ": a kernel of " + kernel.text() +
                     " has no place in " + std::to_string(images[1]) + " x " + std::to_string(images[2]) +
                     " pixels with a padding of " + padding.text() +
                     "; take a smaller kernel, more padding or larger images");
  }
  return {images[0],
          images[1],
          images[2],
          images[3],
          kernel.height,
          kernel.width,
          stride.height,
          stride.width,
          padding.height,
          padding.width,
          (height - kernel.height) / stride.height + 1,
          (width - kernel.width) / stride.width + 1};
}

}  // namespace detail

}  // namespace halfstep
