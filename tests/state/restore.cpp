#include <boost/test/unit_test.hpp>
#include <bit>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <halfstep/state/checkpoints.hpp>
#include <halfstep/state/weights.hpp>

#include "state/ring_trainers.hpp"

BOOST_AUTO_TEST_SUITE(restore_tests)

using namespace halfstep;
using halfstep::test::first_samples;
using halfstep::test::RingInBFloat16;
using halfstep::test::RingInFloat;
using halfstep::test::RingInFloat16;
using halfstep::test::RingInHalf;
using halfstep::test::RingWithMomentum;
using halfstep::test::ScalerChoice;

namespace {

/// The scenarios' scaler: grows after 4 applied windows, three non-finite gradients to a fall.
constexpr DynamicScaler patient{.initial_scale = 1024, .growth_interval = 4, .hysteresis = 3};
/// Every gradient overflows for as long as a test runs.
constexpr DynamicScaler too_high{.initial_scale = 0x1p60f, .hysteresis = 3};

/// Of a trainer, everything that a checkpoint would hold.
template <class Trainer>
bool same_state(const Trainer& a, const Trainer& b) {
  const StateFile x = capture(a), y = capture(b);
  if (x.metadata != y.metadata || x.tensors.size() != y.tensors.size()) return false;
  for (std::size_t i = 0; i < x.tensors.size(); ++i) {
    if (x.tensors[i].name != y.tensors[i].name || x.tensors[i].bytes != y.tensors[i].bytes) return false;
  }
  return true;
}

/// The file with one piece of text in its training state replaced.
StateFile edited(StateFile file, const std::string& from, const std::string& to) {
  std::string& text = file.metadata[TrainingState::key];
  const auto place = text.find(from);
  BOOST_REQUIRE(place != std::string::npos);
  text.replace(place, from.size(), to);
  return file;
}

template <class Trainer>
std::string refused(Trainer& trainer, const StateFile& file, const std::vector<std::string>& words) {
  const StateFile before = capture(trainer);
  std::string message;
  try {
    restore(trainer, file);
  } catch (const CheckpointError& error) {
    message = error.what();
  }
  for (const std::string& word : words) {
    BOOST_TEST(message.find(word) != std::string::npos, "\"" << word << "\" is not in: " << message);
  }
  const StateFile after = capture(trainer);
  BOOST_TEST(before.metadata == after.metadata);
  for (std::size_t i = 0; i < before.tensors.size(); ++i) BOOST_TEST((before.tensors[i].bytes == after.tensors[i].bytes));
  return message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(scale_tracker_and_hysteresis_travel_with_the_checkpoint) {
  const ScalerChoice scaler(patient);
  const auto batch = first_samples(8);
  RingInHalf saved{{}};
  for (int i = 0; i < 3; ++i) saved.step(batch);
  RingInHalf resumed{{}};
  restore(resumed, capture(saved));
  BOOST_TEST(resumed.state().scaler.growth_tracker == 3);
  const StepReport report = resumed.step(batch).report();
  BOOST_TEST(report.next_scale == 2048.0f);
  BOOST_TEST(resumed.state().scaler.growth_tracker == 0);
}

BOOST_AUTO_TEST_CASE(hysteresis_left_before_the_save_counts_after_the_load) {
  const ScalerChoice scaler(too_high);
  const auto batch = first_samples(8);
  RingInHalf saved{{}};
  saved.step(batch);
  BOOST_TEST(saved.state().scaler.hysteresis_left == 2);
  RingInHalf resumed{{}};
  restore(resumed, capture(saved));
  BOOST_TEST(resumed.step(batch).report().next_scale == 0x1p60f);
  BOOST_TEST(resumed.step(batch).report().next_scale == 0x1p59f);
}

BOOST_AUTO_TEST_CASE(a_fresh_trainer_of_another_first_scale_takes_over_the_saved_one_without_a_skip) {
  const auto batch = first_samples(8);
  const auto of_low_scale = [] {
    const ScalerChoice low({.initial_scale = 256});
    return RingInHalf{{}};
  };
  RingInHalf saved = of_low_scale();
  saved.step(batch);
  RingInHalf resumed{{}};
  restore(resumed, capture(saved));
  const StepReport next = resumed.step(batch).report();
  BOOST_TEST(next.scale == 256.0f);
  BOOST_TEST(next.skipped == 0);
  BOOST_TEST(next.update_number == 2);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_listed_in_full_and_nothing_is_touched) {
  RingInFloat16 saved{{}};
  saved.step(first_samples(8));
  StateFile file = capture(saved);
  RingInBFloat16 other_policy{{}};
  refused(other_policy, file, {"policy is float16", "bfloat16", "scaler is DynamicScaler", "NoScaler", "restore_as"});
  RingWithMomentum other_optimizer{{}};
  const std::string only = refused(other_optimizer, capture(RingInHalf{{}}),
                                   {"optimizer is AdamW", "SGD", "optimizer/momentum_buffer/hidden.weight"});
  BOOST_TEST(only.find("policy is") == std::string::npos, only);
  BOOST_TEST(only.find("scaler is") == std::string::npos, only);

  RingInFloat16 trainer{{}};
  trainer.step(first_samples(4));
  file.tensors[0].shape = {2, 24};
  file.tensors[1].dtype = DType::i32;
  file.tensors.erase(file.tensors.begin() + 2);
  file.tensors.push_back({"stranger", DType::f32, {1}, std::vector<std::byte>(4)});
  refused(trainer, file, {"hidden.weight", "[2, 24]", "[24, 2]", "hidden.bias", "I32", "output.weight", "missing", "stranger"});
}

BOOST_AUTO_TEST_CASE(a_state_that_no_run_can_have_come_to_is_refused) {
  RingInHalf saved{{}};
  saved.step(first_samples(8));
  const StateFile file = capture(saved);
  RingInHalf trainer{{}};
  refused(trainer, edited(file, "\"attempts\":1", "\"attempts\":7"), {"counters contradict", "7"});
  refused(trainer, edited(file, "0x1p+16", "-0x1p+16"), {"loss scale"});
  refused(trainer, edited(file, "0x1p+16", "inf"), {"loss scale", "inf"});
  refused(trainer, edited(file, "0x1p+16", "nan"), {"loss scale", "nan"});
  refused(trainer, edited(file, "\"growth_tracker\":1", "\"growth_tracker\":-1"), {"growth tracker", "-1"});
  refused(trainer, edited(file, "\"growth_tracker\":1", "\"growth_tracker\":2147483647"), {"growth tracker"});
  refused(trainer, edited(file, "\"hysteresis_left\":1", "\"hysteresis_left\":0"), {"hysteresis left is 0"});
  refused(trainer, edited(file, "\"skipped_in_a_row\":0", "\"skipped_in_a_row\":1"), {"counters contradict"});
  refused(trainer, edited(file, "\"schedule_position\":1", "\"schedule_position\":-1"), {"schedule position -1"});
  // Sums that would overflow, and wrap to the right one.
  StateFile large = edited(file, "\"empty\":0", "\"empty\":9223372036854775807");
  large = edited(large, "\"skipped\":0", "\"skipped\":9223372036854775807");
  refused(trainer, edited(large, "\"update_number\":1", "\"update_number\":3"), {"counters contradict"});
  refused(trainer, edited(file, "\"format\":1", "\"format\":2"), {"format 2", "newer halfstep"});
  refused(trainer, edited(file, "\"attempts\"", "\"tries\""), {"attempts"});
  const std::string unreadable = "training state cannot be read";
  refused(trainer, edited(file, "\"AdamW\"", "7"), {unreadable, "type must be string, but is number"});
  refused(trainer, edited(file, "\"0x1p+16\"", "65536"), {unreadable, "type must be string, but is number"});
  refused(trainer, edited(file, "\"attempts\":1", "\"attempts\":\"1\""),
          {unreadable, "type must be number, but is string"});
  StateFile without = file;
  without.metadata.clear();
  refused(trainer, without, {"no training state", "load_weights"});
}

BOOST_AUTO_TEST_CASE(an_open_window_that_no_run_can_have_come_to_is_refused) {
  RingInHalf saved{{}};
  saved.accumulate(first_samples(6));  // normalizer 4, seed 65536 / 4
  const StateFile file = capture(saved);
  RingInHalf trainer{{}};
  const std::vector<std::pair<std::string, std::string>> edits{
      {"\"valid_count\":6", "\"valid_count\":-6"},
      {"\"valid_count\":6", "\"valid_count\":0"},
      {"\"valid_count\":6", "\"valid_count\":3"},
      {"\"micro_batches\":1", "\"micro_batches\":0"},
      {"\"normalizer\":\"0x1p+2\"", "\"normalizer\":\"0x1.8p+1\""},
      {"\"normalizer\":\"0x1p+2\"", "\"normalizer\":\"-0x1p+2\""},
      {"\"normalizer\":\"0x1p+2\"", "\"normalizer\":\"inf\""},
      {"\"normalizer\":\"0x1p+2\"", "\"normalizer\":\"0x0p+0\""},
      {"\"seed\":\"0x1p+14\"", "\"seed\":\"nan\""},
      {"\"seed\":\"0x1p+14\"", "\"seed\":\"0x1p+13\""}};
  for (const auto& [from, to] : edits) {
    BOOST_TEST_CONTEXT(to) refused(trainer, edited(file, from, to), {"open window contradicts itself"});
  }
  const StateFile of_three = edited(file, "\"normalizer\":\"0x1p+2\"", "\"normalizer\":\"0x1.8p+1\"");
  refused(trainer, edited(of_three, "\"seed\":\"0x1p+14\"", "\"seed\":\"0x1.555556p+14\""), {"contradicts itself"});
  restore(trainer, file);
  BOOST_TEST(same_state(trainer, saved));
}

BOOST_AUTO_TEST_CASE(the_last_overflow_does_not_outlive_the_attempts_it_is_counted_in) {
  const ScalerChoice scaler(too_high);
  RingInHalf saved{{}};
  saved.step(first_samples(8));
  const StateFile file = capture(saved);
  BOOST_TEST(file.metadata.at(TrainingState::key).find("last_overflow") != std::string::npos);
  RingInHalf trainer{{}};
  restore_as(trainer, file, {.reset_optimizer = true});
  BOOST_TEST(trainer.state().attempts == 0);
  BOOST_TEST(capture(trainer).metadata.at(TrainingState::key).find("last_overflow") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_float16_run_goes_on_in_bfloat16_only_when_asked_and_says_what_changed) {
  const auto batch = first_samples(8);
  RingInHalf saved{{}};
  for (int i = 0; i < 3; ++i) saved.step(batch);
  const StateFile file = capture(saved);
  RingInBFloat16 trainer{{}};
  const Restored restored = restore_as(trainer, file);
  BOOST_TEST(restored.notes.size() == 2u);
  BOOST_TEST(trainer.state().update_number == 3);
  BOOST_TEST(trainer.state().scaler.scale == 1.0f);
  BOOST_TEST(trainer.read_parameter("hidden.weight") == saved.read_parameter("hidden.weight"));
  BOOST_TEST(trainer.step(batch).report().applied());

  saved.accumulate(batch);
  BOOST_CHECK_THROW(restore_as(trainer, capture(saved)), CheckpointError);
}

BOOST_AUTO_TEST_CASE(another_optimizer_begins_with_moments_and_t_of_zero_and_the_schedule_goes_on) {
  const auto batch = first_samples(8);
  const ScalerChoice scaler(patient);
  RingWithMomentum saved{{}};
  for (int i = 0; i < 3; ++i) saved.step(batch);
  const StateFile file = capture(saved);
  RingInHalf trainer{{}};
  BOOST_CHECK_THROW(restore_as(trainer, file), CheckpointError);
  restore_as(trainer, file, {.reset_optimizer = true});
  BOOST_TEST(trainer.state().update_number == 0);
  BOOST_TEST(trainer.state().schedule_position == 3);
  BOOST_TEST(trainer.read_parameter("output.weight") == saved.read_parameter("output.weight"));
}

BOOST_AUTO_TEST_CASE(an_open_window_is_carried_or_refused_as_the_user_says) {
  const ScalerChoice scaler(patient);
  const auto batch = first_samples(8);
  RingInHalf one{{}}, other{{}};
  one.step(batch);
  one.accumulate(batch);
  BOOST_CHECK_THROW(capture(one, {.open_window = OpenWindow::refuse}), CheckpointError);
  restore(other, capture(one));
  BOOST_TEST(same_state(one, other));
  const auto mine = one.update().report(), theirs = other.update().report();
  BOOST_TEST(mine.loss == theirs.loss);
  BOOST_TEST(mine.micro_batches == 1);
  BOOST_TEST(theirs.micro_batches == 1);
  BOOST_TEST(same_state(one, other));
}

BOOST_AUTO_TEST_CASE(a_parameter_that_the_program_freezes_takes_no_gradient_from_an_open_window) {
  const ScalerChoice scaler(patient);
  const auto batch = first_samples(8);
  RingInHalf one{{}};
  one.step(batch);
  one.accumulate(batch);
  RingInHalf frozen{{}, {}, {.parameters = {parameters_named("hidden.*").freeze()}}};
  restore(frozen, capture(one));
  const auto hidden = frozen.read_parameter("hidden.weight"), output = frozen.read_parameter("output.weight");
  BOOST_TEST(frozen.update().report().applied());
  BOOST_TEST((frozen.read_parameter("hidden.weight") == hidden));
  BOOST_TEST((frozen.read_parameter("output.weight") != output));
}

BOOST_AUTO_TEST_CASE(a_window_in_hand_is_neither_saved_nor_loaded_over) {
  const ScalerChoice scaler(patient);
  const auto batch = first_samples(8);
  RingInHalf trainer{{}};
  const StateFile file = capture(trainer);
  trainer.accumulate(batch);
  auto gradients = trainer.close_window();
  BOOST_CHECK_THROW(capture(trainer), CheckpointError);
  BOOST_CHECK_THROW(restore(trainer, file), CheckpointError);
  trainer.apply(std::move(gradients).unscale());
}

BOOST_AUTO_TEST_CASE(weights_that_are_not_finite_are_not_published_unless_forced) {
  RingInFloat trainer{{}};
  auto bias = trainer.read_parameter("output.bias");
  bias[1] = std::numeric_limits<float>::quiet_NaN();
  trainer.write_parameter("output.bias", bias);
  BOOST_CHECK_EXCEPTION(capture(trainer), CheckpointError, [](const CheckpointError& error) {
    return std::string(error.what()).find("\"output.bias\"[1]") != std::string::npos;
  });
  RingInFloat other{{}};
  restore(other, capture(trainer, {.even_if_not_finite = true}));
  BOOST_TEST(!is_finite(other.read_parameter("output.bias")[1]));
}

BOOST_AUTO_TEST_CASE(the_last_overflow_is_remembered_across_a_resume) {
  const ScalerChoice scaler(too_high);
  const auto batch = first_samples(8);
  RingInHalf saved{{}};
  const StepReport report = saved.step(batch).report();
  BOOST_TEST(name_of(report.skip_cause) == name_of(SkipCause::gradient));
  RingInHalf resumed{{}};
  restore(resumed, capture(saved));
  const std::string text = capture(resumed).metadata.at(TrainingState::key);
  BOOST_TEST(text.find("\"last_overflow\":{\"attempt\":1") != std::string::npos);
  BOOST_TEST(text.find(report.first_non_finite.tensor) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(after_a_checkpoint_is_taken_over_the_skip_of_the_run_before_is_forgotten) {
  RingInHalf trainer{{}};
  const StateFile start = capture(trainer);
  const auto bad = first_samples(11);  // the last one is infinite
  trainer.step(bad);
  BOOST_TEST(trainer.diagnose(bad).attempt == 1);
  restore(trainer, start);
  BOOST_TEST(trainer.diagnose(bad).attempt == 0);
}

BOOST_AUTO_TEST_CASE(what_the_user_adds_comes_back) {
  RingInFloat trainer{{}};
  const std::vector<std::byte> bytes(12, std::byte{7});
  const StateFile file = capture(
      trainer, {.user = {{"note", "hello"}}, .user_tensors = {{"average", DType::i32, {3}, bytes}}});
  const Restored restored = restore(trainer, file);
  BOOST_TEST(restored.user.at("note").get<std::string>() == "hello");
  BOOST_REQUIRE(restored.user_tensors.size() == 1u);
  BOOST_TEST(restored.user_tensors[0].name == "average");
  BOOST_TEST((restored.user_tensors[0].bytes == bytes));
  BOOST_CHECK_THROW(capture(trainer, {.user_tensors = {{"twice", DType::u8, {0}, {}}, {"twice", DType::u8, {0}, {}}}}),
                    CheckpointError);
}

BOOST_AUTO_TEST_CASE(numbers_of_the_training_state_survive_to_the_bit_and_have_one_form) {
  using Limits = std::numeric_limits<double>;
  for (const double magnitude : {0.0, 1.0, 12.0, 1.0 / 3, 65536.0, (Limits::min)(), Limits::denorm_min(),
                                 (Limits::max)(), 0x1.fffffep+127, Limits::infinity()}) {
    for (const double value : {magnitude, -magnitude}) {
      const double back = detail::exact_number(detail::exact_text(value));
      BOOST_TEST(std::bit_cast<std::uint64_t>(back) == std::bit_cast<std::uint64_t>(value), detail::exact_text(value));
      // As "%a" writes it, which files hold that were written before.
      char text[40];
      std::snprintf(text, sizeof text, "%a", value);
      const double old = detail::exact_number(text);
      BOOST_TEST(std::bit_cast<std::uint64_t>(old) == std::bit_cast<std::uint64_t>(value), text);
    }
  }
  BOOST_TEST(!is_finite(detail::exact_number(detail::exact_text(Limits::quiet_NaN()))));
  BOOST_TEST(detail::exact_text(12.0) == "0x1.8p+3");
  BOOST_TEST(detail::exact_text(-65536.0) == "-0x1p+16");
  BOOST_TEST(detail::exact_text(Limits::infinity()) == "inf");
  BOOST_TEST(detail::exact_text(Limits::quiet_NaN()) == "nan");
  for (const char* text : {"", "-", "0x", "0x-1p+0", "0xinf", "--0x1p+0", "0x1,8p+3", "0x1.8p+3 ", " 0x1p+0", "0x1p+99999", "x"}) {
    BOOST_TEST_CONTEXT(text) BOOST_CHECK_THROW(detail::exact_number(text), CheckpointError);
  }
}

BOOST_AUTO_TEST_CASE(a_locale_with_a_decimal_comma_changes_no_checkpoint) {
  RingInHalf saved{{}};
  saved.accumulate(first_samples(8));  // the window's loss is no power of two
  const StateFile file = capture(saved);
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "fr_FR"}) {
    if (std::setlocale(LC_ALL, name) == nullptr) continue;  // not installed
    BOOST_TEST_MESSAGE("under the locale " << name);
    const StateFile here = capture(saved);
    RingInHalf resumed{{}};
    BOOST_CHECK_NO_THROW(restore(resumed, file));
    const bool same = same_state(resumed, saved);
    std::setlocale(LC_ALL, before.c_str());
    BOOST_TEST(here.metadata.at(TrainingState::key) == file.metadata.at(TrainingState::key));
    BOOST_TEST(same);
    break;
  }
}

BOOST_AUTO_TEST_CASE(json_of_the_user_that_its_text_could_not_give_back_is_refused_by_its_path) {
  using nlohmann::json;
  RingInHalf trainer{{}};
  const auto message = [&](const json& user) -> std::string {
    try {
      capture(trainer, {.user = user});
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "taken";
  };
  const auto says = [](const std::string& text, const std::string& words) {
    BOOST_TEST(text.find(words) != std::string::npos, text);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  says(message({{"losses", {1.0, 2.0, std::numeric_limits<double>::quiet_NaN()}}}), "/losses/2 is nan");
  says(message({{"best", {{"loss", -infinity}}}}), "/best/loss is -inf");
  says(message(infinity), "its root is inf");
  says(message({{"note", "caf\xe9"}}), "/note is no UTF-8");
  says(message({{"notes", {{"caf\xe9", 1}}}}), "/notes has a key that is no UTF-8");
  says(message({{"blob", json::binary({1, 2})}}), "/blob is binary");
  says(message({{"note", "caf\xc3\xa9"}, {"losses", {1.0, 2.5}}, {"none", nullptr}}), "taken");
  BOOST_CHECK_THROW(capture(trainer, {.data = LoaderPosition{.dataset = "caf\xe9"}}), CheckpointError);
}

BOOST_AUTO_TEST_SUITE_END()
