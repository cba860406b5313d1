// Windows as CUDA graphs: a trainer that captures, held against one that does not.
#include <boost/test/unit_test.hpp>

#include <halfstep/evidence/diagnose.hpp>
#include <halfstep/halfstep.hpp>
#include <halfstep/state/capture.hpp>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/double/cuda_runtime.hpp"
#include "cuda/trained_model.hpp"

BOOST_AUTO_TEST_SUITE(graphs_tests)

using namespace halfstep;
using namespace cuda_training;
using halfstep::test::all_parameters;
using halfstep_test::cuda_calls;

namespace cuda_graphs_test {

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void require_same(const StepReport& a, const StepReport& b) {
  BOOST_TEST_REQUIRE((a.outcome == b.outcome));
  BOOST_TEST_REQUIRE(is_same(a.loss, b.loss));
  BOOST_TEST_REQUIRE(is_same(a.gradient_norm, b.gradient_norm));
  BOOST_TEST_REQUIRE(a.next_scale == b.next_scale);
  BOOST_TEST_REQUIRE(a.learning_rate == b.learning_rate);
  BOOST_TEST_REQUIRE(a.attempts == b.attempts);
  BOOST_TEST_REQUIRE(a.micro_batches == b.micro_batches);
  BOOST_TEST_REQUIRE(a.valid_count == b.valid_count);
  BOOST_TEST_REQUIRE(a.first_non_finite.tensor == b.first_non_finite.tensor);
  BOOST_TEST_REQUIRE(a.first_non_finite.index == b.first_non_finite.index);
}

template <class Trainer>
void require_same_state(Trainer& a, Trainer& b) {
  BOOST_TEST((a.state() == b.state()));
  BOOST_TEST(all_parameters(a) == all_parameters(b));
  BOOST_TEST(b.graph_use().refusal == "");
}

/// Does the same with a trainer that does not capture and one that does.
template <class Policy, class Run>
GraphUse compare(const Run& run) {
  auto eager = new_trainer<Policy, Cuda>();
  auto captured = new_trainer<Policy, Cuda>();
  captured.capture();
  run(eager);
  run(captured);
  require_same_state(eager, captured);
  return captured.graph_use();
}

/// Work for a Cuda object by itself: writes a number to every element of a buffer of `size`.
struct Fill {
  float* values;
  float number;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { values[i] = number; }
};
struct Add {
  float* values;
  float number;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t i) const { values[i] += number; }
};

/// Adds one for every block that runs it, where threads of a team share no work.
struct CountBlock {
  float* blocks;
  HALFSTEP_HOST_DEVICE void operator()(std::int64_t block) const {
    if (compute::Block::leads()) blocks[block] += 1;
  }
};

std::vector<float> read(Cuda& cuda, const Buffer<float, Cuda>& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.size()));
  cuda.download(values.data(), buffer.data(), buffer.bytes());
  return values;
}

CudaOptions small_workspace() { return {.workspace_bytes = 4096}; }

/// A window by itself: fill and then add, as often as `adds` says.
void record(Cuda& cuda, float* values, std::int64_t size, float number, int adds) {
  cuda.begin_recording();
  compute::for_each(cuda, size, Fill{values, number});
  for (int i = 0; i < adds; ++i) compute::for_each(cuda, size, Add{values, number});
  cuda.end_recording();
}

}  // namespace cuda_graphs_test

using namespace cuda_graphs_test;

using Policies = std::tuple<Float32Policy, Float16ScaledPolicy>;

BOOST_AUTO_TEST_CASE_TEMPLATE(thirty_steps_give_the_bits_of_the_eager_ones_skips_included, Policy, Policies) {
  auto eager = new_trainer<Policy, Cuda>();
  auto captured = new_trainer<Policy, Cuda>();
  captured.capture();
  for (int step = 0; step < 30; ++step) {
    const Points points = batch_of(step);
    const StepReport expected = eager.step(points).report();
    require_same(expected, captured.step(points).report());
  }
  require_same_state(eager, captured);
  BOOST_TEST(captured.state().skipped > 0);
  // The first step's memory is found piece by piece and lies elsewhere; the second is met for the first time.
  const GraphUse use = captured.graph_use();
  BOOST_TEST(use.captured == 1);
  BOOST_TEST(use.replayed == 27);
  BOOST_TEST(use.one_by_one == 2);
}

BOOST_AUTO_TEST_CASE(a_warm_step_is_one_launch_and_sets_anew_only_what_differs) {
  auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
  trainer.capture();
  for (int step = 0; step < 20; ++step) trainer.step(batch_of(step)).report();
  const Points points = batch_of(21);
  const auto four_steps = [&] {
    halfstep_test::reset_cuda_calls();
    for (int i = 0; i < 4; ++i) trainer.step(points);
    const auto calls = cuda_calls();
    (void)trainer.state();
    return calls;
  };
  // On a GPU that is sometimes fast and sometimes slow: until there are page-locked pieces for as many batches as are
  // ever under way.
  auto calls = four_steps();
  for (int i = 0; i < 20 && calls.host_allocations > 0; ++i) calls = four_steps();
  BOOST_TEST(calls.graph_launches == 4);
  BOOST_TEST(calls.launches == 0);
  BOOST_TEST(calls.matmuls == 0);
  BOOST_TEST(calls.graphs_instantiated == 0);
  // Dropout's random numbers, forward and backward, and the two page-locked pieces that the batch comes through; of 21
  // nodes. The padding of what a kernel carries may differ too, which costs a call and changes nothing.
  BOOST_TEST(calls.graph_nodes_updated >= 4 * 2);
  BOOST_TEST(calls.graph_nodes_updated < 4 * 8);
  BOOST_TEST(calls.copies_to_device == 0);
  BOOST_TEST(calls.copies_to_host == 4);  // the report
  BOOST_TEST(calls.device_allocations + calls.device_frees + calls.host_allocations + calls.objects_made == 0);
  BOOST_TEST(calls.stream_waits + calls.event_waits + calls.memsets + calls.copies_on_device == 0);
}

BOOST_AUTO_TEST_CASE(a_window_is_one_graph_whatever_it_accumulates_and_each_shape_has_its_own) {
  const auto run = [](auto& trainer) {
    for (int window = 0; window < 12; ++window) {
      for (int i = 0; i < 3; ++i) trainer.accumulate(batch_of(3 * window + i));
      trainer.update();
      trainer.step(batch_of(window, 11));  // the short rest of an epoch
    }
  };
  const GraphUse use = compare<Float16ScaledPolicy>(run);
  BOOST_TEST(use.captured == 2);
  BOOST_TEST(use.captured + use.replayed + use.one_by_one == 24);
  BOOST_TEST(use.replayed >= 18);

  auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
  trainer.capture();
  run(trainer);
  halfstep_test::reset_cuda_calls();
  run(trainer);
  BOOST_TEST(cuda_calls().graph_launches == 24);
  BOOST_TEST(cuda_calls().launches == 0);
}

BOOST_AUTO_TEST_CASE(what_waits_in_the_middle_of_a_window_sees_the_work_before_it) {
  const auto run = [](auto& trainer) {
    std::vector<double> seen;
    for (int round = 0; round < 4; ++round) {
      trainer.accumulate(batch_of(8 * round));
      seen.push_back(trainer.evaluate(batch_of(1)).loss());
      trainer.accumulate(batch_of(8 * round + 1));
      for (const float value : trainer.predict(batch_of(2).images())) seen.push_back(static_cast<double>(value));
      const StepTicket ticket = trainer.update();
      trainer.accumulate(batch_of(8 * round + 2));
      seen.push_back(ticket.report().loss);
      Points wrong = batch_of(4);
      wrong.labels[3] = 77;
      BOOST_CHECK_THROW(trainer.accumulate(wrong), ShapeError);
      trainer.accumulate(batch_of(8 * round + 5));
      auto unscaled = trainer.close_window().unscale();
      unscaled.clip_norm(0.25f);
      trainer.apply(std::move(unscaled));
      trainer.accumulate(batch_of(8 * round + 6));
      trainer.abandon();
      trainer.step(batch_of(8 * round + 7));
    }
    return seen;
  };
  auto eager = new_trainer<Float32Policy, Cuda>();
  auto captured = new_trainer<Float32Policy, Cuda>();
  captured.capture();
  const auto expected = run(eager), seen = run(captured);
  for (std::size_t i = 0; i < expected.size(); ++i) BOOST_TEST_REQUIRE(is_same(expected[i], seen[i]));
  require_same_state(eager, captured);
  BOOST_TEST(captured.graph_use().replayed > 0);
}

BOOST_AUTO_TEST_CASE(capturing_may_begin_and_end_in_the_middle_of_a_window) {
  auto eager = new_trainer<BFloat16Policy, Cuda>();
  auto changing = new_trainer<BFloat16Policy, Cuda>();
  for (int window = 0; window < 12; ++window) {
    for (auto* trainer : {&eager, &changing}) {
      trainer->accumulate(batch_of(2 * window));
      if (trainer == &changing) changing.capture(window % 4 < 2);
      trainer->accumulate(batch_of(2 * window + 1));
      trainer->update();
    }
  }
  require_same_state(eager, changing);
}

BOOST_AUTO_TEST_CASE(skips_are_explained_and_states_saved_as_without) {
  auto eager = new_trainer<Float16ScaledPolicy, Cuda>();
  auto captured = new_trainer<Float16ScaledPolicy, Cuda>();
  captured.capture();
  for (auto* trainer : {&eager, &captured}) {
    trainer->diagnose_skips();
    for (int step = 0; step < 6; ++step) {
      const StepReport report = trainer->step(batch_of(step)).report();
      BOOST_TEST((report.diagnosis != nullptr) == (report.outcome == Outcome::skipped));
    }
    trainer->accumulate(batch_of(6));
  }
  const StateFile a = capture(eager), b = capture(captured);
  for (auto* trainer : {&eager, &captured}) trainer->update();
  require_same_state(eager, captured);
}

BOOST_AUTO_TEST_CASE(arguments_and_block_counts_are_those_of_now) {
  Cuda cuda(small_workspace());
  Buffer<float, Cuda> buffer(cuda, 5000);
  for (int round = 1; round <= 6; ++round) {
    const std::int64_t size = round % 2 == 0 ? 5000 : 700;
    const auto number = static_cast<float>(round);
    record(cuda, buffer.data(), size, number, 3);
    const auto values = read(cuda, buffer);
    BOOST_TEST(values[0] == 4 * number);
    BOOST_TEST(values[static_cast<std::size_t>(size - 1)] == 4 * number);
    if (size == 700 && round > 2) BOOST_TEST(values[700] == 4 * (number - 1));
  }
  BOOST_TEST(cuda.graph_use().captured == 1);
  BOOST_TEST(cuda.graph_use().replayed == 4);
}

BOOST_AUTO_TEST_CASE(a_product_of_other_matrices_is_another_graph) {
  Cuda cuda(small_workspace());
  Buffer<float, Cuda> a(cuda, 4), b(cuda, 4), result(cuda, 4);
  compute::for_each(cuda, 4, Fill{a.data(), 2});
  compute::for_each(cuda, 4, Fill{b.data(), 3});
  const auto products = [&](const float* left) {
    cuda.begin_recording();
    for (int i = 0; i < 3; ++i) {
      compute::matmul(cuda, compute::matrix(left, 2, 2), compute::matrix(static_cast<const float*>(b.data()), 2, 2),
                      compute::matrix(result.data(), 2, 2), {.accumulate = i > 0});
    }
    cuda.end_recording();
    return read(cuda, result)[3];
  };
  for (int again = 0; again < 4; ++again) BOOST_TEST(products(a.data()) == 3 * (2 * 3 + 2 * 3));
  BOOST_TEST(products(b.data()) == 3 * (3 * 3 + 3 * 3));
  BOOST_TEST(cuda.graph_use().replayed == 1);
}

#if defined(HALFSTEP_CUDA_EMULATION)

BOOST_AUTO_TEST_CASE(what_cuda_does_not_capture_is_done_one_by_one_and_said) {
  for (const std::string call : {"cudaStreamBeginCapture", "cudaStreamGetCaptureInfo", "cudaStreamEndCapture",
                                 "cudaGraphInstantiate"}) {
    auto eager = new_trainer<Float16ScaledPolicy, Cuda>();
    const std::int64_t objects = halfstep_test::objects_alive();
    {
      auto captured = new_trainer<Float16ScaledPolicy, Cuda>();
      captured.capture();
      halfstep_test::fail_cuda_call(call, cudaErrorStreamCaptureUnsupported);
      for (int step = 0; step < 8; ++step) captured.step(batch_of(step));
      BOOST_TEST(captured.graph_use().refusal.find(call) != std::string::npos, captured.graph_use().refusal);
      BOOST_TEST(captured.graph_use().captured == 0);
      for (int step = 0; step < 8; ++step) eager.step(batch_of(step));
      BOOST_TEST(all_parameters(eager) == all_parameters(captured));
    }
    BOOST_TEST(halfstep_test::objects_alive() == objects);
  }
}

BOOST_AUTO_TEST_CASE(a_graph_that_cannot_be_changed_is_given_up_and_nothing_is_lost) {
  for (const std::string call : {"cudaGraphExecKernelNodeSetParams", "cudaGraphExecMemcpyNodeSetParams1D"}) {
    auto eager = new_trainer<Float16ScaledPolicy, Cuda>();
    auto captured = new_trainer<Float16ScaledPolicy, Cuda>();
    captured.capture();
    for (int step = 0; step < 12; ++step) {
      if (step == 6) halfstep_test::fail_cuda_call(call, cudaErrorInvalidValue, 1);
      eager.step(batch_of(step));
      captured.step(batch_of(step));
    }
    BOOST_TEST(all_parameters(eager) == all_parameters(captured));
    BOOST_TEST(captured.graph_use().refusal.find(call) != std::string::npos, captured.graph_use().refusal);
  }
}

BOOST_AUTO_TEST_CASE(work_that_is_lost_ends_the_trainers_use_and_says_so) {
  for (const std::string call : {"cudaGraphLaunch", "cudaLaunchKernel"}) {
    const std::int64_t objects = halfstep_test::objects_alive();
    {
      auto trainer = new_trainer<Float32Policy, Cuda>();
      trainer.capture();
      for (int step = 0; step < 6; ++step) trainer.step(batch_of(step));
      // Another shape is done one by one.
      const bool is_warm = call != "cudaLaunchKernel";
      halfstep_test::fail_cuda_call(call, cudaErrorLaunchFailure);
      BOOST_CHECK_EXCEPTION(
          for (int step = 6; step < 12; ++step) trainer.step(batch_of(step, is_warm ? 19 : 11)), DeviceError,
          [&](const DeviceError& error) { return std::string(error.what()).find(call) != std::string::npos; });
      BOOST_CHECK_EXCEPTION(trainer.step(batch_of(0)), DeviceError, [](const DeviceError& error) {
        return std::string(error.what()).find("make a new trainer") != std::string::npos;
      });
    }
    BOOST_TEST(halfstep_test::objects_alive() == objects);
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_unscaled_before_a_function_of_the_users_is_given_them) {
  const auto launches_before_the_function = [](auto trainer, bool captures) {
    trainer.capture(captures);
    halfstep_test::reset_cuda_calls();
    trainer.accumulate(batch_of(0));
    auto unscaled = trainer.close_window().unscale();
    std::int64_t launches = 0;
    unscaled.for_each([&](std::string_view, const auto&) { launches = cuda_calls().launches; });
    trainer.apply(std::move(unscaled));
    return launches;
  };
  BOOST_TEST(launches_before_the_function(new_trainer<Float16ScaledPolicy, Cuda>(), true) ==
             launches_before_the_function(new_trainer<Float16ScaledPolicy, Cuda>(), false));
}

BOOST_AUTO_TEST_CASE(memory_is_not_asked_for_while_recorded_work_holds_what_was_given_back) {
  Cuda cuda(small_workspace());
  Buffer<float, Cuda> first(cuda, 100);
  cuda.begin_recording();
  compute::for_each(cuda, 100, Fill{first.data(), 1});
  first = {};
  halfstep_test::reset_cuda_calls();
  const auto second = Buffer<float, Cuda>::uninitialized(cuda, 100);
  BOOST_TEST(cuda_calls().device_frees == 1);
  cuda.end_recording();
}

BOOST_AUTO_TEST_CASE(a_device_that_goes_while_it_records_gives_all_memory_back) {
  const std::size_t bytes = halfstep_test::device_bytes_in_use();
  {
    Cuda cuda(small_workspace());
    cuda.begin_recording();
    const Buffer<float, Cuda> a(cuda, 4), b(cuda, 4), result(cuda, 4);
    const auto matrix_of = [](const auto& buffer) { return compute::matrix<const float>(buffer.data(), 2, 2); };
    compute::matmul(cuda, matrix_of(a), matrix_of(b), compute::matrix(result.data(), 2, 2));
  }
  BOOST_TEST(halfstep_test::device_bytes_in_use() == bytes);
}

BOOST_AUTO_TEST_CASE(between_windows_nothing_is_recorded) {
  auto trainer = new_trainer<Float32Policy, Cuda>();
  trainer.capture();
  const auto is_given_at_once = [&] {
    halfstep_test::reset_cuda_calls();
    trainer.write_parameter("output.bias", std::vector<float>(3));
    return cuda_calls().copies_to_device == 1;
  };
  trainer.accumulate(batch_of(0));
  BOOST_TEST(!is_given_at_once());
  trainer.update();
  BOOST_TEST(is_given_at_once());
  trainer.accumulate(batch_of(0));
  trainer.abandon();
  BOOST_TEST(is_given_at_once());
}

BOOST_AUTO_TEST_CASE(asking_whether_work_is_done_leaves_no_error_for_others_to_find) {
  auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
  for (int step = 0; step < 4; ++step) trainer.step(batch_of(step));
  BOOST_TEST(cudaGetLastError() == cudaSuccess);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_carries_the_same_may_still_get_another_number_of_blocks) {
  Cuda cuda(small_workspace());
  Buffer<float, Cuda> blocks(cuda, 8);
  for (const std::int64_t count : {8, 8, 3, 5}) {
    cuda.begin_recording();
    for (int i = 0; i < 3; ++i) compute::detail::launch(cuda, count, CountBlock{blocks.data()});
    cuda.end_recording();
  }
  BOOST_TEST(cuda.graph_use().replayed == 2);
  const std::vector<float> expected{12, 12, 12, 9, 9, 6, 6, 6};
  BOOST_TEST(read(cuda, blocks) == expected);
}

BOOST_AUTO_TEST_CASE(graphs_of_no_use_make_room_and_few_commands_are_no_graph) {
  const std::int64_t objects = halfstep_test::objects_alive();
  {
    Cuda cuda(small_workspace());
    Buffer<float, Cuda> buffer(cuda, 10);
    const auto shapes = static_cast<int>(detail::CudaGraphs::capacity) + 6;
    for (int adds = 2; adds < 2 + shapes; ++adds) {
      for (int again = 0; again < 3; ++again) {
        const auto number = static_cast<float>(again + 1);
        record(cuda, buffer.data(), 10, number, adds);
        BOOST_TEST_REQUIRE(read(cuda, buffer)[9] == number * static_cast<float>(adds + 1));
      }
    }
    BOOST_TEST(cuda.graph_use().captured == shapes);
    // The last is there, the first is not.
    record(cuda, buffer.data(), 10, 1, 1 + shapes);
    BOOST_TEST(cuda.graph_use().replayed == shapes + 1);
    record(cuda, buffer.data(), 10, 1, 2);
    BOOST_TEST(cuda.graph_use().replayed == shapes + 1);
    halfstep_test::reset_cuda_calls();
    for (int again = 0; again < 4; ++again) record(cuda, buffer.data(), 10, 1, 1);
    BOOST_TEST(cuda_calls().launches == 8);
    BOOST_TEST(cuda_calls().graph_launches == 0);
  }
  BOOST_TEST(halfstep_test::objects_alive() == objects);
}

BOOST_AUTO_TEST_CASE(memory_given_back_while_work_is_recorded_lasts_until_it_is_done) {
  Cuda cuda(small_workspace());
  Buffer<float, Cuda> result(cuda, 100);
  const std::size_t bytes = halfstep_test::device_bytes_in_use();
  for (int round = 1; round <= 4; ++round) {
    cuda.begin_recording();
    {
      Buffer<float, Cuda> passing(cuda, 100);
      const std::vector<float> ones(100, static_cast<float>(round));
      cuda.upload(passing.data(), ones.data(), passing.bytes());
      compute::for_each(cuda, 100, Add{passing.data(), 2});
      cuda.copy(result.data(), passing.data(), passing.bytes());
    }
    Buffer<float, Cuda> next(cuda, 100);  // would take its place
    cuda.end_recording();
    BOOST_TEST(read(cuda, result)[50] == static_cast<float>(round + 2));
  }
  cuda.synchronize();
  BOOST_TEST(halfstep_test::device_bytes_in_use() == bytes);
}

#endif

BOOST_AUTO_TEST_CASE(recorded_uploads_keep_their_bytes_and_take_a_bounded_amount_of_page_locked_memory) {
  Cuda cuda(small_workspace());
  const std::int64_t piece = 2 << 20;  // floats of the largest piece
  Buffer<float, Cuda> to(cuda, 20 * piece);
  std::vector<float> from(static_cast<std::size_t>(piece));
  cuda.begin_recording();
  for (int i = 0; i < 20; ++i) {
    from.assign(from.size(), static_cast<float>(i));
    cuda.upload(to.data() + i * piece, from.data(), from.size() * sizeof(float));
  }
  cuda.end_recording();
  BOOST_TEST(cuda.service_bytes() <= std::size_t{64} << 20);
  const auto values = read(cuda, to);
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST(values[static_cast<std::size_t>(i * piece)] == static_cast<float>(i));
    BOOST_TEST(values[static_cast<std::size_t>((i + 1) * piece - 1)] == static_cast<float>(i));
  }
}

BOOST_AUTO_TEST_CASE(work_given_to_the_stream_by_others_comes_after_what_was_recorded) {
  Cuda cuda(small_workspace());
  Buffer<float, Cuda> a(cuda, 16), b(cuda, 16);
  cuda.begin_recording();
  compute::for_each(cuda, 16, Fill{a.data(), 5});
  BOOST_REQUIRE(cudaMemcpyAsync(b.data(), a.data(), a.bytes(), cudaMemcpyDeviceToDevice, cuda.stream()) == cudaSuccess);
  compute::for_each(cuda, 16, Fill{a.data(), 6});
  cuda.end_recording();
  BOOST_TEST(read(cuda, b)[3] == 5);
  BOOST_TEST(read(cuda, a)[3] == 6);
}

BOOST_AUTO_TEST_CASE(two_trainers_capture_in_two_threads) {
  const auto run = [](std::vector<float>& weights, std::string& refusal) {
    auto trainer = new_trainer<Float16ScaledPolicy, Cuda>();
    trainer.capture();
    for (int step = 0; step < 12; ++step) trainer.step(batch_of(step));
    weights = all_parameters(trainer);
    refusal = trainer.graph_use().refusal;
  };
  std::vector<float> weights[2];
  std::string refusal[2];
  std::thread other([&] { run(weights[1], refusal[1]); });
  run(weights[0], refusal[0]);
  other.join();
  BOOST_TEST(weights[0] == weights[1]);
  BOOST_TEST(refusal[0] + refusal[1] == "");
}

BOOST_AUTO_TEST_SUITE_END()
