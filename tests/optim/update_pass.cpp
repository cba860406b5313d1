#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>
#include <halfstep/optim/adam.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/optim/sgd.hpp>
#include <halfstep/optim/update_pass.hpp>
#include <limits>
#include <random>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

BOOST_AUTO_TEST_SUITE(update_pass_tests)

using namespace halfstep;

namespace {

using Floats = std::vector<float>;

// Until a step is decided there is nothing to apply, and nothing that would change a gradient but a limit of zero.
static_assert(!UpdateFacts<int>{}.apply && UpdateFacts<int>{}.inverse_scale == 1 &&
              UpdateFacts<int>{}.clip_coefficient == 1 && UpdateFacts<int>{}.clip_value == 0);

// C++ has no array of no elements.
static_assert(std::extent_v<decltype(MomentPointers<0>::of)> == 1);

/// An optimizer that remembers nothing.
struct Plain {
  static constexpr int moments = 0;
  struct Coefficients {
    float learning_rate;
  };
  Coefficients coefficients(float rate, std::int64_t) const { return {rate}; }
  static void update(float& weight, float g, const Coefficients& c, const ParameterOptions& parameter) {
    weight -= c.learning_rate * parameter.learning_rate_factor * g;
  }
};

/// Flat buffers of three parameters, the second without a gradient, with random content everywhere.
template <class Optimizer, class Compute>
struct Buffers {
  Buffers() {
    for (Floats* buffer : {&gradients, &masters, &moments[0], &moments[1]}) {
      for (float& value : *buffer) value = normal(random);
    }
    for (float& value : moments[1]) value *= value;
    for (std::size_t i = 0; i < working.size(); ++i) working[i] = Compute(masters[i] + 1.0f);
  }

  void update(bool apply = true, float clip_value = 1.0f) {
    facts.apply = apply;
    facts.inverse_scale = 1.0f / 3.0f;
    facts.clip_coefficient = 0.7f;
    facts.clip_value = clip_value;
    facts.coefficients = Optimizer{}.coefficients(0.01f, 3);
    UpdateChunk<Optimizer, Compute> pass{chunks.data(),
                                         has_gradient.data(),
                                         options.data(),
                                         gradients.data(),
                                         masters.data(),
                                         working.data(),
                                         {},
                                         &facts};
    for (std::size_t m = 0; m < Optimizer::moments; ++m) pass.moments[m] = moments[m].data();
    if constexpr (std::is_same_v<Compute, float>) pass.working = nullptr;
    Host host;
    compute::for_each_chunk(host, static_cast<std::int64_t>(chunks.size()), pass);
  }

  std::mt19937 random{5};
  std::normal_distribution<float> normal;
  std::vector<compute::Segment> segments{{0, 40001}, {40064, 7}, {40192, 60000}};
  std::vector<compute::SegmentChunk> chunks = compute::cut_into_chunks(segments);
  std::vector<std::uint8_t> has_gradient{1, 0, 1};
  std::vector<ParameterOptions> options{{1.0f, 1.0f}, {1.0f, 1.0f}, {0.5f, 0.0f}};
  Floats gradients = Floats(100224), masters = gradients, moments[2] = {gradients, gradients};
  std::vector<Compute> working = std::vector<Compute>(100224);
  UpdateFacts<typename Optimizer::Coefficients> facts;
};

template <class Compute>
std::uint32_t bits(Compute value) {
  return detail::bits_of(static_cast<float>(value));
}

/// The same bits. A compiler that has fused multiply-add uses it here or there as it likes: then up to the
/// last two bits of what was added up.
bool same(float a, float b, [[maybe_unused]] float largest_term) {
#if defined(__FMA__)
  return bits(a) == bits(b) || std::abs(a - b) <= 0x1p-22f * largest_term;
#else
  return bits(a) == bits(b);
#endif
}

using Cases = std::tuple<std::pair<SGD, float>, std::pair<SGD, float16>, std::pair<Adam, bfloat16>,
                         std::pair<AdamW, float>, std::pair<AdamW, float16>, std::pair<Plain, float16>>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(each_element_moves_as_the_element_function_says_and_nothing_else_does, Case,
                              Cases) {
  using Optimizer = typename Case::first_type;
  using Compute = typename Case::second_type;
  Buffers<Optimizer, Compute> before, after;
  after.update();
  std::int64_t wrong = 0, clipped = 0;
  std::size_t next = 0;
  const auto untouched_up_to = [&](std::size_t end) {
    for (; next < end; ++next) {
      wrong += bits(after.masters[next]) != bits(before.masters[next]);
      wrong += bits(after.working[next]) != bits(before.working[next]);
      for (std::size_t m = 0; m < 2; ++m)
        wrong += bits(after.moments[m][next]) != bits(before.moments[m][next]);
    }
  };
  for (std::size_t p = 0; p < 3; ++p) {
    if (before.has_gradient[p] == 0) continue;
    const auto begin = static_cast<std::size_t>(before.segments[p].offset);
    const auto end = begin + static_cast<std::size_t>(before.segments[p].size);
    untouched_up_to(begin);
    for (; next < end; ++next) {
      const float unclipped = before.gradients[next] * (1.0f / 3.0f) * 0.7f;
      const float g = clip_value(unclipped, 1.0f);
      clipped += g != unclipped;
      float &w = before.masters[next], &m = before.moments[0][next], &v = before.moments[1][next];
      const float largest = 1.0f + std::abs(w) + std::abs(m) + std::abs(v);
      if constexpr (Optimizer::moments == 0) {
        Optimizer::update(w, g, after.facts.coefficients, before.options[p]);
      } else if constexpr (Optimizer::moments == 1) {
        Optimizer::update(w, g, m, after.facts.coefficients, before.options[p]);
      } else {
        Optimizer::update(w, g, m, v, after.facts.coefficients, before.options[p]);
      }
      wrong += !same(v, after.moments[1][next], largest);
      wrong += !same(w, after.masters[next], largest);
      wrong += !same(m, after.moments[0][next], largest);
      if constexpr (!std::is_same_v<Compute, float>) {
        wrong += after.working[next].bits() != Compute(after.masters[next]).bits();
      }
    }
  }
  untouched_up_to(after.masters.size());
  BOOST_TEST(wrong == 0);
  BOOST_TEST(clipped > 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_step_that_is_not_applied_keeps_every_bit, Case, Cases) {
  Buffers<typename Case::first_type, typename Case::second_type> before, after;
  after.gradients[5] = std::numeric_limits<float>::infinity();
  after.update(false);
  BOOST_TEST(after.masters == before.masters);
  BOOST_TEST(after.moments[0] == before.moments[0]);
  BOOST_TEST(after.moments[1] == before.moments[1]);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < after.working.size(); ++i)
    wrong += bits(after.working[i]) != bits(before.working[i]);
  BOOST_TEST(wrong == 0);
}

#if defined(_OPENMP)
BOOST_AUTO_TEST_CASE(one_thread_and_several_give_the_same_bits) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  Buffers<AdamW, float16> alone;
  alone.update();
  for (const int threads : {2, 3}) {
    omp_set_num_threads(threads);
    Buffers<AdamW, float16> together;
    together.update();
    BOOST_TEST(together.masters == alone.masters);
    BOOST_TEST(together.moments[1] == alone.moments[1]);
  }
  omp_set_num_threads(before);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
