// The whole trainer on the device Cuda, held against the host's.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <halfstep/halfstep.hpp>
#include <halfstep/state/capture.hpp>
#include <halfstep/state/restore.hpp>
#include <limits>
#include <string>
#include <vector>

#include "cuda/double/cuda_runtime.hpp"
#include "cuda/emulated.hpp"
#include "cuda/trained_model.hpp"

BOOST_AUTO_TEST_SUITE(trainer_tests)

using namespace halfstep;
using halfstep::test::all_parameters;
using halfstep::test::emulated;
using halfstep::test::Points;
using namespace cuda_training;

namespace cuda_trainer_test {

template <class Policy>
void compare_fifty_steps(double tolerance) {
  auto host = new_trainer<Policy, Host>();
  auto cuda = new_trainer<Policy, Cuda>();
  int skipped = 0;
  for (int step = 0; step < 50; ++step) {
    const Points points = batch_of(step);
    const StepReport a = host.step(points).report();
    const StepReport b = cuda.step(points).report();
    BOOST_TEST_CONTEXT("step " << step) {
      BOOST_TEST((a.outcome == b.outcome));
      BOOST_TEST((a.skip_cause == b.skip_cause));
      BOOST_TEST((a.scale_change == b.scale_change));
      BOOST_TEST(a.next_scale == b.next_scale);
      BOOST_TEST(a.learning_rate == b.learning_rate);
      BOOST_TEST(a.schedule_position == b.schedule_position);
      BOOST_TEST(a.first_non_finite.tensor == b.first_non_finite.tensor);
      BOOST_TEST(a.first_non_finite.index == b.first_non_finite.index);
      BOOST_TEST(is_near(a.loss, b.loss, tolerance), a.loss << " and " << b.loss);
      BOOST_TEST(is_near(a.gradient_norm, b.gradient_norm, tolerance), a.gradient_norm << " and " << b.gradient_norm);
    }
    skipped += a.outcome == Outcome::skipped ? 1 : 0;
  }
  BOOST_TEST(skipped > 0);
  BOOST_TEST((host.state() == cuda.state()));
  const auto expected = all_parameters(host), weights = all_parameters(cuda);
  for (std::size_t i = 0; i < weights.size(); ++i) BOOST_TEST_REQUIRE(is_near(expected[i], weights[i], 20 * tolerance));
}

}  // namespace cuda_trainer_test

using namespace cuda_trainer_test;

BOOST_AUTO_TEST_CASE(fifty_steps_end_as_on_the_host_in_float32) { compare_fifty_steps<Float32Policy>(1e-5); }
BOOST_AUTO_TEST_CASE(fifty_steps_end_as_on_the_host_in_float16) { compare_fifty_steps<Float16ScaledPolicy>(2e-3); }
BOOST_AUTO_TEST_CASE(fifty_steps_end_as_on_the_host_in_bfloat16) { compare_fifty_steps<BFloat16Policy>(2e-2); }

BOOST_AUTO_TEST_CASE(a_warm_step_launches_allocates_nothing_and_never_waits) {
  auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
  std::vector<Points> batches;
  for (int i = 0; i < 40; ++i) batches.push_back(batch_of(i));
  for (int i = 0; i < 20; ++i) trainer.step(batches[static_cast<std::size_t>(i)]).report();
  const Points& points = batches[21];
  (void)trainer.evaluate(points);

  halfstep_test::reset_cuda_calls();
  for (int i = 0; i < 4; ++i) trainer.step(points);
  const auto calls = halfstep_test::cuda_calls();
  // Forward: cast, gelu, dropout, rows of the loss, their sum and its rounding. Backward: cross-entropy, dropout, gelu,
  // two column sums of two launches each.  A step's own: micro-batch, measure, decide, update.
  constexpr std::int64_t launches = 4 * (6 + 3 + 2 * 2 + 4);
  // cuBLASLt itself may not offer to add the bias of so odd a layer: then a pass does, one for each of the two.
  BOOST_TEST(calls.launches >= launches);
  BOOST_TEST(calls.launches <= launches + (emulated ? 0 : 4 * 2));
  BOOST_TEST(calls.matmuls == 4 * (2 + 3));
  BOOST_TEST(calls.device_allocations == 0);
  BOOST_TEST(calls.device_frees == 0);
  BOOST_TEST(calls.memsets == 0);
  BOOST_TEST(calls.stream_waits == 0);
  BOOST_TEST(calls.event_waits == 0);
  BOOST_TEST(calls.copies_on_device == 0);
  BOOST_TEST(calls.copies_to_device == 4 * 2);  // the batch: images and labels
  BOOST_TEST(calls.copies_to_host == 4);        // the report
}

BOOST_AUTO_TEST_CASE(reports_may_be_read_late_in_any_order_or_never) {
  auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
  auto patient = new_trainer<Float16ScaledPolicy, Cuda>();
  std::vector<StepTicket> tickets;
  std::vector<StepReport> expected;
  for (int step = 0; step < 40; ++step) {
    const Points points = batch_of(step);
    tickets.push_back(trainer.step(points));
    expected.push_back(patient.step(points).report());
  }
  for (const std::size_t step : {39u, 3u, 0u, 17u}) {
    const StepReport& report = tickets[step].report();
    BOOST_TEST(report.attempts == expected[step].attempts);
    BOOST_TEST((report.outcome == expected[step].outcome));
    BOOST_TEST(report.next_scale == expected[step].next_scale);
    BOOST_TEST((report.loss == expected[step].loss || std::isnan(report.loss)));
  }
  BOOST_TEST((trainer.state() == patient.state()));
}

BOOST_AUTO_TEST_CASE(a_ticket_outlives_its_trainer) {
  std::vector<StepTicket> kept;
  {
    auto trainer = new_trainer<BFloat16Policy, Cuda>();
    kept.push_back(trainer.step(batch_of(0)));
  }
  BOOST_TEST(kept[0].report().attempts == 1);
}

namespace cuda_trainer_test {
struct Impatient : Float16ScaledPolicy {
  static constexpr std::int64_t stop_after_skips = 2;
};
}  // namespace cuda_trainer_test

BOOST_AUTO_TEST_CASE(training_is_stopped_by_the_report_of_the_skip_or_by_the_next_step_once) {
  const Points bad = batch_of(3), good = batch_of(0);
  {
    auto trainer = new_trainer<Impatient, Cuda>();
    trainer.step(bad).report();
    const StepTicket last = trainer.step(bad);
    BOOST_CHECK_EXCEPTION(last.report(), TrainingStopped,
                          [](const TrainingStopped& stopped) { return stopped.report.skipped_in_a_row == 2; });
    BOOST_TEST(trainer.step(good).report().applied());
  }
  {
    auto trainer = new_trainer<Impatient, Cuda>();
    trainer.step(bad);
    trainer.step(bad);
    (void)trainer.state();
    BOOST_CHECK_THROW(
        for (int i = 0; i < 4; ++i) trainer.step(good), TrainingStopped);
    BOOST_TEST(trainer.step(good).report().applied());
  }
}

BOOST_AUTO_TEST_CASE(accumulated_and_clipped_by_hand_it_is_what_the_host_computes) {
  const auto run = [](auto trainer) {
    for (int window = 0; window < 6; ++window) {
      trainer.accumulate(batch_of(2 * window));
      trainer.accumulate(batch_of(2 * window + 1));
      auto unscaled = trainer.close_window().unscale();
      unscaled.clip_norm(0.25f);
      unscaled.clip_value(0.05f);
      trainer.apply(std::move(unscaled)).report();
    }
    trainer.accumulate(batch_of(1));
    trainer.abandon();
    return std::pair(all_parameters(trainer), trainer.state());
  };
  const auto [expected, host] = run(new_trainer<Float32Policy, Host>());
  const auto [weights, cuda] = run(new_trainer<Float32Policy, Cuda>());
  BOOST_TEST((host == cuda));
  BOOST_TEST(cuda.skipped > 0);
  for (std::size_t i = 0; i < weights.size(); ++i) BOOST_TEST_REQUIRE(is_near(expected[i], weights[i], 1e-4));
}

BOOST_AUTO_TEST_CASE(a_run_saved_on_one_device_goes_on_on_either) {
  auto first = new_trainer<Float16ScaledPolicy, Cuda>();
  for (int step = 0; step < 6; ++step) first.step(batch_of(step));
  first.accumulate(batch_of(6));  // the window is open, and travels
  const StateFile file = capture(first);
  auto second = new_trainer<Float16ScaledPolicy, Cuda>();
  second.step(batch_of(0));
  restore(second, file);
  auto third = new_trainer<Float16ScaledPolicy, Host>();
  restore(third, file);
  for (int step = 7; step < 12; ++step) {
    for (auto* trainer : {&first, &second}) {
      trainer->accumulate(batch_of(step));
      trainer->update();
    }
    third.accumulate(batch_of(step));
    third.update();
  }
  BOOST_TEST(all_parameters(first) == all_parameters(second));
  BOOST_TEST((first.state() == second.state()));
  BOOST_TEST((third.state() == second.state()));
}

namespace cuda_trainer_test {
struct Falling {
  HALFSTEP_HOST_DEVICE float operator()(std::int64_t position) const { return position < 3 ? 0.01f : -1.0f; }
};
}  // namespace cuda_trainer_test

BOOST_AUTO_TEST_CASE(a_schedule_of_the_users_is_checked_without_waiting_and_refused_where_it_has_no_rate) {
  Trainer<Model, BasicAdamW<Falling>, BFloat16Policy, Cuda> trainer(Model(), {.learning_rate = Falling()});
  const Points points = batch_of(0);
  for (int step = 0; step < 3; ++step) trainer.step(points);
  BOOST_CHECK_THROW(trainer.step(points), ConfigurationError);
  BOOST_TEST(trainer.state().update_number == 3);
}

BOOST_AUTO_TEST_CASE(a_diagnosis_says_what_the_hosts_says) {
  auto host = new_trainer<Float16ScaledPolicy, Host>();
  auto cuda = new_trainer<Float16ScaledPolicy, Cuda>();
  for (const int step : {0, 3, 9}) {
    const Points points = batch_of(step);
    host.step(points);
    cuda.step(points);
    const Diagnosis a = host.diagnose(points), b = cuda.diagnose(points);
    BOOST_TEST(a.attempt == b.attempt);
    BOOST_TEST(a.scale == b.scale);
    BOOST_TEST_REQUIRE(a.first.has_value() == b.first.has_value());
    BOOST_TEST(a.first.has_value() == (step != 0));
    if (!a.first.has_value()) continue;
    BOOST_TEST(a.first->layer == b.first->layer);
    BOOST_TEST(a.first->operation == b.first->operation);
    BOOST_TEST(a.first->position == b.first->position);
    BOOST_TEST(a.first->statistics.first_non_finite == b.first->statistics.first_non_finite);
    BOOST_TEST((a.first->statistics.kind == b.first->statistics.kind));
    BOOST_TEST(a.first->statistics.non_finite == b.first->statistics.non_finite);
  }
}

BOOST_AUTO_TEST_CASE(skips_explained_as_they_happen_cost_one_launch_and_the_look_at_the_record) {
  auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
  const auto launches_of = [&](const Points& points) {
    halfstep_test::reset_cuda_calls();
    (void)trainer.step(points).report();
    return halfstep_test::cuda_calls().launches;
  };
  for (int step = 0; step < 3; ++step) launches_of(batch_of(step));
  const auto without = launches_of(batch_of(4));
  trainer.diagnose_skips();
  const auto with = launches_of(batch_of(5));
  BOOST_TEST(with == without + 1);  // the measurements are joined when they are looked at, and not by the decision
  const StepReport report = trainer.step(batch_of(3)).report();
  BOOST_TEST((report.outcome == Outcome::skipped));
  BOOST_TEST_REQUIRE(report.diagnosis != nullptr);
  BOOST_TEST(report.diagnosis->first.has_value());
}

BOOST_AUTO_TEST_CASE(a_run_that_takes_the_place_of_a_stopped_one_is_not_stopped) {
  auto trainer = new_trainer<Impatient, Cuda>();
  const StateFile file = capture(trainer);
  const Points bad = batch_of(3);
  trainer.step(bad);
  trainer.step(bad);
  restore(trainer, file);
  BOOST_TEST(trainer.step(batch_of(0)).report().applied());
}

BOOST_AUTO_TEST_CASE(training_by_hand_is_stopped_too_and_keeps_its_gradients) {
  auto trainer = new_trainer<Impatient, Cuda>();
  const auto apply = [&](const Points& points) {
    trainer.accumulate(points);
    trainer.apply(trainer.close_window().unscale());
  };
  BOOST_CHECK_THROW(
      for (int i = 0; i < 40; ++i) apply(batch_of(3)), TrainingStopped);
}

BOOST_AUTO_TEST_CASE(copies_of_a_ticket_tell_the_same) {
  auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
  const StepTicket ticket = trainer.step(batch_of(3)), copy = ticket;
  BOOST_TEST(!ticket.report().first_non_finite.tensor.empty());
  BOOST_TEST(copy.report().first_non_finite.tensor == ticket.report().first_non_finite.tensor);
}

#if defined(HALFSTEP_CUDA_EMULATION)

BOOST_AUTO_TEST_CASE(trainers_on_two_gpus_take_turns_in_one_thread) {
  const auto trainer_on = [](int device) {
    return TrainerOn<Float16ScaledPolicy, Cuda>(Model(), {}, {.seed = 3, .device = {.device = device}});
  };
  auto first = trainer_on(0), second = trainer_on(1), alone = trainer_on(1);
  second.capture();
  for (int step = 0; step < 8; ++step) {
    for (auto* trainer : {&first, &second}) trainer->accumulate(batch_of(step));
    const StepTicket a = first.update(), b = second.update();
    BOOST_TEST((b.report().outcome == a.report().outcome));
    alone.step(batch_of(step));
  }
  BOOST_TEST(all_parameters(first) == all_parameters(alone));
  BOOST_TEST(all_parameters(second) == all_parameters(alone));
  BOOST_TEST(second.graph_use().refusal == "");
}

BOOST_AUTO_TEST_CASE(a_program_far_ahead_of_its_gpu_waits_for_the_oldest_report_and_loses_none) {
  struct SlowGpu {
    SlowGpu() { halfstep_test::set_queries_until_done(1000); }
    ~SlowGpu() { halfstep_test::set_queries_until_done(3); }
  } const slow;
  auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
  std::vector<StepTicket> tickets;
  halfstep_test::reset_cuda_calls();
  for (int step = 0; step < 40; ++step) tickets.push_back(trainer.step(batch_of(step)));
  // The first wait finds 16 steps done: the next is met when the ring is full of those that came since.
  BOOST_TEST(halfstep_test::cuda_calls().event_waits >= 1);
  BOOST_TEST(halfstep_test::cuda_calls().stream_waits == 0);
  for (std::size_t step = 0; step < tickets.size(); ++step) {
    BOOST_TEST_REQUIRE(tickets[step].report().attempts == static_cast<std::int64_t>(step + 1));
  }
}

#endif

BOOST_AUTO_TEST_SUITE_END()
