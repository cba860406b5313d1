// Bad values planted at every tensor of the operations of language and image models are found where they were planted.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <halfstep/nn/attention.hpp>
#include <halfstep/nn/convolution.hpp>
#include <halfstep/nn/embedding.hpp>
#include <halfstep/nn/head_cross_entropy.hpp>
#include <halfstep/nn/layer_norm.hpp>
#include <halfstep/nn/mean_squared_error.hpp>
#include <halfstep/nn/pooling.hpp>
#include <halfstep/nn/rms_norm.hpp>
#include <halfstep/nn/rotary.hpp>
#include <halfstep/nn/swiglu.hpp>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/sanitizers.hpp"

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

/// The head that computes logits and loss together, over the embedding's own weight.
struct TiedModel {
  Embedding embedding{5, 8};
  Linear middle{8, 8};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("embedding", embedding);
    visit("middle", middle);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Text& text) const {
    return head_cross_entropy(tape, middle(tape, embedding(tape, text.read())), embedding.weight, text.wanted());
  }
};

struct Images {
  std::vector<float> pixels = std::vector<float>(2 * 6 * 6, 0.25f), wanted{0, 1, 1, 0};
  Tensor<const float> read() const { return {pixels.data(), {2, 6, 6, 1}}; }
  Tensor<const float> targets() const { return {wanted.data(), {2, 1, 1, 2}}; }
};

struct ImageModel {
  Convolution2d first{1, 3, 3}, second{3, 2, 1};

  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", first);
    visit("second", second);
  }
  template <class Tape>
  Loss loss(Tape& tape, const Images& images) const {
    const auto pooled = max_pool2d(tape, first(tape, images.read()), 2);
    return mean_squared_error(tape, average_pool2d(tape, second(tape, pooled), 2), images.targets());
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

  /// The pass begins anew.
  void restart() {
    tensors = 0;
    shown_.clear();
  }
  void see(const Observation& seen) override {
    // A parameter that is used again is the same tensor.
    if (seen.place == Place::parameter && !shown_.emplace(seen.parameter, seen.dtype).second) return;
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
  std::set<std::pair<int, DType>> shown_;
};

using EveryPolicy = std::tuple<Float32Policy, BFloat16Policy, Float16ScaledPolicy>;

/// Elements of each tensor in which bad values are planted: the first, the middle and the last, or one of them in turn.
constexpr int planted_each = test::under_sanitizers ? 1 : 3;

/// Plants bad values in every tensor of a step in turn, and looks at what the diagnosis names. Gives how many were planted
/// in each kind of tensor.
template <class Model, class Policy, class Batch>
std::map<Place, int> plant_everywhere(const Batch& clean) {
  const auto trainer_of = [] {
    return Trainer<Model, SGD, Policy>(Model{}, {.learning_rate = 1e-3f}, {.seed = 3});
  };
  std::int64_t count = 0;
  {
    auto trainer = trainer_of();
    Planter nothing(-1, 0, NonFinite::nan);
    detail::TrainerAccess::core(trainer).tape().observe(&nothing);
    BOOST_TEST_REQUIRE(trainer.step(clean).report().applied());
    count = nothing.tensors;
  }
  std::map<Place, int> planted;
  for (std::int64_t place = 0; place < 3 * count; ++place) {
    const std::int64_t position = place / 3;
    if (test::under_sanitizers && place % 3 != position % 3) continue;
    const Batch text = clean;  // bad values are planted in its data too
    const auto kind = static_cast<NonFinite>(1 + (position + place) % 3);
    auto trainer = trainer_of();
    auto& tape = detail::TrainerAccess::core(trainer).tape();
    Planter planter(position, static_cast<int>(place % 3), kind);
    tape.observe(&planter);
    trainer.step(text);
    if (!planter.found) continue;
    ++planted[planter.planted.place];
    planter.restart();
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
  return planted;
}

}  // namespace diagnose_operations_test

using namespace diagnose_operations_test;

BOOST_AUTO_TEST_CASE_TEMPLATE(a_bad_value_planted_in_a_language_model_is_the_one_that_is_named, Policy, EveryPolicy) {
  auto planted = plant_everywhere<LanguageModel, Policy>(Text());
  BOOST_TEST(planted[Place::activation] > 15 * planted_each);
  BOOST_TEST(planted[Place::activation_gradient] > 15 * planted_each);
  BOOST_TEST(planted[Place::parameter_gradient] == planted_each * 18);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(so_it_is_in_a_model_whose_head_computes_the_loss, Policy, EveryPolicy) {
  auto planted = plant_everywhere<TiedModel, Policy>(Text());
  BOOST_TEST(planted[Place::activation] >= planted_each * 3);
  BOOST_TEST(planted[Place::activation_gradient] >= planted_each * 3);
  BOOST_TEST(planted[Place::parameter_gradient] >= planted_each * 3);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(and_in_one_of_convolutions_and_pooling, Policy, EveryPolicy) {
  auto planted = plant_everywhere<ImageModel, Policy>(Images());
  BOOST_TEST(planted[Place::activation] >= planted_each * 5);
  BOOST_TEST(planted[Place::activation_gradient] >= planted_each * 5);
  BOOST_TEST(planted[Place::parameter_gradient] == planted_each * 4);
}

BOOST_AUTO_TEST_SUITE_END()
