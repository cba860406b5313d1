#pragma once

#include <cstdint>
#include <functional>
#include <halfstep/compute/matmul_options.hpp>
#include <halfstep/compute/matrix.hpp>
#include <halfstep/numeric/convert.hpp>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace halfstep::test {

struct MatmulShape {
  std::int64_t m, n, k;
};

/// How the matrices of a case lie in memory.
struct MatmulLayout {
  bool a_transposed, b_transposed;
  /// Elements between the end of a row and the next, and before the first.
  std::int64_t gap, offset;
};

inline std::vector<MatmulLayout> all_layouts() {
  std::vector<MatmulLayout> layouts;
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      layouts.push_back({a, b, 0, 0});
      layouts.push_back({a, b, 3, 1});
    }
  }
  return layouts;
}

/// Small random integers and their product, which the cases of a shape share: computing it takes longer than
/// what is tested.
struct MatmulIntegers {
  explicit MatmulIntegers(const MatmulShape& shape) {
    std::mt19937 generator(static_cast<unsigned>(shape.m * 7 + shape.n * 3 + shape.k));
    const auto draw = [&](std::int64_t size, int largest) {
      std::vector<int> values(static_cast<std::size_t>(size));
      for (int& value : values) value = std::uniform_int_distribution<int>(-largest, largest)(generator);
      return values;
    };
    a = draw(shape.m * shape.k, 2), b = draw(shape.k * shape.n, 1);
    bias = draw(shape.n, 5);
    former = draw(shape.m * shape.n, 9);
    products.assign(former.size(), 0);
    for (std::int64_t i = 0; i < shape.m; ++i) {
      for (std::int64_t k = 0; k < shape.k; ++k) {
        // Bare pointers: under sanitizers, or without optimisation, these sums are most of a test's time.
        const int factor = a[static_cast<std::size_t>(i * shape.k + k)];
        const int* const from = b.data() + k * shape.n;
        int* const to = products.data() + i * shape.n;
        for (std::int64_t j = 0; j < shape.n; ++j) to[j] += factor * from[j];
      }
    }
  }

  std::vector<int> a, b, bias, former, products;
};

inline const MatmulIntegers& integers_of(const MatmulShape& shape) {
  static std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, MatmulIntegers> known;
  return known.try_emplace({shape.m, shape.n, shape.k}, shape).first->second;
}

/// A product of small random integers, whose exact result every type pair must give: what is not
/// representable is rounded once. The result lies among sentinels that must survive, and holds NaN where it
/// is to be ignored.
template <class In, class Out>
class MatmulCase {
 public:
  using Product = std::function<void(compute::Matrix<const In>, compute::Matrix<const In>, compute::Matrix<Out>,
                                     compute::MatmulOptions<Out>)>;

  MatmulCase(const MatmulShape& shape, const MatmulLayout& layout)
      : shape_(shape), layout_(layout), integers_(integers_of(shape)) {
    a_ = lay_out(integers_.a, shape.m, shape.k, layout.a_transposed);
    b_ = lay_out(integers_.b, shape.k, shape.n, layout.b_transposed);
    for (const int value : integers_.bias) bias_.push_back(convert_to<Out>(static_cast<float>(value)));
  }

  /// Elements that differ from what they must be after `product(a, b, result, options)`, neighbours included.
  std::int64_t count_wrong(bool biased, bool accumulate, const Product& product) const {
    const std::int64_t leading = shape_.n + layout_.gap;
    const float sentinel = 12345.0f;
    std::vector<Out> memory(at(shape_.m * leading + layout_.offset + 3), convert_to<Out>(sentinel));
    const auto result = compute::matrix(memory.data() + layout_.offset, shape_.m, shape_.n, leading);
    for (std::int64_t i = 0; i < shape_.m * shape_.n; ++i) {
      const float former =
          accumulate ? static_cast<float>(integers_.former[at(i)]) : std::numeric_limits<float>::quiet_NaN();
      result(i / shape_.n, i % shape_.n) = convert_to<Out>(former);
    }
    product(view(a_, shape_.m, shape_.k, layout_.a_transposed),
            view(b_, shape_.k, shape_.n, layout_.b_transposed), result,
            compute::MatmulOptions<Out>{.bias = biased ? bias_.data() : nullptr, .accumulate = accumulate});
    std::int64_t wrong = 0;
    for (std::int64_t position = 0; position < static_cast<std::int64_t>(memory.size()); ++position) {
      const std::int64_t row = (position - layout_.offset) / leading,
                         column = (position - layout_.offset) % leading;
      float expected = sentinel;
      if (position >= layout_.offset && row < shape_.m && column < shape_.n) {
        const std::size_t index = at(row * shape_.n + column);
        expected = static_cast<float>(integers_.products[index] + (biased ? integers_.bias[at(column)] : 0) +
                                      (accumulate ? integers_.former[index] : 0));
      }
      wrong += static_cast<float>(memory[at(position)]) != static_cast<float>(convert_to<Out>(expected));
    }
    return wrong;
  }

  std::string text(bool biased, bool accumulate) const {
    return std::to_string(shape_.m) + " x " + std::to_string(shape_.n) + " x " + std::to_string(shape_.k) +
           (layout_.a_transposed ? ", a transposed" : "") + (layout_.b_transposed ? ", b transposed" : "") +
           ", gap " + std::to_string(layout_.gap) + ", offset " + std::to_string(layout_.offset) +
           (biased ? ", bias" : "") + (accumulate ? ", accumulate" : "");
  }

 private:
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

  std::vector<In> lay_out(const std::vector<int>& values, std::int64_t rows, std::int64_t columns,
                          bool transposed) const {
    // Gaps hold NaN: whoever reads them spoils the result.
    std::vector<In> memory(at(layout_.offset + (rows + layout_.gap) * (columns + layout_.gap) + 1),
                           convert_to<In>(std::numeric_limits<float>::quiet_NaN()));
    const std::int64_t leading = (transposed ? rows : columns) + layout_.gap;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        memory[at(layout_.offset + (transposed ? j * leading + i : i * leading + j))] =
            convert_to<In>(static_cast<float>(values[at(i * columns + j)]));
      }
    }
    return memory;
  }

  compute::Matrix<const In> view(const std::vector<In>& memory, std::int64_t rows, std::int64_t columns,
                                 bool transposed) const {
    const In* const data = memory.data() + layout_.offset;
    if (transposed) return compute::matrix(data, columns, rows, rows + layout_.gap).transposed();
    return compute::matrix(data, rows, columns, columns + layout_.gap);
  }

  MatmulShape shape_;
  MatmulLayout layout_;
  const MatmulIntegers& integers_;
  std::vector<In> a_, b_;
  std::vector<Out> bias_;
};

}  // namespace halfstep::test
