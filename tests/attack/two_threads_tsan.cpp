// Under ThreadSanitizer: trainers in threads of their own share nothing but what nobody writes. Without
// OpenMP, whose barriers the sanitizer does not know.
#include <boost/test/unit_test.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/trainer.hpp>
#include <limits>
#include <thread>
#include <vector>

#include "support/classifier.hpp"

BOOST_AUTO_TEST_SUITE(two_threads_tsan_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct Data {
  Points good{40, 16, 4}, bad{40, 16, 4};
  Data() { bad.inputs[3] = std::numeric_limits<float>::infinity(); }
};

/// All that a trainer does, from its first values to the prediction of a model.
template <class Policy>
std::vector<float> run(const Data& data) {
  Trainer<Classifier, AdamW, Policy> trainer{
      Classifier(16, 200, 4), {.learning_rate = warmup_cosine(1e-2, 2, 8)}, {.clip_norm = 0.5f, .seed = 7}};
  for (int window = 0; window < 8; ++window) {
    trainer.accumulate(data.good);
    trainer.step(window == 3 ? data.bad : data.good);
  }
  auto result = all_parameters(trainer);
  const auto prediction = trainer.predict(data.good.images());
  result.insert(result.end(), prediction.begin(), prediction.end());
  result.push_back(static_cast<float>(trainer.evaluate(data.good).loss()));
  result.push_back(static_cast<float>(trainer.state().skipped));
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(trainers_in_their_own_threads_do_not_race) {
  const Data data;
  std::vector<float> results[4];
  {
    // No run before: what is built once a process is built by whoever comes first.
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(
          [&, i] { results[i] = i % 2 == 0 ? run<Float16ScaledPolicy>(data) : run<BFloat16Policy>(data); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  BOOST_TEST((results[0] == results[2] && results[1] == results[3]));
  BOOST_TEST((results[0] == run<Float16ScaledPolicy>(data) && results[1] == run<BFloat16Policy>(data)));
  BOOST_TEST(results[0].back() == 1.0f);
}

BOOST_AUTO_TEST_SUITE_END()
