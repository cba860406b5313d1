// Bad values planted at every tensor of the operations of language and image models are found where they were planted.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/halfstep.hpp>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "evidence/diagnosed_models.hpp"
#include "support/each_policy.hpp"

BOOST_AUTO_TEST_SUITE(diagnose_operations_tests)

using namespace halfstep;
using namespace halfstep::test;
using namespace halfstep::test::diagnosed;

namespace diagnose_operations_test {

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

/// Elements of each tensor in which bad values are planted: the first, the middle and the last.
constexpr int planted_each = 3;

/// Plants bad values in every tensor of a step in turn, and looks at what the diagnosis names. Gives how many were planted
/// in each kind of tensor.
template <class Policy, class Batch>
std::map<Place, int> plant_everywhere(const DiagnosedModel& model, const Batch& clean) {
  const auto trainer_of = [&] { return DiagnosedTrainer<Policy>(model, {.learning_rate = 1e-3f}, {.seed = 3}); };
  std::int64_t count = 0;
  {
    auto trainer = trainer_of();
    Planter nothing(-1, 0, NonFinite::nan);
    detail::TrainerAccess::core(trainer).tape().observe(&nothing);
    BOOST_TEST_REQUIRE(trainer.step(clean).report().applied());
    count = nothing.tensors;
  }
  std::map<Place, int> planted;
  for (std::int64_t place = 0; place < planted_each * count; ++place) {
    const std::int64_t position = place / planted_each;
    const Batch text = clean;  // bad values are planted in its data too
    const auto kind = static_cast<NonFinite>(1 + (position + place) % 3);
    auto trainer = trainer_of();
    auto& tape = detail::TrainerAccess::core(trainer).tape();
    Planter planter(position, static_cast<int>(place % planted_each), kind);
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

BOOST_AUTO_TEST_CASE(a_bad_value_planted_in_a_language_model_is_the_one_that_is_named) {
  under_each<Float32Policy, HalfPolicy, BFloat16Policy>([]<class Policy>(Policy) {
    auto planted = plant_everywhere<Policy>(LanguageModel(), Text());
    BOOST_TEST(planted[Place::activation] > 15 * planted_each);
    BOOST_TEST(planted[Place::activation_gradient] > 15 * planted_each);
    BOOST_TEST(planted[Place::parameter_gradient] == planted_each * 18);
  });
}

BOOST_AUTO_TEST_CASE(so_it_is_in_a_model_whose_head_computes_the_loss) {
  under_each<Float32Policy, HalfPolicy, BFloat16Policy>([]<class Policy>(Policy) {
    auto planted = plant_everywhere<Policy>(TiedModel(), Text());
    BOOST_TEST(planted[Place::activation] >= planted_each * 3);
    BOOST_TEST(planted[Place::activation_gradient] >= planted_each * 3);
    BOOST_TEST(planted[Place::parameter_gradient] >= planted_each * 3);
  });
}

BOOST_AUTO_TEST_CASE(and_in_one_of_convolutions_and_pooling) {
  under_each<Float32Policy, HalfPolicy, BFloat16Policy>([]<class Policy>(Policy) {
    auto planted = plant_everywhere<Policy>(ImageModel(), Images());
    BOOST_TEST(planted[Place::activation] >= planted_each * 5);
    BOOST_TEST(planted[Place::activation_gradient] >= planted_each * 5);
    BOOST_TEST(planted[Place::parameter_gradient] == planted_each * 4);
  });
}

BOOST_AUTO_TEST_SUITE_END()
