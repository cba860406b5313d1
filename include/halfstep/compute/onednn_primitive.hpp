#pragma once

#include <array>
#include <cstdint>
#include <halfstep/compute/matmul_options.hpp>
#include <halfstep/compute/matmul_tiles.hpp>
#include <memory>
#include <type_traits>
#include <vector>

#if HALFSTEP_WITH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>

namespace halfstep::compute::detail {

/// Everything that a matmul primitive is specialised for; the addresses come at execution.
struct OnednnProblem {
  std::int64_t rows, columns, depth;
  std::int64_t a_leading, b_leading, result_leading;
  dnnl::memory::data_type operands, result;
  bool a_transposed, b_transposed, has_bias, accumulates;
  std::int64_t threads;

  bool operator==(const OnednnProblem&) const = default;
};

/// A prepared product with its arguments: executing it builds nothing on our side.
class OnednnMatmul {
 public:
  /// Throws dnnl::error where oneDNN has no implementation for the problem on this CPU.
  OnednnMatmul(const dnnl::engine& engine, const OnednnProblem& problem) {
    using dnnl::memory;
    const auto view = [](std::int64_t rows, std::int64_t columns, std::int64_t leading, bool transposed,
                         memory::data_type type) {
      return memory::desc({rows, columns}, type,
                          transposed ? memory::dims{1, leading} : memory::dims{leading, 1});
    };
    const memory::desc a =
        view(problem.rows, problem.depth, problem.a_leading, problem.a_transposed, problem.operands);
    const memory::desc b =
        view(problem.depth, problem.columns, problem.b_leading, problem.b_transposed, problem.operands);
    const memory::desc result =
        view(problem.rows, problem.columns, problem.result_leading, false, problem.result);
    const memory::desc bias({1, problem.columns}, problem.result, memory::dims{problem.columns, 1});
    dnnl::primitive_attr attributes;
    if (problem.accumulates) {
      dnnl::post_ops post;
      post.append_sum(1.0f);
      attributes.set_post_ops(post);
    }
    primitive_ = dnnl::matmul(describe(engine, a, b, problem.has_bias ? &bias : nullptr, result, attributes));
    a_ = memory(a, engine, nullptr);
    b_ = memory(b, engine, nullptr);
    result_ = memory(result, engine, nullptr);
    arguments_ = {
        {{DNNL_ARG_SRC, a_.get()}, {DNNL_ARG_WEIGHTS, b_.get()}, {DNNL_ARG_DST, result_.get()}, {}}};
    if (problem.has_bias) {
      bias_ = memory(bias, engine, nullptr);
      arguments_[count_++] = {DNNL_ARG_BIAS, bias_.get()};
    }
  }

  bool execute(const dnnl::stream& stream, const void* a, const void* b, const void* bias, void* result) {
    const auto point = [](const dnnl::memory& memory, const void* data) {
      return dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)) == dnnl_success;
    };
    return point(a_, a) && point(b_, b) && point(result_, result) &&
           (bias == nullptr || point(bias_, bias)) &&
           dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(count_),
                                  arguments_.data()) == dnnl_success;
  }

 private:
  static dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                               const dnnl::memory::desc& b, const dnnl::memory::desc* bias,
                                               const dnnl::memory::desc& result,
                                               const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
    if (bias != nullptr) return {engine, a, b, *bias, result, attributes};
    return {engine, a, b, result, attributes};
#else
    if (bias != nullptr) return {dnnl::matmul::desc(a, b, *bias, result), attributes, engine};
    return {dnnl::matmul::desc(a, b, result), attributes, engine};
#endif
  }

  dnnl::matmul primitive_;
  dnnl::memory a_, b_, bias_, result_;
  std::array<dnnl_exec_arg_t, 4> arguments_{};
  std::size_t count_ = 3;
};

/// The prepared products of one device. It keeps as many as `capacity`; the one unused for longest makes
/// room.
class OnednnCache {
 public:
  static constexpr std::size_t capacity = 256;

  /// False where oneDNN cannot compute this problem natively on this CPU.
  template <class In, class Out>
  bool multiply(const Matrix<const In>& a, const Matrix<const In>& b, const Matrix<Out>& result,
                const MatmulOptions<Out>& options) {
    const OnednnProblem problem{a.rows,
                                b.columns,
                                a.columns,
                                a.leading,
                                b.leading,
                                result.leading,
                                data_type<In>(),
                                data_type<Out>(),
                                a.is_transposed,
                                b.is_transposed,
                                options.bias != nullptr,
                                options.accumulate,
                                max_threads()};
    OnednnMatmul* const prepared = find(problem);
    return prepared != nullptr && prepared->execute(stream_, a.data, b.data, options.bias, result.data);
  }

  std::size_t size() const { return entries_.size(); }
  /// Primitives asked of oneDNN so far: constant once a program is warm.
  std::size_t built() const { return built_; }

 private:
  struct Entry {
    OnednnProblem problem;
    std::unique_ptr<OnednnMatmul> prepared;
    std::uint64_t last_use;
  };

  template <class T>
  static constexpr dnnl::memory::data_type data_type() {
    if constexpr (std::is_same_v<T, float>) return dnnl::memory::data_type::f32;
    if constexpr (std::is_same_v<T, bfloat16>) return dnnl::memory::data_type::bf16;
    if constexpr (std::is_same_v<T, float16>) return dnnl::memory::data_type::f16;
  }

  OnednnMatmul* find(const OnednnProblem& problem) {
    ++clock_;
    Entry* oldest = nullptr;
    for (Entry& entry : entries_) {
      if (entry.problem == problem) {
        entry.last_use = clock_;
        return entry.prepared.get();
      }
      if (oldest == nullptr || entry.last_use < oldest->last_use) oldest = &entry;
    }
    Entry made{problem, nullptr, clock_};
    ++built_;
    try {
      made.prepared = std::make_unique<OnednnMatmul>(engine_, problem);
    } catch (const dnnl::error&) {
      // Remembered as impossible, so that the question is asked once.
    }
    if (entries_.size() == capacity) {
      *oldest = std::move(made);
      return oldest->prepared.get();
    }
    entries_.push_back(std::move(made));
    return entries_.back().prepared.get();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
  std::size_t built_ = 0;
};

}  // namespace halfstep::compute::detail

#endif
