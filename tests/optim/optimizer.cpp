#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/optim/adam.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/optimizer.hpp>
#include <halfstep/optim/sgd.hpp>
#include <string>
#include <type_traits>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(optimizer_tests)

using namespace halfstep;
using test::check_is;

namespace {

struct Falling {
  float operator()(std::int64_t position) const { return 1 - static_cast<float>(position) / 10; }
};

static_assert(Optimizer<SGD> && Optimizer<Adam> && Optimizer<AdamW> && Optimizer<BasicAdamW<Falling>>);
static_assert(!Optimizer<Falling> && !Optimizer<int>);
static_assert(SGD::moments == 1 && Adam::moments == 2 && AdamW::moments == 2);

/// Signs only: an optimizer of a user's own, without moments.
struct SignDescent {
  static constexpr const char* name = "SignDescent";
  static constexpr int moments = 0;
  static constexpr std::array<const char*, 0> moment_names{};
  Schedule learning_rate = 1e-3;
  struct Coefficients {
    float rate;
  };
  Coefficients coefficients(float rate, std::int64_t) const { return {rate}; }
  static void update(float& weight, float gradient, const Coefficients& c, const ParameterOptions&) {
    weight -= gradient > 0 ? c.rate : -c.rate;
  }
  void validate() const {}
};
static_assert(Optimizer<SignDescent>);

// The type of the schedule is deduced; numbers become the library's own.
static_assert(std::is_same_v<decltype(BasicAdamW{Falling{}}), BasicAdamW<Falling>>);
static_assert(std::is_same_v<decltype(BasicAdam{Falling{}}), BasicAdam<Falling>>);
static_assert(std::is_same_v<decltype(BasicSGD{Falling{}}), BasicSGD<Falling>>);
static_assert(std::is_same_v<decltype(BasicSGD{0.1}), SGD>);
static_assert(std::is_same_v<decltype(BasicSGD{SGD{}}), SGD>);

template <class O>
std::string refusal(const O& optimizer) {
  try {
    optimizer.validate();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

BOOST_AUTO_TEST_CASE(options_read_as_in_the_front_page_program) {
  const AdamW scheduled{.learning_rate = warmup_cosine(1e-3f, 100, 2000)};
  const AdamW fixed{.learning_rate = 0.00047f};
  const BasicAdamW<Falling> own{.learning_rate = Falling{}, .weight_decay = 0};
  BOOST_TEST(scheduled.learning_rate(100) == 1e-3f);
  BOOST_TEST(fixed.learning_rate(3) == 0.00047f);
  BOOST_TEST(own.learning_rate(1) == 0.9f);
  check_is(refusal(scheduled), "accepted");
  check_is(refusal(fixed), "accepted");
  check_is(refusal(own), "accepted");
}

BOOST_AUTO_TEST_CASE(a_schedule_of_the_users_is_asked_for_its_first_rate) {
  const auto bad = [](std::int64_t position) { return static_cast<float>(position) - 2.0f; };
  check_is(refusal(BasicSGD{bad}),
           "SGD: learning_rate(0) is -2; a learning rate must be finite and not negative.");
}

BOOST_AUTO_TEST_CASE(without_a_learning_rate_named_there_is_pytorchs_default_or_the_schedules_own) {
  BOOST_TEST(AdamW{}.learning_rate(7) == 1e-3f);
  BOOST_TEST(Adam{}.learning_rate(7) == 1e-3f);
  BOOST_TEST(SGD{}.learning_rate(7) == 1e-3f);
  BOOST_TEST(BasicAdamW<Falling>{}.learning_rate(1) == 0.9f);
  const float peak = 0.5f;
  const auto captures = [peak](std::int64_t position) { return peak / static_cast<float>(position + 1); };
  static_assert(
      std::is_default_constructible_v<BasicAdamW<std::remove_const_t<decltype(captures)>>>);  // asking is no
                                                                                              // error
  BOOST_CHECK_THROW(static_cast<void>(BasicAdamW<std::remove_const_t<decltype(captures)>>{}),
                    ConfigurationError);
}

BOOST_AUTO_TEST_CASE(factors_of_one_parameter_are_checked_and_named_after_it) {
  const auto message = [](const ParameterOptions& options) {
    try {
      validate(options, "hidden.weight");
    } catch (const ConfigurationError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  BOOST_TEST(message({}) == "accepted");
  BOOST_TEST(message({0, 0}) == "accepted");
  BOOST_TEST(message({-1, 1}) ==
             "hidden.weight: learning_rate_factor is -1; a factor must be finite and not negative.");
  BOOST_TEST(message({1, -0.5f}) ==
             "hidden.weight: weight_decay_factor is -0.5; a factor must be finite and not negative.");
}

BOOST_AUTO_TEST_SUITE_END()
