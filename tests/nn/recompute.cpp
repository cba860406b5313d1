#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/dropout.hpp>
#include <halfstep/nn/gelu.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/recompute.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "support/refusal.hpp"
#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(recompute_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace recompute_test {

constexpr std::int64_t width = 16, rows = 6;

struct Block {
  LayerNorm norm{width};
  Linear up{width, 2 * width}, down{2 * width, width};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("norm", norm);
    visit("up", up);
    visit("down", down);
  }
  template <class Tape, class X>
  auto operator()(Tape& tape, const X& x) const {
    return add(tape, x, dropout(tape, down(tape, gelu(tape, up(tape, norm(tape, x)))), 0.25f));
  }
};

/// Blocks, and a layer that is used between them and inside the second one.
struct Blocks {
  Block first, second;
  Linear shared{width, width};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    visit("second", second);
    visit("shared", shared);
  }
};

enum class How { plain, recomputed, nested };

template <class Tape, class X>
auto forward(Tape& tape, const Blocks& model, const X& x, How how) {
  const auto first = [&model](auto& t, const auto& v) { return model.first(t, v); };
  const auto second = [&model](auto& t, const auto& v) { return model.second(t, model.shared(t, v)); };
  const auto both = [&model, first, second](auto& t, const auto& v) {
    const auto between = model.shared(t, recompute(t, dropout(t, v, 0.1f), first));
    return dropout(t, recompute(t, between, second), 0.1f);
  };
  if (how == How::nested) return recompute(tape, x, both);
  const bool plain = how == How::plain;
  const auto v = dropout(tape, x, 0.1f);
  const auto between = model.shared(tape, plain ? first(tape, v) : recompute(tape, v, first));
  return dropout(tape, plain ? second(tape, between) : recompute(tape, between, second), 0.1f);
}

using Bits = std::vector<std::byte>;
template <class T>
Bits bits_of_values(const T* values, std::int64_t count) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  return {bytes, bytes + static_cast<std::size_t>(count) * sizeof(T)};
}

/// Everything that a pass leaves behind: the result, and the gradients of the input and of every parameter.
template <class Policy>
std::vector<Bits> outcome(Session<Policy, Blocks>& session, How how, std::int64_t ballast = 0) {
  using T = typename Policy::compute_type;
  auto& tape = session.tape;
  session.parameters.clear_gradients();
  tape.begin(Pass::training, {5, 3});
  tape.template allocate<std::byte>({ballast});
  Watched<T> watched({rows, width}, random_numbers(rows * width, -1.0f, 1.0f));
  const auto x = watch(tape, watched);
  const auto y = forward(tape, session.model, x, how);
  const auto weights = random_numbers(rows * width, -1.0f, 1.0f, 9);
  // The input is used outside too.
  session.backward(total(tape, weighted_sum(tape, y, weights), weighted_sum(tape, x, weights)));
  std::vector<Bits> found{bits_of_values(y.data(), y.size()),
                          bits_of_values(watched.gradient.data(), rows * width)};
  for (int i = 0; i < static_cast<int>(session.parameters.infos().size()); ++i) {
    found.emplace_back();
    if (session.parameters.has_gradient()[static_cast<std::size_t>(i)] == 0) continue;
    const auto gradient = session.parameters.gradient(i);
    found.back() = bits_of_values(gradient.data(), gradient.size());
  }
  return found;
}

/// Tensors as an observer is shown them.
class Listener final : public TapeObserver {
 public:
  std::vector<std::string> seen;
  std::vector<Bits> values;
  void see(const Observation& observation) override {
    const auto number = [](const detail::GradientSlot* slot) {
      return slot == nullptr ? std::string("-") : std::to_string(slot->number);
    };
    seen.push_back(std::string(name_of(observation.place)) + " " + std::string(observation.operation) + " " +
                   number(observation.slot) + " " + number(observation.through) + " " +
                   std::to_string(observation.parameter) + " " + observation.shape.text());
    values.push_back(bits_of_values(static_cast<const std::byte*>(observation.data),
                                    observation.shape.size() * size_of(observation.dtype)));
  }
};

struct Tower {
  std::vector<Block> blocks;
  explicit Tower(std::size_t count) : blocks(count) {}
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("blocks", blocks);
  }
};

std::int64_t peak_of(std::size_t count, bool recomputes) {
  Session<Float32Policy, Tower> session{Tower(count)};
  Watched<float> watched({rows, width}, random_numbers(rows * width, -1.0f, 1.0f));
  auto h = watch(session.tape, watched);
  for (const Block& block : session.model.blocks) {
    const auto inside = [&block](auto& tape, const auto& x) { return block(tape, x); };
    h = recomputes ? recompute(session.tape, h, inside) : inside(session.tape, h);
  }
  session.backward(weighted_sum(session.tape, h, std::vector<float>(rows * width, 1.0f)));
  return static_cast<std::int64_t>(session.tape.peak_bytes());
}

}  // namespace recompute_test
using namespace recompute_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(a_block_computed_again_gives_the_bits_of_one_that_was_kept, Policy,
                              FloatAnd16Bits) {
  Session<Policy, Blocks> plain, again;
  const auto expected = outcome(plain, How::plain);
  for (const How how : {How::recomputed, How::nested}) {
    BOOST_TEST((outcome(again, how) == expected));  // from an arena that grows
    BOOST_TEST((outcome(again, how) == expected));  // from one that is warm
  }
  // The next pass draws other numbers, of which recomputing uses up none.
  plain.tape.begin(Pass::training, {5, 4});
  again.tape.begin(Pass::training, {5, 4});
  BOOST_TEST(plain.tape.next_random_stream().stream == again.tape.next_random_stream().stream);
}

BOOST_AUTO_TEST_CASE(results_that_lie_in_several_blocks_of_a_growing_arena_are_kept) {
  Session<Float32Policy, Blocks> plain;
  const auto expected = outcome(plain, How::plain);
  for (std::int64_t ballast = (1 << 20) - 16384; ballast <= 1 << 20; ballast += 768) {
    Session<Float32Policy, Blocks> again;
    BOOST_TEST((outcome(again, How::nested, ballast) == expected), "ballast " << ballast);
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_that_was_written_inside_is_kept_for_the_block_before) {
  const auto run = [](bool recomputes) {
    Session<BFloat16Policy, Blocks> session;
    Watched<bfloat16> watched({rows, width}, random_numbers(rows * width, -1.0f, 1.0f));
    const Blocks& model = session.model;
    // Small ones after large ones, whose inside is then computed over where the gradient was.
    const auto large = [&model](auto& tape, const auto& x) { return model.first(tape, x); };
    const auto small = [&model](auto& tape, const auto& x) { return gelu(tape, model.shared(tape, x)); };
    auto h = watch(session.tape, watched);
    for (int i = 0; i < 2; ++i) h = recomputes ? recompute(session.tape, h, large) : large(session.tape, h);
    for (int i = 0; i < 2; ++i) h = recomputes ? recompute(session.tape, h, small) : small(session.tape, h);
    session.backward(weighted_sum(session.tape, h, random_numbers(rows * width, -1.0f, 1.0f, 9)));
    return std::vector{floats(h.value()), watched.gradient, session.gradient("shared.weight")};
  };
  BOOST_TEST((run(true) == run(false)));
}

BOOST_AUTO_TEST_CASE(what_is_frozen_stays_without_a_gradient) {
  Blocks model;
  model.second.up.weight.frozen = true;
  visit_parameters(model.first, [](const std::string&, Parameter& parameter) { parameter.frozen = true; });
  Session<BFloat16Policy, Blocks> plain(model), again(model);
  const auto expected = outcome(plain, How::plain);
  BOOST_TEST((outcome(again, How::recomputed) == expected));
  BOOST_TEST((outcome(again, How::nested) == expected));
  BOOST_TEST((again.has_gradient("second.down.weight") && !again.has_gradient("second.up.weight")));
  BOOST_TEST(!again.has_gradient("first.down.weight"));

  // Over data, a frozen block records nothing.
  const auto data = random_numbers(rows * width, -1.0f, 1.0f);
  const auto y = recompute(again.tape, Tensor<const float>(data.data(), {rows, width}),
                           [&again](auto& tape, const auto& x) { return again.model.first(tape, x); });
  BOOST_TEST(!y.requires_gradient());
  BOOST_TEST((y.shape() == Shape{rows, width}));
}

BOOST_AUTO_TEST_CASE(a_block_more_costs_the_memory_of_its_result_and_no_more) {
  constexpr std::int64_t result = 512;  // of 384 bytes, aligned
  BOOST_TEST(peak_of(12, true) - peak_of(4, true) == 8 * result);
  BOOST_TEST(3 * peak_of(12, true) < peak_of(12, false));
}

BOOST_AUTO_TEST_CASE(an_observer_sees_the_same_tensors_in_the_same_order) {
  Session<BFloat16Policy, Blocks> plain, again;
  Listener expected;
  plain.tape.observe(&expected);
  outcome(plain, How::plain);
  for (const How how : {How::recomputed, How::nested}) {
    Listener listener;
    again.tape.observe(&listener);
    outcome(again, how);
    BOOST_TEST(listener.seen == expected.seen, boost::test_tools::per_element());
    BOOST_TEST((listener.values == expected.values));
    BOOST_TEST(again.tape.observe(nullptr) == &listener);
  }
}

BOOST_AUTO_TEST_CASE(the_function_runs_twice_in_training_and_once_in_inference) {
  Session<Float32Policy, Blocks> session;
  Watched<float> watched({rows, width}, random_numbers(rows * width, -1.0f, 1.0f));
  int runs = 0;
  const auto counted = [&runs, &session](auto& tape, const auto& x) {
    ++runs;
    return session.model.first(tape, x);
  };
  const auto y = recompute(session.tape, watch(session.tape, watched), counted);
  BOOST_TEST(runs == 1);
  session.backward(weighted_sum(session.tape, y, std::vector<float>(rows * width, 1.0f)));
  BOOST_TEST(runs == 2);
  session.tape.begin(Pass::inference);
  const auto x = watch(session.tape, watched);
  const auto inferred = floats(recompute(session.tape, x, counted).value());
  BOOST_TEST(runs == 3);
  BOOST_TEST(inferred == floats(session.model.first(session.tape, x).value()));
}

BOOST_AUTO_TEST_CASE(a_function_that_gives_its_input_back_is_its_input) {
  Session<Float32Policy> session;
  Watched<float> watched({2}, {1.0f, 2.0f});
  const auto x = watch(session.tape, watched);
  const auto same = recompute(session.tape, x, [](auto&, const auto& v) { return v; });
  BOOST_TEST((same.data() == x.data() && same.slot() == x.slot()));
  session.backward(weighted_sum(session.tape, same, {3.0f, 4.0f}));
  BOOST_TEST(watched.gradient == (std::vector<float>{3.0f, 4.0f}));
}

BOOST_AUTO_TEST_CASE(a_variable_from_outside_that_is_not_the_input_is_refused) {
  Session<Float32Policy> session;
  auto& tape = session.tape;
  Watched<float> first({2}, {1.0f, 2.0f}), second({2}, {3.0f, 4.0f});
  const auto a = watch(tape, first), b = watch(tape, second);
  const auto loss = weighted_sum(
      tape, recompute(tape, a, [b](auto& t, const auto& x) { return add(t, gelu(t, x), b); }), {1.0f, 1.0f});
  const auto text = refusal<ConfigurationError>([&] { session.backward(loss); });
  check_holds(text, {"recompute", "[2]", "input"});
  // The tape works on.
  tape.begin(Pass::training);
  const auto x = watch(tape, first);
  session.backward(weighted_sum(tape, recompute(tape, x, [](auto& t, const auto& v) { return add(t, v, v); }),
                                {1.0f, 2.0f}));
  BOOST_TEST(first.gradient == (std::vector<float>{2.0f, 4.0f}));
}

BOOST_AUTO_TEST_CASE(a_function_that_does_something_else_the_second_time_is_refused) {
  Session<Float32Policy> session;
  auto& tape = session.tape;
  // One operation less, one more, and one more whose result is not used.
  for (const int variant : {0, 1, 2}) {
    tape.begin(Pass::training);
    Watched<float> watched({2}, {1.0f, 2.0f});
    int runs = 0;
    const auto y = recompute(tape, watch(tape, watched), [&runs, variant](auto& t, const auto& x) {
      const auto once = gelu(t, x);
      const bool more = (++runs == 1) == (variant == 0);
      if (!more) return once;
      const auto twice = gelu(t, once);
      return variant == 2 ? once : twice;
    });
    const auto loss = weighted_sum(tape, y, {1.0f, 1.0f});
    const auto text = refusal<ConfigurationError>([&] { session.backward(loss); });
    check_holds(text, {"recompute", "same"});
  }
}

BOOST_AUTO_TEST_SUITE_END()
