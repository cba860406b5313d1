#pragma once

#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/nn/variable.hpp>
#include <halfstep/numeric/host_device.hpp>
#include <halfstep/tensor/tensor.hpp>

namespace halfstep::detail {

struct RoundTotals {
  const double* totals;
  float* results;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { results[i] = static_cast<float>(totals[i]); }
};

/// The sum of `term(i)` over i in [0, n), as a scalar on the tape: terms are float, their sum is double, in
/// an order that depends on n alone, and is rounded once.
template <class Tape, class Term>
Tensor<float> sum_of_terms(Tape& tape, std::int64_t n, const Term& term) {
  auto& device = tape.device();
  const Tensor<float> result = tape.template allocate<float>(Shape());
  double* total = tape.arena().template allocate<double>(1);
  compute::reduce(device, tape.arena(), n, term, 0.0, compute::Plus{}, total);
  compute::for_each(device, 1, RoundTotals{total, result.data()});
  return result;
}

}  // namespace halfstep::detail
