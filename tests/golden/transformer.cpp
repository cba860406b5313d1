// The operations of transformers forward and backward beside PyTorch's, in the three compute types.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "golden/beside_pytorch.hpp"
#include "golden/golden.hpp"
#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(transformer_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

template <class Policy>
Golden<Policy> golden() {
  return {GoldenFile("transformer")};
}

template <class Layer>
struct One {
  Layer layer;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", layer);
  }
};

/// A layer with the parameters that PyTorch computed with.
template <class Policy, class Layer>
struct Case {
  Case(const std::string& operation_name, Layer layer)
      : operation(operation_name), session(One<Layer>{std::move(layer)}) {
    for (int i = 0; i < static_cast<int>(session.parameters.infos().size()); ++i) {
      const auto values = numbers.values(operation, parameter(i));
      const Tensor<float> master = session.parameters.master(i);
      BOOST_TEST_REQUIRE(static_cast<std::size_t>(master.size()) == values.size());
      std::copy(values.begin(), values.end(), master.data());
      session.parameters.refresh_working_copy(i);
    }
  }
  std::string parameter(int index) const {
    return session.parameters.infos()[static_cast<std::size_t>(index)].name.substr(
        std::string("layer.").size());
  }
  /// Gradients of parameters are float sums; `suffix` tells one of several uses from another.
  void compare_parameter_gradients(const std::string& suffix = "") {
    for (int i = 0; i < static_cast<int>(session.parameters.infos().size()); ++i) {
      const std::string name = "layer." + parameter(i);
      numbers.template compare<float>(operation, "d" + parameter(i) + suffix, session.gradient(name.c_str()),
                                      neighbours<float>, sum_order);
    }
  }

  std::string operation;
  Golden<Policy> numbers = golden<Policy>();
  Session<Policy, One<Layer>> session;
};

template <class Policy, class Layer>
void check_norm(const std::string& operation, const Layer& layer) {
  using T = typename Policy::compute_type;
  Case<Policy, Layer> test(operation, layer);
  auto& session = test.session;
  auto x = test.numbers.input(operation);
  const auto y = session.model.layer(session.tape, watch(session.tape, x));
  static_assert(std::is_same_v<typename decltype(y)::value_type, float>);
  session.backward(weighted_sum(session.tape, y, test.numbers.values(operation, "dy")));
  test.numbers.template compare<float>(operation, "y", floats(y.value()), neighbours<float>, sum_order);
  test.numbers.compare(operation, "dx", x.gradient, neighbours<T>, sum_order);
  test.compare_parameter_gradients();
}

}  // namespace

BOOST_AUTO_TEST_CASE(norms_are_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    check_norm<Policy>("layer_norm", LayerNorm{12});
    check_norm<Policy>("rms_norm", RmsNorm{12, {.epsilon = 1e-6f}});
  });
}

BOOST_AUTO_TEST_CASE(a_residual_with_its_norm_is_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    const std::string name = "residual_norm";
    Case<Policy, LayerNorm> test(name, LayerNorm{8});
    auto& session = test.session;
    const auto& numbers = test.numbers;
    const auto residual = numbers.file.read(numbers.name(name, "x"));
    Watched<float> x(residual.shape, residual.values);
    Watched<T> branch(residual.shape, numbers.values(name, "branch"));
    const auto [sum, y] =
        session.model.layer.add(session.tape, watch(session.tape, x), watch(session.tape, branch));
    session.backward(total(session.tape, weighted_sum(session.tape, sum, numbers.values(name, "dsum")),
                           weighted_sum(session.tape, y, numbers.values(name, "dy"))));
    numbers.template compare<float>(name, "sum", floats(sum.value()), 0.001);
    numbers.template compare<float>(name, "y", floats(y.value()), neighbours<float>, sum_order);
    numbers.template compare<float>(name, "dx", x.gradient, neighbours<float>, sum_order);
    numbers.compare(name, "dbranch", branch.gradient, neighbours<T>, sum_order);
    test.compare_parameter_gradients();
  });
}

BOOST_AUTO_TEST_CASE(an_embedding_and_a_head_tied_to_it_are_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    const std::string name = "embedding";
    Case<Policy, Embedding> test(name, Embedding{9, 8});
    auto& session = test.session;
    auto& tape = session.tape;
    const auto& numbers = test.numbers;
    const auto tokens = numbers.file.template read<std::int64_t>(numbers.name(name, "tokens"));
    const Tensor<const std::int64_t> ids(tokens.values.data(), tokens.shape);
    const auto dy = numbers.values(name, "dy");

    const auto y = session.model.layer(tape, ids);
    numbers.template compare<float>(name, "y", floats(y.value()), 0.001);
    session.backward(weighted_sum(tape, y, dy));
    test.compare_parameter_gradients();

    // Both uses in one pass; PyTorch's came one after the other.
    session.parameters.clear_gradients();
    tape.begin(Pass::training);
    auto hidden = numbers.input(name);
    const auto rows = session.model.layer(tape, ids);
    const auto logits = session.model.layer.project(tape, watch(tape, hidden));
    session.backward(
        total(tape, weighted_sum(tape, rows, dy), weighted_sum(tape, logits, numbers.values(name, "dlogits"))));
    numbers.compare(name, "logits", floats(logits.value()), neighbours<T>, sum_order);
    numbers.compare(name, "dx", hidden.gradient, neighbours<T>, sum_order);
    // PyTorch rounds the head's part to T before it adds.
    numbers.compare(name, "dweight_tied", session.gradient("layer.weight"), neighbours<T>,
                    std::is_same_v<T, float> ? sum_order : 4 * rounding<T>);
  });
}

BOOST_AUTO_TEST_CASE(silu_is_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    const auto numbers = golden<Policy>();
    auto x = numbers.input("silu");
    Session<Policy> session;
    const auto y = silu(session.tape, watch(session.tape, x));
    session.backward(weighted_sum(session.tape, y, numbers.values("silu", "dy")));
    numbers.compare("silu", "y", floats(y.value()), neighbours<T>);
    // Near its minimum the slope is a difference of numbers near 1.
    numbers.compare("silu", "dx", x.gradient, neighbours<T>, 1e-6);
  });
}

BOOST_AUTO_TEST_CASE(swiglu_is_pytorchs) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    const auto numbers = golden<Policy>();
    const auto gates = numbers.values("swiglu", "gate"), ups = numbers.values("swiglu", "up");
    const Shape shape{static_cast<std::int64_t>(gates.size())};
    Watched<T> gate(shape, gates), up(shape, ups);
    Session<Policy> session;
    const auto y = swiglu(session.tape, watch(session.tape, gate), watch(session.tape, up));
    session.backward(weighted_sum(session.tape, y, numbers.values("swiglu", "dy")));
    numbers.compare("swiglu", "y", floats(y.value()), neighbours<T>);
    numbers.compare("swiglu", "dgate", gate.gradient, neighbours<T>, 1e-6);
    numbers.compare("swiglu", "dup", up.gradient, neighbours<T>);
  });
}

BOOST_AUTO_TEST_CASE(rotary_positions_are_those_of_hugging_face_s_formula) {
  under_each_policy([]<class Policy>(Policy) {
    using T = typename Policy::compute_type;
    const auto numbers = golden<Policy>();
    const auto whole = [&](const char* option) {
      return numbers.file.template number<std::int64_t>(numbers.name("rotary", option));
    };
    const RotaryOptions options{.head_width = whole("head_width"),
                                .base = numbers.number("rotary", "base"),
                                .first_position = whole("first_position")};
    auto x = numbers.input("rotary");
    Session<Policy> session;
    const auto y = rotary(session.tape, watch(session.tape, x), options);
    session.backward(weighted_sum(session.tape, y, numbers.values("rotary", "dy")));
    numbers.compare("rotary", "y", floats(y.value()), neighbours<T>, 1e-7);
    numbers.compare("rotary", "dx", x.gradient, neighbours<T>, 1e-7);
  });
}

BOOST_AUTO_TEST_SUITE_END()
