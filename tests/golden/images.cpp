// Convolution and pooling forward and backward beside PyTorch's, in the three compute types.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "golden/beside_pytorch.hpp"
#include "golden/golden.hpp"
#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(images_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace images_test {

struct OneConvolution {
  Convolution2d layer;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

template <class Policy>
struct Images {
  using T = typename Policy::compute_type;
  Golden<Policy> golden{GoldenFile("images")};

  Extents2d option(const std::string& operation, const char* name) const {
    const auto values = golden.file.template read<std::int64_t>(golden.name(operation, name)).values;
    return {values[0], values[1]};
  }

  void convolution(const std::string& operation, bool bias) const {
    const Shape weight = golden.file.read(golden.name(operation, "weight")).shape;
    Session<Policy, OneConvolution> session(OneConvolution{
        {weight[3],
         weight[0],
         {weight[1], weight[2]},
         {.stride = option(operation, "stride"), .padding = option(operation, "padding"), .bias = bias}}});
    for (int i = 0; i < static_cast<int>(session.parameters.infos().size()); ++i) {
      const auto values = golden.values(operation, i == 0 ? "weight" : "bias");
      std::copy(values.begin(), values.end(), session.parameters.master(i).data());
      session.parameters.refresh_working_copy(i);
    }
    auto x = golden.input(operation);
    const auto y = session.model.layer(session.tape, watch(session.tape, x));
    static_assert(std::is_same_v<typename decltype(y)::value_type, T>);
    session.backward(weighted_sum(session.tape, y, golden.values(operation, "dy")));
    golden.compare(operation, "y", floats(y.value()), neighbours<T>, sum_order);
    compare_gradient<T>(operation, "dx", x.gradient);
    // Ours stay in float.
    compare_gradient<float>(operation, "dweight", session.gradient("layer.weight"));
    if (bias) compare_gradient<float>(operation, "dbias", session.gradient("layer.bias"));
  }

  /// Ours are sums in float, rounded once where they are stored in 16 bits; PyTorch rounds in 16 bits what it
  /// adds up, here up to 24 terms with sums up to 8.
  template <class Stored>
  void compare_gradient(const std::string& operation, const std::string& tensor,
                        const std::vector<float>& ours) const {
    golden.template compare<Stored>(operation, tensor + "64", ours, neighbours<Stored>, sum_order);
    golden.compare(operation, tensor, ours, neighbours<T>,
                   std::is_same_v<T, float> ? sum_order : 8 * rounding<T>);
  }

  template <class Pool>
  void pooling(const std::string& operation, double roundings, const Pool& pool) const {
    auto x = golden.input(operation);
    Session<Policy> session;
    const auto y = pool(session.tape, watch(session.tape, x), option(operation, "kernel"),
                        PoolingOptions{option(operation, "stride"), option(operation, "padding")});
    static_assert(std::is_same_v<typename decltype(y)::value_type, T>);
    session.backward(weighted_sum(session.tape, y, golden.values(operation, "dy")));
    golden.compare(operation, "y", floats(y.value()), roundings);
    compare_gradient<T>(operation, "dx", x.gradient);
  }
};

}  // namespace images_test
using namespace images_test;

BOOST_AUTO_TEST_CASE(convolutions_are_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    const Images<Policy> images;
    images.convolution("convolution.same", true);
    images.convolution("convolution.strided", false);
    images.convolution("convolution.pointwise", true);
  });
}

BOOST_AUTO_TEST_CASE(poolings_are_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    const Images<Policy> images;
    for (const std::string layout : {"side_by_side", "overlapping"}) {
      images.pooling("max_pool." + layout, 0.001, [](auto& tape, const auto& x, auto... options) {
        return max_pool2d(tape, x, options...);
      });
      images.pooling("average_pool." + layout, neighbours<T>, [](auto& tape, const auto& x, auto... options) {
        return average_pool2d(tape, x, options...);
      });
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
