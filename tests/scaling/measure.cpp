#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <halfstep/scaling/measure.hpp>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

BOOST_AUTO_TEST_SUITE(measure_tests)

using namespace halfstep;

namespace {

constexpr float largest = std::numeric_limits<float>::max();

/// Gradients of parameters of these sizes in one flat buffer, NaN in the gaps between them.
struct FlatGradients {
  explicit FlatGradients(const std::vector<std::int64_t>& sizes) : has_gradient(sizes.size(), 1) {
    std::int64_t offset = 0;
    for (const std::int64_t size : sizes) {
      segments.push_back({offset, size});
      offset +=
          (size + compute::segment_alignment - 1) / compute::segment_alignment * compute::segment_alignment +
          compute::segment_alignment;
    }
    values.assign(static_cast<std::size_t>(offset), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      for (std::int64_t i = 0; i < sizes[p]; ++i) at(p, i) = 0.0f;
    }
  }

  float& at(std::size_t parameter, std::int64_t index) {
    return values[static_cast<std::size_t>(segments[parameter].offset + index)];
  }

  GradientFacts measure(float inverse_scale = 1.0f) const {
    const auto chunks = compute::cut_into_chunks(segments);
    const auto count = static_cast<std::int64_t>(chunks.size());
    std::vector<MeasurePartial> partials(chunks.size());
    Host host;
    compute::for_each_chunk(host, count,
                            MeasureChunk{chunks.data(), segments.data(), has_gradient.data(), values.data(),
                                         &inverse_scale, partials.data()});
    return join_partials(partials.data(), chunks.data(), count, true, true);
  }

  std::vector<compute::Segment> segments;
  std::vector<std::uint8_t> has_gradient;
  std::vector<float> values;
};

float of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

const std::vector<std::int64_t> sizes{17, 70001, 1, 8192, 100000};
const std::vector<std::uint32_t> bad_bits{0x7f800000u, 0xff800000u, 0x7f800001u,
                                          0x7fc00000u, 0xffffffffu, 0x7fffffffu};

}  // namespace

BOOST_AUTO_TEST_CASE(the_sum_of_squares_is_that_of_the_unscaled_gradients) {
  FlatGradients gradients(sizes);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  double expected = 0;
  constexpr float inverse = 1.0f / 3000.0f;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    for (std::int64_t i = 0; i < sizes[p]; ++i) {
      gradients.at(p, i) = 3000.0f * normal(random);
      const double g = static_cast<double>(gradients.at(p, i) * inverse);
      expected += g * g;
    }
  }
  const GradientFacts facts = gradients.measure(inverse);
  BOOST_TEST(facts.gradients_finite);
  BOOST_TEST(facts.first_bad_parameter == -1);
  // 178211 terms added in double.
  BOOST_TEST(std::abs(facts.sum_of_squares - expected) <= 1e-12 * expected);
}

BOOST_AUTO_TEST_CASE(finite_gradients_never_have_an_infinite_norm) {
  FlatGradients gradients(sizes);
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    for (std::int64_t i = 0; i < sizes[p]; ++i) gradients.at(p, i) = i % 2 == 0 ? largest : -largest;
  }
  const GradientFacts facts = gradients.measure();
  const double square = static_cast<double>(largest) * static_cast<double>(largest);
  BOOST_TEST(facts.gradients_finite);
  BOOST_TEST(std::abs(facts.sum_of_squares / (178211 * square) - 1.0) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(the_smallest_gradients_have_a_norm_too) {
  FlatGradients gradients({4});
  for (std::int64_t i = 0; i < 4; ++i) gradients.at(0, i) = std::numeric_limits<float>::denorm_min();
  BOOST_TEST(gradients.measure().sum_of_squares == 4 * 0x1p-298);
  BOOST_TEST(gradients.measure(0.25f).sum_of_squares == 0.0);  // unscaled they are zero, and finite
  BOOST_TEST(FlatGradients({4}).measure().sum_of_squares == 0.0);
}

BOOST_AUTO_TEST_CASE(what_overflows_when_it_is_unscaled_is_not_finite) {
  FlatGradients gradients({3});
  gradients.at(0, 1) = largest;
  BOOST_TEST(gradients.measure(1.0f).gradients_finite);
  const GradientFacts facts = gradients.measure(2.0f);
  BOOST_TEST(!facts.gradients_finite);
  BOOST_TEST(facts.first_bad_index == 1);
}

BOOST_AUTO_TEST_CASE(every_kind_of_non_finite_number_is_found_wherever_it_is) {
  for (const std::uint32_t bits : bad_bits) {
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      for (const std::int64_t index : {std::int64_t{0}, sizes[p] / 2, sizes[p] - 1}) {
        FlatGradients gradients(sizes);
        gradients.at(p, index) = of_bits(bits);
        const GradientFacts facts = gradients.measure(0.5f);
        BOOST_TEST(!facts.gradients_finite);
        BOOST_TEST(facts.first_bad_parameter == static_cast<std::int64_t>(p));
        BOOST_TEST(facts.first_bad_index == index);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_position_of_a_chunk_is_looked_at) {
  FlatGradients gradients({100});
  for (std::int64_t index = 0; index < 100; ++index) {
    gradients.at(0, index) = of_bits(0x7f800000u);
    BOOST_TEST(gradients.measure().first_bad_index == index);
    gradients.at(0, index) = 1.0f;
  }
}

BOOST_AUTO_TEST_CASE(the_first_of_a_later_chunk_is_counted_from_the_start_of_its_parameter) {
  for (const std::int64_t index : {compute::chunk_size, 3 * compute::chunk_size, 3 * compute::chunk_size - 1}) {
    FlatGradients gradients(sizes);
    gradients.at(1, index) = of_bits(0x7f800000u);
    BOOST_TEST(gradients.measure().first_bad_parameter == 1);
    BOOST_TEST(gradients.measure().first_bad_index == index);
  }
}

BOOST_AUTO_TEST_CASE(of_several_the_first_in_parameter_order_is_named) {
  FlatGradients gradients(sizes);
  gradients.at(4, 0) = of_bits(0x7fc00000u);
  gradients.at(4, 99999) = of_bits(0x7f800000u);
  BOOST_TEST(gradients.measure().first_bad_parameter == 4);
  BOOST_TEST(gradients.measure().first_bad_index == 0);
  gradients.at(1, 70000) = of_bits(0x7f800000u);
  gradients.at(1, 40000) = of_bits(0xff800000u);
  BOOST_TEST(gradients.measure().first_bad_parameter == 1);
  BOOST_TEST(gradients.measure().first_bad_index == 40000);
}

BOOST_AUTO_TEST_CASE(padding_and_parameters_without_a_gradient_do_not_count) {
  FlatGradients gradients(sizes);
  gradients.at(0, 0) = 3.0f;
  gradients.at(4, 5) = 4.0f;
  for (std::int64_t i = 0; i < sizes[1]; ++i) gradients.at(1, i) = of_bits(0x7fc00000u);
  gradients.has_gradient[1] = 0;
  const GradientFacts facts = gradients.measure();
  BOOST_TEST(facts.gradients_finite);
  BOOST_TEST(facts.sum_of_squares == 25.0);
}

#if defined(_OPENMP)
BOOST_AUTO_TEST_CASE(one_thread_and_several_give_the_same_bits) {
  FlatGradients gradients(sizes);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    for (std::int64_t i = 0; i < sizes[p]; ++i) gradients.at(p, i) = normal(random);
  }
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const double alone = gradients.measure(0.3f).sum_of_squares;
  for (const int threads : {2, 3, 4}) {
    omp_set_num_threads(threads);
    BOOST_TEST(gradients.measure(0.3f).sum_of_squares == alone);
  }
  omp_set_num_threads(before);
}
#endif

BOOST_AUTO_TEST_CASE(what_the_caller_knows_of_the_window_is_handed_on) {
  const MeasurePartial partial{4.0, -1};
  const compute::SegmentChunk chunk{0, 1, 0};
  for (const bool has_gradients : {true, false}) {
    for (const bool loss_finite : {true, false}) {
      const GradientFacts facts = join_partials(&partial, &chunk, 1, has_gradients, loss_finite);
      BOOST_TEST(facts.has_gradients == has_gradients);
      BOOST_TEST(facts.loss_finite == loss_finite);
      BOOST_TEST(facts.gradients_finite);
      BOOST_TEST(facts.sum_of_squares == 4.0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
