#include <boost/test/unit_test.hpp>
#include <halfstep/policy.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(policy_tests)

using namespace halfstep;

namespace {

template <class T, class U>
inline constexpr bool same = std::is_same_v<T, U>;

// The table of the policies.
static_assert(PrecisionPolicy<Float32Policy> && PrecisionPolicy<BFloat16Policy> &&
              PrecisionPolicy<Float16ScaledPolicy>);
static_assert(same<Float32Policy::compute_type, float> && same<BFloat16Policy::compute_type, bfloat16> &&
              same<Float16ScaledPolicy::compute_type, float16>);
static_assert(same<Float32Policy::storage_type, float> && same<BFloat16Policy::storage_type, float> &&
              same<Float16ScaledPolicy::storage_type, float>);
static_assert(same<Float32Policy::accumulator_type, float> && same<BFloat16Policy::accumulator_type, float> &&
              same<Float16ScaledPolicy::accumulator_type, float>);
static_assert(same<Float32Policy::on_skip, HoldSchedule> && same<BFloat16Policy::on_skip, HoldSchedule> &&
              same<Float16ScaledPolicy::on_skip, HoldSchedule>);
static_assert(same<decltype(Float32Policy::scaler), const NoScaler> &&
              same<decltype(BFloat16Policy::scaler), const NoScaler> &&
              same<decltype(Float16ScaledPolicy::scaler), const DynamicScaler>);
static_assert(Float16ScaledPolicy::scaler.initial_scale == 65536 &&
              Float16ScaledPolicy::scaler.growth_factor == 2 &&
              Float16ScaledPolicy::scaler.backoff_factor == 0.5 &&
              Float16ScaledPolicy::scaler.growth_interval == 2000 &&
              Float16ScaledPolicy::scaler.hysteresis == 1);
static_assert(Float32Policy::name == "float32" && BFloat16Policy::name == "bfloat16" &&
              Float16ScaledPolicy::name == "float16");


// TensorFloat32Policy is Float32Policy in every type; a policy without the member allows nothing.
static_assert(PrecisionPolicy<TensorFloat32Policy> && TensorFloat32Policy::name == "tensorfloat32");
static_assert(same<TensorFloat32Policy::compute_type, float> && same<TensorFloat32Policy::storage_type, float> &&
              same<decltype(TensorFloat32Policy::scaler), const NoScaler>);
static_assert(uses_tensor_float32<TensorFloat32Policy> && !uses_tensor_float32<Float32Policy> &&
              !uses_tensor_float32<BFloat16Policy> && !uses_tensor_float32<Float16ScaledPolicy>);
struct TrueFloatAgain : TensorFloat32Policy {
  static constexpr bool tensor_float32 = false;
};
static_assert(!uses_tensor_float32<TrueFloatAgain>);

// What each operation computes in, where the policy does not say.
template <class Policy>
constexpr bool has_the_usual_types() {
  using Compute = typename Policy::compute_type;
  return same<operation_type<Policy, operation::Matmul>, Compute> &&
         same<operation_type<Policy, operation::Relu>, Compute> &&
         same<operation_type<Policy, operation::Gelu>, Compute> &&
         same<operation_type<Policy, operation::Softmax>, float> &&
         same<operation_type<Policy, operation::Normalization>, float> &&
         same<operation_type<Policy, operation::Loss>, float>;
}
static_assert(has_the_usual_types<Float32Policy>() && has_the_usual_types<BFloat16Policy>() &&
              has_the_usual_types<Float16ScaledPolicy>());

// An operation of a user's that belongs to a group, and one that belongs to none.
struct Swish : operation::Activation {};
struct Lookup {};
static_assert(same<operation_type<BFloat16Policy, Swish>, bfloat16>);
static_assert(same<operation_type<BFloat16Policy, Lookup>, float>);

struct GeluInFloat : BFloat16Policy {
  using in_float = operation::List<operation::Gelu>;
};
static_assert(same<operation_type<GeluInFloat, operation::Gelu>, float>);
static_assert(same<operation_type<GeluInFloat, operation::Relu>, bfloat16>);

struct ActivationsInFloat : BFloat16Policy {
  using in_float = operation::List<operation::Activation>;
};
static_assert(same<operation_type<ActivationsInFloat, operation::Gelu>, float>);
static_assert(same<operation_type<ActivationsInFloat, Swish>, float>);
static_assert(same<operation_type<ActivationsInFloat, operation::Matmul>, bfloat16>);

struct SoftmaxIn16Bits : BFloat16Policy {
  using in_compute_type = operation::List<operation::Softmax, operation::Loss, Lookup>;
};
static_assert(same<operation_type<SoftmaxIn16Bits, operation::Softmax>, bfloat16>);
static_assert(same<operation_type<SoftmaxIn16Bits, Lookup>, bfloat16>);
static_assert(same<operation_type<SoftmaxIn16Bits, operation::Normalization>, float>);
static_assert(same<operation_type<SoftmaxIn16Bits, operation::Loss>, float>);  // a loss is float always

struct BothLists : BFloat16Policy {
  using in_float = operation::List<operation::Gelu>;
  using in_compute_type = operation::List<operation::Gelu>;
};
static_assert(same<operation_type<BothLists, operation::Gelu>, float>);  // in doubt the exact type

// Policies derived from those of the library.
struct Cautious : Float16ScaledPolicy {
  static constexpr std::string_view name = "cautious";
  static constexpr DynamicScaler scaler{.initial_scale = 1024, .growth_interval = 500, .hysteresis = 2};
  using on_skip = AdvanceSchedule;
  static constexpr std::int64_t stop_after_skips = 0;
};
struct Fixed : Float16ScaledPolicy {
  static constexpr StaticScaler scaler{.scale = 128};
};
struct ScaledBFloat16 : BFloat16Policy {
  static constexpr StaticScaler scaler{.scale = 8};
};
static_assert(PrecisionPolicy<Cautious> && PrecisionPolicy<Fixed> && PrecisionPolicy<ScaledBFloat16>);
static_assert(rule::Explain<Cautious>::holds && rule::Explain<Fixed>::holds &&
              rule::Explain<ScaledBFloat16>::holds);

// Each rule by itself, broken.
struct Unscaled16 : Float16ScaledPolicy {
  static constexpr NoScaler scaler{};
};
/// What counts is that nothing is scaled, not the type's name.
struct ScalesNothing : NoScaler {
  static constexpr const char* name = "ScalesNothing";
};
struct Unscaled16ByAnotherName : Float16ScaledPolicy {
  static constexpr ScalesNothing scaler{};
};
struct HalfMasters : Float16ScaledPolicy {
  using storage_type = float16;
};
struct HalfMastersUnscaled : BFloat16Policy {
  using storage_type = bfloat16;
};
struct HalfSums : BFloat16Policy {
  using accumulator_type = bfloat16;
};
struct InDouble : Float32Policy {
  using compute_type = double;
};
struct Backwards : Float32Policy {
  struct on_skip {
    static constexpr std::int64_t positions_on_skip = -1;
  };
};
struct NumberForScaler : Float16ScaledPolicy {
  static constexpr float scaler = 65536;
};
struct Shrinking : Float16ScaledPolicy {
  static constexpr DynamicScaler scaler{.growth_factor = 1.0};
};
struct Growing : Float16ScaledPolicy {
  static constexpr DynamicScaler scaler{.backoff_factor = 1.0};
};
struct UpsideDown : Float16ScaledPolicy {
  static constexpr DynamicScaler scaler{.initial_scale = 4, .minimum_scale = 8, .maximum_scale = 2};
};
struct NotANumber : Float16ScaledPolicy {
  static constexpr StaticScaler scaler{.scale = std::numeric_limits<float>::quiet_NaN()};
};
struct NotConstant : Float16ScaledPolicy {
  static inline DynamicScaler scaler{};
};
static_assert(!PrecisionPolicy<Unscaled16> && !PrecisionPolicy<Unscaled16ByAnotherName> && !PrecisionPolicy<HalfMasters> &&
              !PrecisionPolicy<HalfMastersUnscaled> && !PrecisionPolicy<HalfSums> &&
              !PrecisionPolicy<InDouble> && !PrecisionPolicy<Backwards> &&
              !PrecisionPolicy<NumberForScaler> && !PrecisionPolicy<Shrinking> && !PrecisionPolicy<Growing> &&
              !PrecisionPolicy<UpsideDown> && !PrecisionPolicy<NotANumber> && !PrecisionPolicy<NotConstant> &&
              !PrecisionPolicy<int>);

}  // namespace

BOOST_AUTO_TEST_CASE(names_are_for_people) {
  BOOST_TEST(std::string(Float32Policy::name) == "float32");
  BOOST_TEST(std::string(Cautious::name) == "cautious");
}

BOOST_AUTO_TEST_SUITE_END()
