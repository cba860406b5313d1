#pragma once

#include <cstdint>
#include <type_traits>

#include <halfstep/compute/portable_matmul.hpp>

namespace halfstep::compute {

/// See matmul.hpp.
template <class A, class B, class Out>
  requires MatmulTypes<A, B, Out>
void batched_matmul(Host& host, std::int64_t count, MatrixBatch<A> a, MatrixBatch<B> b,
                    MatrixBatch<Out> result, std::type_identity_t<MatmulOptions<Out>> options = {}) {
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
