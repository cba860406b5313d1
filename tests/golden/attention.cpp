// Attention and a head with its cross-entropy, forward and backward, beside PyTorch's, in the three compute
// types.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "golden/beside_pytorch.hpp"
#include "golden/golden.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(attention_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

template <class Policy>
Golden<Policy> golden() {
  return {GoldenFile("attention")};
}

struct Head {
  Linear layer;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

// PyTorch rounds probabilities and their gradients to 16 bits before it multiplies, ours stay float: that
// many roundings of a term near 1.
constexpr double largest_term = 6;

}  // namespace

BOOST_AUTO_TEST_CASE(attention_is_pytorchs_and_that_of_float64_rounded_once) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    for (int number = 0; number < 4; ++number) {
      const std::string operation = "attention_" + std::to_string(number);
      const Golden<Policy> numbers = golden<Policy>();
      const auto input = [&](const char* tensor) {
        const auto array = numbers.file.read(numbers.name(operation, tensor));
        return Watched<T>(array.shape, array.values);
      };
      const auto integers = [&](const char* name) {
        return numbers.file.template read<std::int64_t>(numbers.name(operation, name)).values;
      };
      const auto heads = integers("heads"), lengths = integers("lengths");
      auto q = input("q"), k = input("k"), v = input("v");
      Session<Policy> session;
      const auto y =
          attention(session.tape, watch(session.tape, q), watch(session.tape, k), watch(session.tape, v),
                    {.heads = heads[0],
                     .key_value_heads = heads[1],
                     .causal = integers("causal")[0] != 0,
                     .lengths = lengths});
      session.backward(weighted_sum(session.tape, y, numbers.values(operation, "dy")));
      const auto compare = [&](const std::string& tensor, const std::vector<float>& ours) {
        constexpr bool is_float = std::is_same_v<T, float>;
        numbers.compare(operation, tensor, ours, neighbours<T>,
                        is_float ? sum_order : largest_term * rounding<T>);
        // One rounding. rowsum(dO O) sums up to 8 products with a rounded O, each half a rounding off at
        // random: about 3 of a number near 1 at most, in the gradients of queries and keys.
        const bool knows_rounded = !is_float && (tensor == "dq" || tensor == "dk");
        numbers.compare(operation, "exact_" + tensor, ours, is_float ? neighbours<T> : 1.01,
                        knows_rounded ? 3 * rounding<T> : sum_order);
      };
      compare("y", floats(y.value()));
      compare("dq", q.gradient);
      compare("dk", k.gradient);
      compare("dv", v.gradient);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_head_with_its_cross_entropy_is_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    for (const int number : {0, 1}) {
      const std::string operation = "head_cross_entropy_" + std::to_string(number);
      const Golden<Policy> numbers = golden<Policy>();
      auto x = numbers.input(operation);
      const auto weight = numbers.values(operation, "weight");
      const auto labels = numbers.file.template read<std::int64_t>(numbers.name(operation, "labels"));
      Session<Policy, Head> session(Head{Linear(13, 11, {.bias = false})});
      const Tensor<float> master = session.parameters.master(0);
      BOOST_TEST_REQUIRE(static_cast<std::size_t>(master.size()) == weight.size());
      std::copy(weight.begin(), weight.end(), master.data());
      session.parameters.refresh_working_copy(0);
      const Loss loss = head_cross_entropy(
          session.tape, watch(session.tape, x), session.model.layer.weight,
          Tensor<const std::int64_t>(labels.values.data(), labels.shape),
          {.ignore_index = numbers.file.template number<std::int64_t>(numbers.name(operation, "ignore_index")),
           .label_smoothing = numbers.number(operation, "smoothing"),
           .rows_at_once = 3});
      // PyTorch's loss is the mean over valid rows, and so is its gradient.
      const float count = static_cast<float>(loss.count);
      session.backward(loss.sum, 1.0f / count);
      const double mean = static_cast<double>(*loss.sum.data()) / static_cast<double>(count);
      const double expected = static_cast<double>(numbers.number(operation, "loss"));
      BOOST_TEST(std::abs(mean - expected) <= float_tolerance.at(expected));
      numbers.compare(operation, "dx", x.gradient, neighbours<T>, sum_order);
      // Ours stay in float, PyTorch's are rounded to T.
      numbers.compare(operation, "dweight", session.gradient("layer.weight"), neighbours<T>, sum_order);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
