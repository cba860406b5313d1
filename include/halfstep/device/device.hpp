#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

#include <halfstep/device/host.hpp>
#include <halfstep/numeric/host_device.hpp>
#if HALFSTEP_WITH_CUDA
#include <halfstep/device/cuda.hpp>
#endif

namespace halfstep {

/// A place where tensors live and work is done in the order in which it is given. Memory comes and goes in that
/// same order; `upload` and `download` cross from and to the program's memory.
template <class T>
concept Device = requires(T device, void* memory, const void* source, std::size_t bytes) {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::alignment } -> std::convertible_to<std::size_t>;
  { T::shares_host_memory } -> std::convertible_to<bool>;
  { device.allocate(bytes) } -> std::same_as<void*>;
  { device.deallocate(memory) } noexcept;
  device.clear(memory, bytes);
  device.copy(memory, source, bytes);
  device.upload(memory, source, bytes);
  device.download(memory, source, bytes);
  device.synchronize();
  typename T::Options;
};

static_assert(Device<Host>);

/// Where a trainer runs when its type does not say.
#if HALFSTEP_WITH_CUDA
static_assert(Device<Cuda>);
using DefaultDevice = Cuda;
#else
using DefaultDevice = Host;
#endif

}  // namespace halfstep
