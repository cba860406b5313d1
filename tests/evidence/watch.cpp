#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/evidence/watch.hpp>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(watch_tests)

using namespace halfstep;

namespace {

/// A run told window by window.
struct Run {
  explicit Run(WatchOptions options = {}) : watch(options) { report.scale = report.next_scale = 65536; }

  std::vector<Advice> applied(double norm = 1.0) {
    report.outcome = Outcome::applied;
    report.skip_cause = SkipCause::none;
    report.scale_change = ScaleChange::unchanged;
    report.scale = report.next_scale;
    report.gradient_norm = norm;
    report.skipped_in_a_row = 0;
    ++report.update_number;
    return seen();
  }
  std::vector<Advice> overflow(ScaleChange change = ScaleChange::backed_off) {
    report.outcome = Outcome::skipped;
    report.skip_cause = SkipCause::gradient;
    report.scale_change = change;
    report.scale = report.next_scale;
    if (change == ScaleChange::backed_off) report.next_scale /= 2;
    report.gradient_norm = std::numeric_limits<double>::infinity();
    report.first_non_finite = {"head.weight", 12};
    ++report.skipped_in_a_row;
    return seen();
  }
  std::vector<Advice> bad_loss() {
    report.outcome = Outcome::skipped;
    report.skip_cause = SkipCause::loss;
    report.scale_change = ScaleChange::unchanged;
    report.scale = report.next_scale;
    report.loss = std::numeric_limits<double>::infinity();
    ++report.skipped_in_a_row;
    return seen();
  }
  std::vector<Advice> seen() {
    ++report.attempts;
    return watch.see(report);
  }

  Watch watch;
  StepReport report;
};

std::vector<Sign> signs(const std::vector<Advice>& advice) {
  std::vector<Sign> result;
  for (const Advice& one : advice) result.push_back(one.sign);
  return result;
}

const std::vector<Sign> nothing;

}  // namespace

BOOST_AUTO_TEST_CASE(a_sound_run_gets_no_advice) {
  Run run;
  // The first scale is looked for, later an overflow now and then, the norm falls slowly by a factor of 300.
  for (int i = 0; i < 12; ++i) BOOST_TEST((signs(run.overflow()) == nothing));
  double norm = 30;
  for (int i = 0; i < 1000; ++i) {
    norm *= 0.995;
    BOOST_TEST((signs(run.applied(norm * (1 + 0.5 * (i % 3)))) == nothing));
    if (i % 400 == 399) BOOST_TEST((signs(run.overflow()) == nothing));
  }
  run.report.outcome = Outcome::no_gradients;
  BOOST_TEST((signs(run.seen()) == nothing));
}

BOOST_AUTO_TEST_CASE(skips_in_a_row_are_told_once_and_again_after_they_had_ended) {
  Run run;
  run.applied();
  for (int i = 0; i < 3; ++i) BOOST_TEST((signs(run.overflow(ScaleChange::held_by_hysteresis)) == nothing));
  const auto fourth = run.overflow(ScaleChange::held_by_hysteresis);
  BOOST_TEST((signs(fourth) == std::vector{Sign::repeated_skips}));
  BOOST_TEST(fourth[0].text.find("attempt 5: 4 windows in a row") != std::string::npos);
  BOOST_TEST(fourth[0].text.find("\"head.weight\"[12]") != std::string::npos);
  BOOST_TEST((signs(run.overflow(ScaleChange::held_by_hysteresis)) == nothing));
  run.applied();
  for (int i = 0; i < 3; ++i) run.overflow(ScaleChange::held_by_hysteresis);
  BOOST_TEST((signs(run.overflow(ScaleChange::held_by_hysteresis)) == std::vector{Sign::repeated_skips}));
}

BOOST_AUTO_TEST_CASE(before_the_first_update_more_skips_are_allowed) {
  Run run;
  for (int i = 0; i < 19; ++i) BOOST_TEST((signs(run.overflow()) == nothing));
  const auto advice = run.overflow();
  BOOST_TEST((signs(advice) == std::vector{Sign::repeated_skips}));
  BOOST_TEST(advice[0].text.find("before the first update") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_falling_scale_is_told_though_updates_come_between) {
  Run run;
  run.applied();
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST((signs(run.overflow()) == nothing));
    run.applied();
  }
  const auto advice = run.overflow();
  BOOST_TEST((signs(advice) == std::vector{Sign::falling_scale}));
  BOOST_TEST(advice[0].text.find("fell to 4096, 16 times less") != std::string::npos);
  // Long after, the lower scale is the usual one.
  for (int i = 0; i < 200; ++i) run.applied();
  BOOST_TEST((signs(run.overflow()) == nothing));
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_and_a_scale_at_its_floor_are_told_at_once) {
  Run run;
  run.applied();
  const auto advice = run.bad_loss();
  BOOST_TEST((signs(advice) == std::vector{Sign::loss_not_finite}));
  BOOST_TEST(advice[0].text.find("no loss scale can cure it") != std::string::npos);
  BOOST_TEST(advice[0].text.find("trainer.diagnose(batch)") != std::string::npos);
  BOOST_TEST((signs(run.overflow(ScaleChange::at_minimum)) == std::vector{Sign::scale_at_minimum}));
}

BOOST_AUTO_TEST_CASE(data_that_are_not_finite_are_told_as_such_where_the_diagnosis_says_so) {
  Run run;
  run.applied();
  auto diagnosis = std::make_shared<Diagnosis>();
  diagnosis->first = TensorEvidence{.place = Place::input, .input = 0};
  diagnosis->advice = "clean it";
  run.report.diagnosis = diagnosis;
  const auto advice = run.bad_loss();
  BOOST_TEST((signs(advice) == std::vector{Sign::data_not_finite}));
  BOOST_TEST(advice[0].text == "attempt 2: clean it");
  run.report.diagnosis = nullptr;
}

BOOST_AUTO_TEST_CASE(a_norm_out_of_its_usual_range_is_told_on_both_sides) {
  const auto warm = [] {
    Run run;
    for (int i = 0; i < 40; ++i) run.applied(2.0 + 0.25 * (i % 4));
    return run;
  };
  Run high = warm();
  BOOST_TEST((signs(high.applied(20)) == nothing));
  const auto above = high.applied(31);
  BOOST_TEST((signs(above) == std::vector{Sign::unusual_norm}));
  BOOST_TEST(above[0].text.find("is 31 where 2.") != std::string::npos);
  BOOST_TEST(above[0].text.find("clip_norm") != std::string::npos);
  Run low = warm();
  BOOST_TEST((signs(low.applied(0.3)) == nothing));
  BOOST_TEST((signs(low.applied(0)) == std::vector{Sign::unusual_norm}));
  Run young;
  for (int i = 0; i < 19; ++i) young.applied(1);
  BOOST_TEST((signs(young.applied(1e6)) == nothing));
}

BOOST_AUTO_TEST_CASE(options_that_make_no_sense_are_refused) {
  BOOST_CHECK_THROW(Watch({.skips_in_a_row = 0}), ConfigurationError);
  BOOST_CHECK_THROW(Watch({.first_skips_in_a_row = 0}), ConfigurationError);
  BOOST_CHECK_THROW(Watch({.windows = 0}), ConfigurationError);
  BOOST_CHECK_THROW(Watch({.norm_windows = -1}), ConfigurationError);
  BOOST_CHECK_THROW(Watch({.scale_factor = 1}), ConfigurationError);
  BOOST_CHECK_THROW(Watch({.norm_factor = std::numeric_limits<double>::quiet_NaN()}), ConfigurationError);
}

BOOST_AUTO_TEST_SUITE_END()
