// Bad values planted at every tensor of the operations of language models are found where they were planted.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <halfstep/nn/attention.hpp>
#include <halfstep/nn/embedding.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <halfstep/nn/rms_norm.hpp>
#include <halfstep/nn/rotary.hpp>
#include <halfstep/nn/swiglu.hpp>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

BOOST_AUTO_TEST_SUITE(diagnose_operations_tests)

using namespace halfstep;

namespace diagnose_operations_test {

struct Text {
  std::vector<std::int32_t> tokens{0, 3, 1, 4, 2, 3}, next{3, 1, 4, 2, 3, 0};
  Tensor<const std::int32_t> read() const { return {tokens.data(), {2, 3}}; }
  Tensor<const std::int32_t> wanted() const { return {next.data(), {2, 3}}; }
};

struct LanguageModel {
  Embedding embedding{5, 8};
  Linear query{8, 8}, key{8, 8}, value{8, 8}, gate{8, 6}, up{8, 6}, down{6, 8}, head{8, 5};
  LayerNorm norm{8};
  RmsNorm last_norm{8};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("embedding", embedding);
    visit("query", query);
    visit("key", key);
    visit("value", value);
    visit("norm", norm);
    visit("gate", gate);
    visit("up", up);
    visit("down", down);
    visit("last_norm", last_norm);
    visit("head", head);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Text& text) const {
    const auto x = embedding(tape, text.read());
    const RotaryOptions turn{.head_width = 4};
    const auto attended = attention(tape, rotary(tape, query(tape, x), turn), rotary(tape, key(tape, x), turn),
                                    value(tape, x), {.heads = 2});
    const auto [sum, normed] = norm.add(tape, x, attended);
    const auto y = add(tape, sum, down(tape, swiglu(tape, gate(tape, normed), up(tape, normed))));
    return cross_entropy(tape, head(tape, last_norm(tape, silu(tape, y))), text.wanted());
  }
};

/// Writes one bad value into the tensor at a place in the order of each pass.
class Planter final : public TapeObserver {
 public:
  /// `third` is 0 for the first element, 1 for the middle one, 2 for the last.
  Planter(std::int64_t position, int third, NonFinite kind) : position_(position), third_(third), kind_(kind) {}
  Observation planted;
  std::int64_t tensors = 0, element = 0;
  bool found = false;

  void see(const Observation& seen) override {
    if (tensors++ != position_ || seen.place == Place::parameter) return;
    found = true;
    planted = seen;
    element = third_ == 2 ? seen.shape.size() - 1 : third_ * (seen.shape.size() / 2);
    with_floating_type(seen.dtype, seen.data, [&]<class T>(const T* values) {
      if constexpr (!std::is_same_v<T, double>) {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        const_cast<T*>(values)[element] = T(kind_ == NonFinite::nan ? std::numeric_limits<float>::quiet_NaN()
                                            : kind_ == NonFinite::positive_infinity ? infinity
                                                                                    : -infinity);
      }
    });
  }

 private:
  std::int64_t position_;
  int third_;
  NonFinite kind_;
};

using EveryPolicy = std::tuple<Float32Policy, BFloat16Policy, Float16ScaledPolicy>;

}  // namespace diagnose_operations_test

using namespace diagnose_operations_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(a_bad_value_planted_in_a_language_model_is_the_one_that_is_named, Policy, EveryPolicy) {
  const Text text;
  const auto trainer_of = [] {
    return Trainer<LanguageModel, SGD, Policy>(LanguageModel{}, {.learning_rate = 1e-3f}, {.seed = 3});
  };
  std::int64_t count = 0;
  {
    auto trainer = trainer_of();
    Planter nothing(-1, 0, NonFinite::nan);
    detail::TrainerAccess::core(trainer).tape().observe(&nothing);
    BOOST_TEST_REQUIRE(trainer.step(text).report().applied());
    count = nothing.tensors;
  }
  std::map<Place, int> planted;
  for (std::int64_t place = 0; place < 3 * count; ++place) {
    const std::int64_t position = place / 3;
    const auto kind = static_cast<NonFinite>(1 + (position + place) % 3);
    auto trainer = trainer_of();
    auto& tape = detail::TrainerAccess::core(trainer).tape();
    Planter planter(position, static_cast<int>(place % 3), kind);
    tape.observe(&planter);
    trainer.step(text);
    if (!planter.found) continue;
    ++planted[planter.planted.place];
    planter.tensors = 0;
    const Diagnosis diagnosis = trainer.diagnose(text);
    tape.observe(nullptr);
    BOOST_TEST_INFO_SCOPE("tensor " << position << " is " << name_of(kind) << "\n" << diagnosis.text());
    BOOST_TEST_REQUIRE(diagnosis.first.has_value());
    const TensorEvidence& first = *diagnosis.first;
    BOOST_TEST(first.position == position);
    BOOST_TEST((first.dtype == planter.planted.dtype && first.shape == planter.planted.shape));
    BOOST_TEST(first.statistics.first_non_finite == planter.element);
    BOOST_TEST((first.statistics.kind == kind));
    BOOST_TEST(first.statistics.non_finite == 1);
  }
  BOOST_TEST(planted[Place::activation] > 45);
  BOOST_TEST(planted[Place::activation_gradient] > 45);
  BOOST_TEST(planted[Place::parameter_gradient] == 3 * 18);
}

BOOST_AUTO_TEST_SUITE_END()
