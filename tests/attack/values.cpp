// Every kind of number in every input, parameter and gradient, under every policy. Whatever it is, a window
// ends in one of two ways: it is applied and all weights are finite, or it is not and every bit stays.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <functional>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/classifier.hpp"
#include "support/sanitizers.hpp"

BOOST_AUTO_TEST_SUITE(values_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

float of_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

constexpr float largest = (std::numeric_limits<float>::max)();

std::vector<float> harmless_values() {
  return {0.0f, -0.0f, of_bits(1), -of_bits(1), of_bits(0x7fffff), 0x1p-126f, -0x1p-126f, 0x1p-24f, 0x1p-25f};
}
/// Finite in float; some overflow a narrower type, or what is computed from them.
std::vector<float> large_values() {
  return {65504.0f, 65520.0f, -1e10f, 1e19f, -1e20f, 1e30f, largest, -largest};
}
/// Infinities, and NaNs of both signs with every single payload bit and all of them.
std::vector<float> bad_values() {
  std::vector<float> values;
  for (const std::uint32_t sign : {0x7f800000u, 0xff800000u}) {
    values.push_back(of_bits(sign));
    for (int bit = 0; bit < 23; ++bit) values.push_back(of_bits(sign | (1u << bit)));
    values.push_back(of_bits(sign | 0x7fffffu));
  }
  return values;
}

using Policies = std::tuple<Float32Policy, BFloat16Policy, Float16ScaledPolicy>;

template <class T>
struct PoisonBackward;

/// Between the layers: puts a given pattern of bits in place of one activation, or of one activation's
/// gradient.
struct Poison {
  enum Where { nowhere, in_value, in_gradient } where = nowhere;
  std::uint32_t bits = 0;

  template <class T>
  T value() const {
    if constexpr (std::is_same_v<T, float>)
      return of_bits(bits);
    else
      return T::from_bits(static_cast<std::uint16_t>(bits));
  }

  template <class Tape, class T>
  Variable<T> operator()(Tape& tape, const Variable<T>& input) const {
    const Tensor<T> result = tape.template allocate<T>(input.shape());
    for (std::int64_t i = 0; i < input.size(); ++i) result[i] = input.data()[i];
    if (where == in_value) result[2] = value<T>();
    return tape.record(operation::Activation{}, result, true, PoisonBackward<T>{input, *this});
  }
};

template <class T>
struct PoisonBackward {
  Variable<T> input;
  Poison poison;
  template <class Tape>
  void operator()(Tape& tape, Tensor<const T> gradient) const {
    const auto target = tape.gradient_target(input);
    for (std::int64_t i = 0; i < input.size(); ++i) target.data[i] = gradient[i];
    if (poison.where == Poison::in_gradient) target.data[2] = poison.value<T>();
  }
};

struct Poisoned : Classifier {
  Poisoned() : Classifier(3, 4, 3) {}
  template <class Tape>
  Loss loss(Tape& tape, const Points& points) const {
    return cross_entropy(tape, output(tape, poison(tape, gelu(tape, hidden(tape, points.images())))),
                         points.targets());
  }
  Poison poison;
};

/// A trainer in which something is out of the ordinary, whatever its policy.
struct Attack {
  virtual ~Attack() = default;

  virtual void accumulate() = 0;
  virtual StepReport update() = 0;
  virtual std::vector<float> read(const std::string& parameter) = 0;
  virtual void write(const std::string& parameter, const std::vector<float>& values) = 0;
  virtual float* gradient(int parameter) = 0;
  virtual Poison& poison() = 0;
  /// Masters and moments, one after the other.
  virtual std::vector<float> numbers() = 0;
  virtual std::vector<std::uint16_t> working_copy() = 0;

  /// Ends the window. What was finite is finite; what was not applied has kept every bit.
  StepReport end_window() {
    const auto before = numbers();
    const auto copy_before = working_copy();
    const StepReport report = update();
    const auto after = numbers();
    applied = report.applied();
    if (applied) {
      bool finite = is_finite(report.loss);
      for (std::size_t i = 0; i < before.size() / 3; ++i) {
        finite = finite && (is_finite(after[i]) || !is_finite(before[i]));
      }
      BOOST_REQUIRE(finite);
    } else {
      BOOST_REQUIRE(report.outcome == Outcome::skipped);
      BOOST_REQUIRE(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)) == 0);
      BOOST_REQUIRE(working_copy() == copy_before);
    }
    return report;
  }

  Points points{2, 3, 3};
  bool applied = false;
};

template <class Policy>
struct AttackUnder final : Attack {
  explicit AttackUnder(float clip_norm)
      : trainer{Poisoned{}, {.learning_rate = 0.01}, {.clip_norm = clip_norm, .seed = 3}} {
    trainer.step(points);
  }

  void accumulate() override { trainer.accumulate(points); }
  StepReport update() override { return trainer.update().report(); }
  std::vector<float> read(const std::string& parameter) override { return trainer.read_parameter(parameter); }
  void write(const std::string& parameter, const std::vector<float>& values) override {
    trainer.write_parameter(parameter, values);
  }
  float* gradient(int parameter) override { return core().store().gradient(parameter).data(); }
  Poison& poison() override { return trainer.model().poison; }
  std::vector<float> numbers() override {
    const std::int64_t size = core().store().size();
    std::vector<float> all;
    for (const float* buffer : {core().store().masters(), core().moment(0).data(), core().moment(1).data()}) {
      all.insert(all.end(), buffer, buffer + size);
    }
    return all;
  }
  std::vector<std::uint16_t> working_copy() override {
    std::vector<std::uint16_t> copy;
    if constexpr (!std::is_same_v<typename Policy::compute_type, float>) {
      const auto* data = core().store().working();
      for (std::int64_t i = 0; i < core().store().size(); ++i) copy.push_back(data[i].bits());
    }
    return copy;
  }

  auto& core() { return halfstep::detail::TrainerAccess::core(trainer); }

  Trainer<Poisoned, AdamW, Policy> trainer;
};

using NewAttack = std::unique_ptr<Attack>(float clip_norm);

template <class Policy>
std::unique_ptr<Attack> under(float clip_norm) {
  return std::make_unique<AttackUnder<Policy>>(clip_norm);
}

constexpr float no_clip = std::numeric_limits<float>::infinity();

enum class Target { input, parameter, gradient };

/// Puts each value at each place of the target, ends the window, and lets `check` look at it. The trainer is
/// a new one for each tensor and after every window that was applied. Under sanitizers a place gets every
/// fourth value in turn.
void everywhere(NewAttack* new_attack, Target target, const std::vector<float>& values, float clip_norm,
                const std::function<void(Attack&, const StepReport&, float value, const std::string& name,
                                         std::int64_t index)>& check) {
  const auto try_all = [&](int parameter, const std::string& name, std::int64_t size) {
    std::unique_ptr<Attack> attack;
    for (std::int64_t index = 0; index < size; ++index) {
      const std::size_t step = under_sanitizers ? 4 : 1;
      for (std::size_t turn = static_cast<std::size_t>(index) % step; turn < values.size(); turn += step) {
        const float value = values[turn];
        if (!attack || attack->applied) attack = new_attack(clip_norm);
        const Points ordinary = attack->points;
        std::vector<float> weights;
        if (target == Target::input) attack->points.inputs[static_cast<std::size_t>(index)] = value;
        if (target == Target::parameter) {
          weights = attack->read(name);
          auto attacked = weights;
          attacked[static_cast<std::size_t>(index)] = value;
          attack->write(name, attacked);
        }
        attack->accumulate();
        if (target == Target::gradient) attack->gradient(parameter)[index] = value;
        check(*attack, attack->end_window(), value, name, index);
        attack->points = ordinary;
        if (!weights.empty()) attack->write(name, weights);
      }
    }
  };
  if (target == Target::input) return try_all(-1, "", 6);
  const std::vector<std::pair<std::string, std::int64_t>> parameters{
      {"hidden.weight", 12}, {"hidden.bias", 4}, {"output.weight", 12}, {"output.bias", 3}};
  for (int p = 0; p < 4; ++p) {
    const auto& [name, size] = parameters[static_cast<std::size_t>(p)];
    try_all(p, name, size);
  }
}

using Text = std::string;

void may_be_either(Attack&, const StepReport&, float, const Text&, std::int64_t) {}

void must_be_applied(Attack&, const StepReport& report, float, const Text&, std::int64_t) {
  BOOST_REQUIRE(report.applied());
}

void must_be_applied_and_leave_finite_moments(Attack& attack, const StepReport& report, float, const Text&,
                                              std::int64_t) {
  BOOST_REQUIRE(report.applied());
  bool finite = true;
  for (const float number : attack.numbers()) finite = finite && is_finite(number);
  BOOST_REQUIRE(finite);
}

void must_not_be_applied_with_a_nan(Attack&, const StepReport& report, float value, const Text&,
                                    std::int64_t) {
  BOOST_REQUIRE(!(report.applied() && is_nan(value)));
}

void must_be_named(Attack&, const StepReport& report, float, const Text& name, std::int64_t index) {
  BOOST_REQUIRE(report.skip_cause == SkipCause::gradient);
  BOOST_REQUIRE(report.first_non_finite.tensor == name);
  BOOST_REQUIRE(report.first_non_finite.index == index);
}

/// Each of these patterns of bits between the layers, forwards and backwards. Now and then there is none, for
/// a trainer stops where nothing else comes.
void between_layers(Attack& attack, const std::vector<std::uint32_t>& patterns) {
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    for (const Poison::Where where : {Poison::in_value, Poison::in_gradient}) {
      attack.poison() = {where, patterns[i]};
      attack.accumulate();
      BOOST_REQUIRE(!attack.end_window().applied());
    }
    if (i % 400 != 0 && i + 1 != patterns.size()) continue;
    attack.poison() = {};
    attack.accumulate();
    BOOST_REQUIRE(attack.end_window().applied());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(zeros_and_subnormals_are_numbers_like_others, Policy, Policies) {
  for (const Target target : {Target::input, Target::parameter, Target::gradient}) {
    everywhere(under<Policy>, target, harmless_values(), no_clip, must_be_applied);
  }
}

// An infinite weight or input may do no more than mask a class, whose loss is finite; a NaN never does.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_nan_in_an_input_or_a_weight_leaves_every_bit, Policy, Policies) {
  for (const Target target : {Target::input, Target::parameter}) {
    everywhere(under<Policy>, target, bad_values(), no_clip, must_not_be_applied_with_a_nan);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_bad_gradient_leaves_every_bit_and_is_named_whatever_its_own, Policy,
                              Policies) {
  everywhere(under<Policy>, Target::gradient, bad_values(), 1.0f, must_be_named);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_is_too_large_is_skipped_or_leaves_finite_weights, Policy, Policies) {
  for (const Target target : {Target::input, Target::parameter}) {
    everywhere(under<Policy>, target, large_values(), no_clip, may_be_either);
  }
  // A finite gradient is a gradient: it is applied, however large. Clipped, its square cannot overflow Adam's
  // second moment either.
  everywhere(under<Policy>, Target::gradient, large_values(), no_clip, must_be_applied);
  everywhere(under<Policy>, Target::gradient, large_values(), 1.0f, must_be_applied_and_leave_finite_moments);
}

// Every NaN that a 16-bit type has, and a sample of float's, between two layers: forwards and backwards.
BOOST_AUTO_TEST_CASE_TEMPLATE(every_nan_of_the_compute_type_is_seen, Policy, Policies) {
  using T = typename Policy::compute_type;
  std::vector<std::uint32_t> patterns;
  if constexpr (std::is_same_v<T, float>) {
    for (const float value : bad_values()) {
      if (is_nan(value)) patterns.push_back(__builtin_bit_cast(std::uint32_t, value));
    }
    BOOST_TEST(patterns.size() == 48U);
  } else {
    for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
      if (is_nan(T::from_bits(static_cast<std::uint16_t>(bits)))) patterns.push_back(bits);
    }
    BOOST_TEST(patterns.size() == (std::is_same_v<T, float16> ? 2046U : 254U));
    if (under_sanitizers) patterns.resize(100);
  }
  between_layers(*under<Policy>(no_clip), patterns);
}

BOOST_AUTO_TEST_SUITE_END()
