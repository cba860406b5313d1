#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/device/cuda.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// Figures of a GPU, taken with its own clock: what is compared runs in turn, and medians are compared.
namespace figures {

/// What was measured: lines for gpu_check.sh's table (state, name, result, with tabs between), and all of it
/// as JSON.
class Report {
 public:
  /// A figure that has a goal, as a share of what it is held against.
  void compare(const std::string& name, double share, double goal, const std::string& of_what,
               nlohmann::json details) {
    const bool is_reached = share >= goal;
    add(is_reached ? "passed" : "failed", name,
        fmt::format("{:.1f} % of {}, goal {:.0f} %", 100 * share, of_what, 100 * goal));
    details.update({{"name", name}, {"share", share}, {"goal", goal}, {"reached", is_reached}});
    json_.push_back(std::move(details));
  }
  /// A figure without one.
  void tell(const std::string& name, const std::string& result, nlohmann::json details) {
    add("measured", name, result);
    details["name"] = name;
    json_.push_back(std::move(details));
  }
  void require(const std::string& name, bool is_right, const std::string& result) {
    add(is_right ? "passed" : "failed", name, result);
    json_.push_back({{"name", name}, {"right", is_right}, {"result", result}});
  }

  bool is_good() const { return is_good_; }
  const nlohmann::json& json() const { return json_; }

 private:
  void add(const char* state, const std::string& name, const std::string& result) {
    fmt::print("{}\t{}\t{}\n", state, name, result);
    std::fflush(stdout);
    is_good_ = is_good_ && std::string(state) != "failed";
  }

  nlohmann::json json_ = nlohmann::json::array();
  bool is_good_ = true;
};

/// Two points in a device's stream, and the time between them by the GPU's clock.
class Stopwatch {
 public:
  explicit Stopwatch(halfstep::Cuda& cuda) : cuda_(cuda) {
    for (cudaEvent_t& event : events_)
      halfstep::detail::check_cuda(cudaEventCreate(&event), "cudaEventCreate");
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }

  /// Seconds of `calls` calls of `work()`, which gives its work to the device's stream. Where the program is
  /// slower at giving than the GPU at working these are the program's seconds.
  template <class Work>
  double seconds(const Work& work, std::int64_t calls = 1) {
    cuda_.synchronize();
    halfstep::detail::check_cuda(cudaEventRecord(events_[0], cuda_.stream()), "cudaEventRecord");
    for (std::int64_t call = 0; call < calls; ++call) work();
    halfstep::detail::check_cuda(cudaEventRecord(events_[1], cuda_.stream()), "cudaEventRecord");
    halfstep::detail::check_cuda(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
    float milliseconds = 0;
    halfstep::detail::check_cuda(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]),
                                 "cudaEventElapsedTime");
    // Its resolution is half a microsecond: never 0.
    return (std::max)(1e-3 * static_cast<double>(milliseconds), 5e-7);
  }

  /// How many calls of `work()` last about `aim` seconds, at least one and at most 1000. Warms up.
  template <class Work>
  std::int64_t calls_for(double aim, const Work& work) {
    for (int call = 0; call < 3; ++call) work();
    const double one = seconds(work, 3) / 3;
    return std::clamp(static_cast<std::int64_t>(aim / one), std::int64_t{1}, std::int64_t{1000});
  }

 private:
  halfstep::Cuda& cuda_;
  cudaEvent_t events_[2] = {};
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Times {
  double ours, reference;  // median seconds of one call
};

/// Both pieces of work in turn, as often as that, after one round that does not count.
template <class Ours, class Reference>
Times in_turn(halfstep::Cuda& cuda, int rounds, std::int64_t calls, const Ours& ours,
              const Reference& reference) {
  Stopwatch stopwatch(cuda);
  std::vector<double> of_ours, of_reference;
  for (int round = 0; round <= rounds; ++round) {
    const double b = stopwatch.seconds(reference, calls), a = stopwatch.seconds(ours, calls);
    if (round == 0) continue;
    of_ours.push_back(a / static_cast<double>(calls));
    of_reference.push_back(b / static_cast<double>(calls));
  }
  return {median(of_ours), median(of_reference)};
}

/// Numbers in [-1, 1) that no compression and no power saving finds easy, as zeros are.
template <class T>
struct Scatter {
  T* to;
  std::uint32_t seed;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const {
    std::uint32_t bits = static_cast<std::uint32_t>(i) * 2654435761u + seed;
    bits = (bits ^ (bits >> 16)) * 0x85ebca6bu;
    bits = (bits ^ (bits >> 13)) * 0xc2b2ae35u;
    bits ^= bits >> 16;
    to[i] = static_cast<T>(static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f);
  }
};

template <class T>
halfstep::Buffer<T, halfstep::Cuda> scattered(halfstep::Cuda& cuda, std::int64_t size, std::uint32_t seed) {
  halfstep::Buffer<T, halfstep::Cuda> buffer(cuda, size);
  halfstep::compute::for_each(cuda, size, Scatter<T>{buffer.data(), seed});
  return buffer;
}

template <class T>
halfstep::Buffer<T, halfstep::Cuda> sent(halfstep::Cuda& cuda, const std::vector<T>& values) {
  halfstep::Buffer<T, halfstep::Cuda> buffer(cuda, static_cast<std::int64_t>(values.size()));
  cuda.upload(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

}  // namespace figures
