#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include <halfstep/error.hpp>
#include <halfstep/scaling/clip.hpp>
#include <halfstep/tensor/tensor.hpp>

namespace halfstep {

/// States of a window's gradients: as the backward pass left them, and as they truly are.
struct Scaled {};
struct Unscaled {};

namespace detail {

/// What a trainer lets its gradient handles do with the window that it has closed.
class ClosedWindow {
 public:
  virtual ~ClosedWindow() = default;
  virtual float loss_scale() const = 0;
  virtual void measure() = 0;
  virtual double norm() const = 0;
  virtual bool is_finite() const = 0;
  virtual void clip_norm(float max_norm) = 0;
  virtual void clip_value(float max_value) = 0;
  virtual void for_each(const std::function<void(std::string_view, Tensor<float>)>& function) = 0;
  virtual void discard() noexcept = 0;
};

/// Owns the right to one closed window. Gone without having been applied, the window is abandoned.
class WindowHandle {
 public:
  explicit WindowHandle(std::shared_ptr<ClosedWindow> window) : window_(std::move(window)) {}
  WindowHandle(WindowHandle&&) noexcept = default;
  WindowHandle& operator=(WindowHandle&& other) noexcept {
    if (this != &other) {
      drop();
      window_ = std::move(other.window_);
    }
    return *this;
  }
  ~WindowHandle() { drop(); }

  ClosedWindow& get() const {
    if (window_ == nullptr) {
      throw ConfigurationError(
          "these gradients were moved from: their window was unscaled or applied already; take the next window with "
          "close_window()");
    }
    return *window_;
  }
  std::shared_ptr<ClosedWindow> release() {
    get();
    return std::move(window_);
  }

 private:
  void drop() noexcept {
    if (window_ != nullptr) window_->discard();
    window_ = nullptr;
  }
  std::shared_ptr<ClosedWindow> window_;
};

template <class>
inline constexpr bool never = false;

}  // namespace detail

template <class State>
class Gradients;

/// The gradients of a closed window as the backward pass left them: the loss scale is still in them. All that can
/// be done is to unscale them.
template <>
class [[nodiscard]] Gradients<Scaled> {
 public:
  explicit Gradients(detail::WindowHandle window) : window_(std::move(window)) {}

  float loss_scale() const { return window_.get().loss_scale(); }

  /// Measures the window: true gradients, their norm, whether all are finite. Takes this object's place.
  Gradients<Unscaled> unscale() &&;

  template <class T = void>
  void clip_norm(float) const {
    static_assert(detail::never<T>,
                  "halfstep: clip_norm needs unscaled gradients, else the threshold is divided by the loss scale; "
                  "write `auto unscaled = std::move(scaled).unscale();` and clip that");
  }
  template <class T = void>
  void clip_value(float) const {
    static_assert(detail::never<T>,
                  "halfstep: clip_value needs unscaled gradients, else the threshold is divided by the loss scale; "
                  "write `auto unscaled = std::move(scaled).unscale();` and clip that");
  }

 private:
  detail::WindowHandle window_;
};

/// The true gradients of a closed window, for those who want a hand on them between unscale and update.
template <>
class [[nodiscard]] Gradients<Unscaled> {
 public:
  explicit Gradients(detail::WindowHandle window) : window_(std::move(window)) {}

  /// Euclidean norm over all parameters, before any clipping since the last `for_each`, which writes down what clipping
  /// has left; infinite or NaN if a gradient is.
  double norm() const { return window_.get().norm(); }
  bool is_finite() const { return window_.get().is_finite(); }

  /// Shortens the gradients, all by one factor, to a norm of at most `max_norm`. Infinity leaves them alone. While a
  /// gradient is not finite no factor makes it so: the limit waits until `for_each` has made all of them finite.
  /// Throws ConfigurationError for zero, negative or NaN.
  void clip_norm(float max_norm) { window_.get().clip_norm(max_norm); }
  /// Limits each gradient to [-max_value, max_value], after any clip_norm. Throws as clip_norm.
  void clip_value(float max_value) { window_.get().clip_value(max_value); }

  /// Calls `function(name, gradient)` for each parameter that has a gradient, in parameter order. The tensor is in
  /// the device's memory and may be changed; norm and finiteness are measured again afterwards, also where the
  /// function throws. It sees what clip_norm and clip_value have left, or, where a gradient is not finite, the
  /// gradients as they are: limits then come after it.
  void for_each(const std::function<void(std::string_view, Tensor<float>)>& function) {
    window_.get().for_each(function);
  }

  /// For the trainer that closed the window.
  std::shared_ptr<detail::ClosedWindow> release() && { return window_.release(); }
  const detail::ClosedWindow* window() const { return &window_.get(); }

 private:
  detail::WindowHandle window_;
};

inline Gradients<Unscaled> Gradients<Scaled>::unscale() && {
  window_.get().measure();
  return Gradients<Unscaled>(std::move(window_));
}

}  // namespace halfstep
