#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <thread>
#include <vector>

namespace halfstep::detail {

/// Calls work(i) for each i in [0, count), in several threads where there are many bytes to go through: new memory,
/// copying and checksums take longer than a fast disk does. Throws what the first of them in order threw.
template <class Work>
void in_threads(std::size_t count, std::int64_t bytes, const Work& work) {
  constexpr std::int64_t worth_threads = std::int64_t{64} << 20;
  const std::size_t most = (std::min)(std::size_t{4}, std::size_t{std::thread::hardware_concurrency()});
  const std::size_t threads = bytes < worth_threads ? 1 : (std::min)(most, count);
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> errors(count);
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
        next = count;  // those before it are under way
      }
    }
  };
  {
    std::vector<std::future<void>> others;
    try {
      while (others.size() + 1 < threads) others.push_back(std::async(std::launch::async, run));
    } catch (const std::exception&) {  // no more threads or memory: those there are do it
    }
    run();
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

}  // namespace halfstep::detail
