// The same seed gives the same bits: run after run, for one thread and for several, and beside another
// trainer.
//
// Passes over the parameters and the inputs, and products, are large enough for threads; the hidden layer is
// narrow, as element by element its activations cost the most. The products of the larger batch go to oneDNN
// where it is there: for some shapes it sums in another order for another number of threads (64 x 64 x 1024
// with two instead of one, most shapes with three), so that across numbers of threads large products need
// HostOptions::deterministic. Products below compute::portable_limit, those of the smaller batch, do not.
#include <boost/test/unit_test.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/classifier.hpp"
#include "support/sanitizers.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

BOOST_AUTO_TEST_SUITE(reproducible_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

using Policies = std::conditional_t<under_sanitizers, std::tuple<Float16ScaledPolicy>,
                                    std::tuple<Float32Policy, BFloat16Policy, Float16ScaledPolicy>>;

struct Run {
  std::vector<double> losses, norms;
  std::vector<float> parameters;
  StepState state;
  friend bool operator==(const Run&, const Run&) = default;
};

const Points large(64, 1024, 10, 1), small(48, 1024, 10, 2), short_one(3, 1024, 10, 3);

template <class Policy>
Run run(std::uint64_t seed = 7, HostOptions device = {}, const Points& first_batch = large) {
  Trainer<Classifier, AdamW, Policy> trainer{Classifier(1024, 72, 10),
                                             {.learning_rate = warmup_cosine(1e-2, 2, 8)},
                                             {.clip_norm = 0.5f, .seed = seed, .device = device}};
  Run result;
  for (int window = 0; window < 2; ++window) {
    for (const Points* batch : {&first_batch, &small}) {
      if (window == 1) trainer.accumulate(short_one);
      const StepReport report = trainer.step(*batch).report();
      result.losses.push_back(report.loss);
      result.norms.push_back(report.gradient_norm);
    }
  }
  result.parameters = all_parameters(trainer);
  result.state = trainer.state();
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(a_seed_gives_the_same_bits_run_after_run, Policy, Policies) {
  const Run first = run<Policy>();
  BOOST_TEST((run<Policy>() == first));
  BOOST_TEST((run<Policy>(8).parameters != first.parameters));
  BOOST_TEST(first.state.update_number == 4);
}

#if defined(_OPENMP)
BOOST_AUTO_TEST_CASE_TEMPLATE(the_number_of_threads_changes_no_bit, Policy, Policies) {
  const int before = omp_get_max_threads();
  const auto deterministic = [] { return run<Policy>(7, {.deterministic = true}); };
  const auto of_small_products = [] { return run<Policy>(7, {}, small); };
  omp_set_num_threads(1);
  const Run alone = deterministic(), small_alone = of_small_products();
  for (const int threads : {3, 2, 5}) {
    if (under_sanitizers && threads != 3) continue;
    omp_set_num_threads(threads);
    BOOST_TEST((deterministic() == alone), threads << " threads");
    BOOST_TEST((of_small_products() == small_alone), threads << " threads, small products");
  }
  omp_set_num_threads(before);
}
#endif

BOOST_AUTO_TEST_CASE(two_trainers_with_two_policies_in_two_threads_do_not_meet) {
  const Run narrow = run<Float16ScaledPolicy>(), wide = run<Float32Policy>();
  for (int turn = 0; turn < (under_sanitizers ? 1 : 3); ++turn) {
    Run beside, other;
    std::thread thread([&] { beside = run<Float16ScaledPolicy>(); });
    other = run<Float32Policy>();
    thread.join();
    BOOST_TEST((beside == narrow));
    BOOST_TEST((other == wide));
  }
  BOOST_TEST((narrow.parameters != wide.parameters));
}

BOOST_AUTO_TEST_CASE(two_trainers_may_take_turns) {
  const Points points(20, 4, 3);
  using Narrow = Trainer<Classifier, AdamW, Float16ScaledPolicy>;
  using Wide = Trainer<Classifier, AdamW, Float32Policy>;
  Narrow narrow_alone{Classifier()}, narrow{Classifier()};
  Wide wide_alone{Classifier()}, wide{Classifier()};
  for (int step = 0; step < 3; ++step) narrow_alone.step(points);
  for (int step = 0; step < 3; ++step) wide_alone.step(points);
  for (int step = 0; step < 3; ++step) {
    narrow.accumulate(points);
    wide.accumulate(points);
    narrow.update();
    wide.update();
  }
  BOOST_TEST(all_parameters(narrow) == all_parameters(narrow_alone));
  BOOST_TEST(all_parameters(wide) == all_parameters(wide_alone));
}

BOOST_AUTO_TEST_SUITE_END()
