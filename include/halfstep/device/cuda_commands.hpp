#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>
#include <vector>

#include <halfstep/device/cuda_error.hpp>

namespace halfstep {
class Cuda;
}

namespace halfstep::detail {

/// A kernel of one argument, and how it is started. What it carries is `bytes` long and aligned to 16 at most.
struct CudaLaunch {
  const void* function;
  unsigned blocks;
  unsigned threads;
  const void* carried;
  std::size_t bytes;

  void give(cudaStream_t stream) const {
    void* arguments[] = {const_cast<void*>(carried)};
    check_cuda(cudaLaunchKernel(function, dim3(blocks), dim3(threads), arguments, 0, stream), "cudaLaunchKernel",
               {{"blocks", blocks}, {"threads", threads}});
  }
};

struct CudaCopy {
  void* to;
  const void* from;
  std::size_t bytes;
  cudaMemcpyKind kind;

  void give(cudaStream_t stream) const {
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream),
               kind == cudaMemcpyHostToDevice   ? "cudaMemcpyAsync to the device"
               : kind == cudaMemcpyDeviceToHost ? "cudaMemcpyAsync from the device"
                                                : "cudaMemcpyAsync on the device",
               {{"bytes", bytes}});
  }
  bool operator==(const CudaCopy&) const = default;
};

/// What has no numbers that could be changed in a graph: a library's call, say. A `Call` is trivially copyable, aligned
/// to 16 at most, compares by ==, has `std::size_t hash() const`, and gives its work to a stream by
/// `give(Cuda&, cudaStream_t) const`.
struct CudaCallTable {
  std::size_t bytes;
  void (*give)(const void* call, Cuda& device, cudaStream_t stream);
  bool (*equal)(const void* a, const void* b);
  std::size_t (*hash)(const void* call);

  template <class Call>
  static const CudaCallTable* of() {
    static constexpr CudaCallTable table{
        sizeof(Call),
        [](const void* call, Cuda& device, cudaStream_t stream) {
          static_cast<const Call*>(call)->give(device, stream);
        },
        [](const void* a, const void* b) { return *static_cast<const Call*>(a) == *static_cast<const Call*>(b); },
        [](const void* call) { return static_cast<const Call*>(call)->hash(); }};
    return &table;
  }
};

struct CudaClear {
  void* memory;
  std::size_t bytes;

  void give(Cuda&, cudaStream_t stream) const {
    check_cuda(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync", {{"bytes", bytes}});
  }
  std::size_t hash() const { return bytes; }
  bool operator==(const CudaClear&) const = default;
};

/// Work for a GPU, written down in its order. Two lists are *alike* where one can be made the other by giving kernels
/// other arguments and block counts, and copies other addresses: all that a CUDA graph lets change.
class CudaCommands {
 public:
  void add(const CudaLaunch& launch) {
    commands_.push_back(Launch{launch.function, launch.blocks, launch.threads, keep(launch.carried, launch.bytes),
                               launch.bytes});
  }
  void add(const CudaCopy& copy) { commands_.push_back(copy); }
  template <class Call>
  void add(const Call& call) {
    static_assert(std::is_trivially_copyable_v<Call> && alignof(Call) <= alignof(std::max_align_t));
    commands_.push_back(Called{CudaCallTable::of<Call>(), keep(&call, sizeof call)});
  }

  bool empty() const { return commands_.empty(); }
  std::size_t size() const { return commands_.size(); }
  /// Forgets all commands; the memory for them stays.
  void clear() {
    commands_.clear();
    carried_.clear();
  }

  /// Gives all work to the stream, and calls `after(i)` when the i-th command was given, if it is a kernel or a copy.
  template <class After>
  void give(Cuda& device, cudaStream_t stream, const After& after) const {
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      if (const auto* called = std::get_if<Called>(&commands_[i])) {
        called->table->give(carried(called->offset), device, stream);
        continue;
      }
      if (const auto* kernel = std::get_if<Launch>(&commands_[i])) launch(*kernel).give(stream);
      if (const auto* copy = std::get_if<CudaCopy>(&commands_[i])) copy->give(stream);
      after(i);
    }
  }

  /// The same for lists that are alike.
  std::size_t hash() const {
    std::size_t hash = commands_.size();
    const auto mix = [&hash](std::uint64_t value) {
      hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 32;
    };
    for (const Command& command : commands_) {
      mix(command.index());
      if (const auto* kernel = std::get_if<Launch>(&command)) mix(reinterpret_cast<std::uintptr_t>(kernel->function));
      if (const auto* called = std::get_if<Called>(&command)) mix(called->table->hash(carried(called->offset)));
    }
    return hash;
  }
  bool is_like(const CudaCommands& other) const {
    if (commands_.size() != other.commands_.size()) return false;
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      if (!is_like(commands_[i], other, other.commands_[i])) return false;
    }
    return true;
  }

  /// Of a list that is like this one: calls `launch(i, CudaLaunch)` and `copy(i, CudaCopy)` for each command that is
  /// not the same there, with what it is there.
  template <class OnLaunch, class OnCopy>
  void compare(const CudaCommands& now, const OnLaunch& on_launch, const OnCopy& on_copy) const {
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      if (const auto* kernel = std::get_if<Launch>(&now.commands_[i])) {
        const auto& before = std::get<Launch>(commands_[i]);
        if (before.blocks != kernel->blocks ||
            std::memcmp(carried(before.offset), now.carried(kernel->offset), kernel->bytes) != 0) {
          on_launch(i, now.launch(*kernel));
        }
      }
      if (const auto* copy = std::get_if<CudaCopy>(&now.commands_[i])) {
        if (std::get<CudaCopy>(commands_[i]) != *copy) on_copy(i, *copy);
      }
    }
  }

 private:
  struct Launch {
    const void* function;
    unsigned blocks, threads;
    std::size_t offset, bytes;
  };
  struct Called {
    const CudaCallTable* table;
    std::size_t offset;
  };
  using Command = std::variant<Launch, CudaCopy, Called>;

  /// Copies what a command carries, and says where it lies.
  std::size_t keep(const void* bytes, std::size_t count) {
    constexpr std::size_t alignment = alignof(std::max_align_t);
    const std::size_t offset = (carried_.size() + alignment - 1) / alignment * alignment;
    carried_.resize(offset + count);
    std::memcpy(carried_.data() + offset, bytes, count);
    return offset;
  }
  const void* carried(std::size_t offset) const { return carried_.data() + offset; }
  CudaLaunch launch(const Launch& kernel) const {
    return {kernel.function, kernel.blocks, kernel.threads, carried(kernel.offset), kernel.bytes};
  }
  bool is_like(const Command& one, const CudaCommands& there, const Command& other) const {
    if (one.index() != other.index()) return false;
    if (const auto* kernel = std::get_if<Launch>(&one)) {
      const auto& second = std::get<Launch>(other);
      return kernel->function == second.function && kernel->threads == second.threads && kernel->bytes == second.bytes;
    }
    if (const auto* copy = std::get_if<CudaCopy>(&one)) return copy->kind == std::get<CudaCopy>(other).kind;
    const auto& first = std::get<Called>(one);
    const auto& second = std::get<Called>(other);
    return first.table == second.table && first.table->equal(carried(first.offset), there.carried(second.offset));
  }

  std::vector<Command> commands_;
  std::vector<std::byte> carried_;
};

}  // namespace halfstep::detail
