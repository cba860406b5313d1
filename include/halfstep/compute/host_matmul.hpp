#pragma once

#include <cstdint>
#include <halfstep/compute/portable_matmul.hpp>
#include <type_traits>
#if HALFSTEP_WITH_ONEDNN
#include <halfstep/compute/onednn.hpp>
#endif

namespace halfstep::compute {

/// Products of fewer multiply-adds than this are computed by the portable loop even where oneDNN is there:
/// nearly all of their shapes would change their bits with the number of threads, and speed matters least
/// here.
inline constexpr std::int64_t portable_limit = std::int64_t{1} << 22;

/// See matmul.hpp.
template <class A, class B, class Out>
requires MatmulTypes<A, B, Out>
void batched_matmul(Host& host, std::int64_t count, MatrixBatch<A> a, MatrixBatch<B> b,
                    MatrixBatch<Out> result, std::type_identity_t<MatmulOptions<Out>> options = {}) {
#if HALFSTEP_WITH_ONEDNN
  detail::check_batched_matmul(count, a, b, result);
  const std::int64_t work = result.first.rows * result.first.columns * a.first.columns;
  if (work >= portable_limit && !host.options().deterministic) {
    return detail::onednn_matmul<std::remove_const_t<A>, Out>(host, count, a, b, result, options);
  }
#endif
  portable_batched_matmul(host, count, a, b, result, options);
}

/// See matmul.hpp.
template <class A, class B, class Out>
requires MatmulTypes<A, B, Out>
void matmul(Host& host, Matrix<A> a, Matrix<B> b, Matrix<Out> result,
            std::type_identity_t<MatmulOptions<Out>> options = {}) {
  batched_matmul(host, 1, MatrixBatch<A>{a}, MatrixBatch<B>{b}, MatrixBatch<Out>{result}, options);
}

}  // namespace halfstep::compute
