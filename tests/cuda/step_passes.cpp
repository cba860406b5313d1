// The two passes of a step over the flat buffers, measuring and updating, as a GPU's teams do them: beside the host's.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <halfstep/compute/for_each.hpp>
#include <halfstep/device/buffer.hpp>
#include <halfstep/device/device.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/optim/update_pass.hpp>
#include <halfstep/scaling/measure.hpp>

#include "cuda/emulated.hpp"
#include "cuda/flat_parameters.hpp"
#if defined(HALFSTEP_CUDA_EMULATION)
#include "cuda/thread_team.hpp"
#endif

BOOST_AUTO_TEST_SUITE(step_passes_tests)

using namespace halfstep;
using halfstep::test::Flat;

namespace step_passes_test {

template <class T>
Buffer<T, Cuda> sent(Cuda& cuda, const std::vector<T>& values) {
  Buffer<T, Cuda> buffer(cuda, static_cast<std::int64_t>(values.size()));
  cuda.upload(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}
template <class T>
std::vector<T> fetched(Cuda& cuda, const Buffer<T, Cuda>& buffer) {
  std::vector<T> values(static_cast<std::size_t>(buffer.size()));
  cuda.download(values.data(), buffer.data(), buffer.bytes());
  return values;
}

/// Joins the partial results with a team, as a step's decision does.
struct Join {
  const MeasurePartial* partials;
  std::int64_t count;
  MeasurePartial* result;
  std::int64_t team_tasks() const { return 1; }
  std::int64_t team_width() const { return compute::chunk_size; }
  template <class Team>
  HALFSTEP_HOST_DEVICE void run(const Team& team, std::int64_t) const {
    const MeasurePartial whole = join_partials_of(team, partials, count);
    if (team.leads()) *result = whole;
  }
};

/// What teams of several threads of the CPU find, for the emulated GPU's have one.
void compare_threads([[maybe_unused]] const Flat& flat, [[maybe_unused]] float inverse,
                     [[maybe_unused]] const std::vector<MeasurePartial>& expected,
                     [[maybe_unused]] const GradientFacts& facts) {
#if defined(HALFSTEP_CUDA_EMULATION)
  std::vector<MeasurePartial> found(flat.chunks.size());
  MeasurePartial joined;
  test::run_by_teams(MeasureChunk{flat.chunks.data(), flat.segments.data(), flat.has_gradient.data(),
                                  flat.values.data(), &inverse, found.data(), flat.count()});
  test::run_by_teams(Join{found.data(), flat.count(), &joined});
  for (std::size_t i = 0; i < found.size(); ++i) BOOST_TEST(found[i].first_non_finite == expected[i].first_non_finite);
  BOOST_TEST((joined.first_non_finite < 0) == facts.gradients_finite);
  if (facts.gradients_finite) {
    BOOST_TEST(joined.sum_of_squares == facts.sum_of_squares);
  } else {
    const auto chunk = static_cast<std::size_t>(joined.first_non_finite);
    BOOST_TEST(flat.chunks[chunk].segment == facts.first_bad_parameter);
  }
#endif
}

/// What the GPU finds, and what the host does.
void compare(const Flat& flat) {
  constexpr float inverse = 0.5f;
  std::vector<MeasurePartial> expected(flat.chunks.size());
  Host host;
  compute::for_each_chunk(host, flat.count(),
                          MeasureChunk{flat.chunks.data(), flat.segments.data(), flat.has_gradient.data(),
                                       flat.values.data(), &inverse, expected.data()});
  const GradientFacts facts = join_partials(expected.data(), flat.chunks.data(), flat.count(), true, true);
  compare_threads(flat, inverse, expected, facts);

  Cuda cuda;
  const auto chunks = sent(cuda, flat.chunks);
  const auto segments = sent(cuda, flat.segments);
  const auto flags = sent(cuda, flat.has_gradient);
  const auto values = sent(cuda, flat.values);
  const auto scale = sent(cuda, std::vector<float>{inverse});
  Buffer<MeasurePartial, Cuda> partials(cuda, flat.count()), joined(cuda, 1);
  compute::for_each_chunk(cuda, flat.count(),
                          MeasureChunk{chunks.data(), segments.data(), flags.data(), values.data(), scale.data(),
                                       partials.data(), flat.count()});
  compute::for_each_task(cuda, 1, Join{partials.data(), flat.count(), joined.data()});

  const auto found = fetched(cuda, partials);
  const MeasurePartial whole = fetched(cuda, joined)[0];
  for (std::size_t i = 0; i < found.size(); ++i) BOOST_TEST(found[i].first_non_finite == expected[i].first_non_finite);
  BOOST_TEST((whole.first_non_finite < 0) == facts.gradients_finite);
  if (facts.gradients_finite) {
    // Squares of halves of small whole numbers: exact in any order.
    BOOST_TEST(whole.sum_of_squares == facts.sum_of_squares);
    BOOST_TEST(whole.sum_of_squares > 0);
  } else {
    const auto chunk = static_cast<std::size_t>(whole.first_non_finite);
    BOOST_TEST(flat.chunks[chunk].segment == facts.first_bad_parameter);
    BOOST_TEST(found[chunk].first_non_finite == facts.first_bad_index);
  }
}

/// An optimizer that remembers nothing.
struct Plain {
  static constexpr int moments = 0;
  struct Coefficients {
    float learning_rate;
  };
  Coefficients coefficients(float rate, std::int64_t) const { return {rate}; }
  HALFSTEP_HOST_DEVICE static void update(float& weight, float g, const Coefficients& c, const ParameterOptions& rule) {
    weight -= c.learning_rate * rule.learning_rate_factor * g;
  }
};

/// The bits, and on a GPU their neighbours.
template <class T>
bool differs(T found, T expected) {
  const auto a = static_cast<double>(static_cast<float>(found)), e = static_cast<double>(static_cast<float>(expected));
  return !(std::abs(a - e) <= test::bits_or_neighbours<T>.at(e));
}

template <class Optimizer, class Compute>
void compare_updates(const Optimizer& optimizer, bool apply) {
  const Flat flat;
  using Pass = UpdateChunk<Optimizer, Compute>;
  const std::vector<UpdateFacts<typename Optimizer::Coefficients>> facts{
      {apply, 0.25f, 0.75f, 2.0f, optimizer.coefficients(0.01f, 3)}};
  const std::vector<ParameterOptions> options{{1, 1}, {0.5f, 0}, {1, 1}, {1, 2}};
  std::vector<float> masters = flat.values, moments[2];
  for (float& value : masters) value = 1.0f + 0.01f * value;
  for (auto& moment : moments) {
    moment = flat.values;
    for (float& value : moment) value *= 0.001f * value;
  }
  std::vector<Compute> working(masters.size(), Compute(7.0f));

  Cuda cuda;
  const auto chunks = sent(cuda, flat.chunks);
  const auto flags = sent(cuda, flat.has_gradient);
  const auto device_options = sent(cuda, options);
  const auto gradients = sent(cuda, flat.values);
  const auto device_masters = sent(cuda, masters);
  const auto device_working = sent(cuda, working);
  const Buffer<float, Cuda> device_moments[2] = {sent(cuda, moments[0]), sent(cuda, moments[1])};
  constexpr std::size_t moment_count = Optimizer::moments;
  const auto device_facts = sent(cuda, facts);
  constexpr bool copies = !std::is_same_v<Compute, float>;
  Pass pass{chunks.data(),        flags.data(),
            device_options.data(), gradients.data(),
            device_masters.data(), copies ? device_working.data() : nullptr,
            {},                   device_facts.data(),
            flat.count()};
  for (std::size_t m = 0; m != moment_count; ++m) pass.moments[m] = device_moments[m].data();
  compute::for_each_chunk(cuda, flat.count(), pass);

  Pass on_host{flat.chunks.data(), flat.has_gradient.data(), options.data(), flat.values.data(),
               masters.data(),     copies ? working.data() : nullptr, {}, facts.data()};
  for (std::size_t m = 0; m != moment_count; ++m) on_host.moments[m] = moments[m].data();
  Host host;
  compute::for_each_chunk(host, flat.count(), on_host);

  const auto new_masters = fetched(cuda, device_masters);
  const auto new_working = fetched(cuda, device_working);
  std::int64_t wrong = 0;
  for (const auto& segment : flat.segments) {
    for (std::int64_t k = 0; k < segment.size; ++k) {
      const auto i = static_cast<std::size_t>(segment.offset + k);
      wrong += differs(new_masters[i], masters[i]);
      wrong += differs(new_working[i], working[i]);
    }
  }
  for (std::size_t m = 0; m != moment_count; ++m) {
    const auto moment = fetched(cuda, device_moments[m]);
    for (std::size_t i = 0; i < moment.size(); ++i) wrong += !is_nan(moments[m][i]) && differs(moment[i], moments[m][i]);
  }
  BOOST_TEST(wrong == 0);
}

}  // namespace step_passes_test

using namespace step_passes_test;

BOOST_AUTO_TEST_CASE(the_measurements_of_a_gpu_are_those_of_the_host) { compare(Flat()); }

BOOST_AUTO_TEST_CASE(the_first_bad_gradient_is_the_same_wherever_there_are_some) {
  const std::int64_t last = Flat().segments[3].offset;
  const std::int64_t firsts[] = {0, 2, 64, 67, 64 + 8191, 64 + 8192, 64 + 8194, last, last + 3, last + 4, last + 5};
  for (const std::int64_t first : firsts) {
    for (const std::int64_t second : {1, 70, 64 + 8193}) {
      Flat flat;
      flat.values[static_cast<std::size_t>(first)] = std::numeric_limits<float>::quiet_NaN();
      flat.values[static_cast<std::size_t>(second)] = -std::numeric_limits<float>::infinity();
      compare(flat);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_the_parameter_without_a_gradient_holds_does_not_matter) {
  Flat flat;
  flat.values[static_cast<std::size_t>(flat.segments[2].offset + 5)] = std::numeric_limits<float>::infinity();
  compare(flat);
}

BOOST_AUTO_TEST_CASE(a_sum_that_is_not_finite_is_no_bad_gradient) {
  // Of finite gradients every square is finite in double.
  Flat flat;
  for (std::int64_t i = 0; i < 3; ++i) flat.values[static_cast<std::size_t>(i)] = std::numeric_limits<float>::max();
  compare(flat);
}

BOOST_AUTO_TEST_CASE(an_update_has_the_bits_of_the_hosts) {
  compare_updates<AdamW, bfloat16>(AdamW{}, true);
  compare_updates<AdamW, float>(AdamW{}, true);
  compare_updates<SGD, float16>(SGD{}, true);
  compare_updates<Plain, bfloat16>(Plain{}, true);
}

BOOST_AUTO_TEST_CASE(an_update_that_is_not_applied_changes_nothing) { compare_updates<AdamW, float16>(AdamW{}, false); }

BOOST_AUTO_TEST_SUITE_END()
