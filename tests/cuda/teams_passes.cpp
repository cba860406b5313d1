// Kernels of passes over flat memory: element by element, sums, and those of a step; by threads that share a chunk.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/device/device.hpp>
#include <halfstep/compute/column_sum.hpp>
#include <halfstep/compute/convert.hpp>
#include <halfstep/compute/reduce.hpp>
#include <halfstep/optim/adamw.hpp>
#include <halfstep/policy.hpp>
#include <halfstep/trainer/step_record.hpp>
#include <limits>
#include <vector>

#include "cuda/flat_parameters.hpp"
#include "cuda/thread_team.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(teams_passes_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace teams_passes_test {

/// What is added to is known before.
struct AddIndex {
  std::int32_t* to;
  void operator()(std::int64_t i) const { to[i] += static_cast<std::int32_t>(i); }
};

struct WholeNumber {
  std::int64_t operator()(std::int64_t i) const { return i * 37 % 101; }
};

using Record = StepRecord<AdamW::Coefficients>;

}  // namespace teams_passes_test
using namespace teams_passes_test;

BOOST_AUTO_TEST_CASE(threads_that_share_a_range_visit_every_element_once) {
  struct Found {
    std::vector<std::int32_t> sums;
    std::vector<float16> rounded;
  };
  for (const std::int64_t n : {1, 1023, 2500}) {
    const auto values = random_numbers(n + 1, -1.0f, 1.0f);
    const std::int64_t tasks = (n + compute::detail::block_elements - 1) / compute::detail::block_elements;
    // As fours, and where memory does not begin one.
    for (const std::int64_t shift : {0, 1}) {
      const auto run = [&](Found& found, const auto& by) {
        using Convert = compute::detail::ConvertElement<float, float16>;
        by(tasks, compute::detail::EachElement<AddIndex>{{found.sums.data()}, n});
        by(tasks, compute::detail::EachElement<Convert>{{values.data() + shift, found.rounded.data() + shift}, n});
      };
      const auto size = static_cast<std::size_t>(n + 1);
      const Found before{std::vector<std::int32_t>(size, 5), std::vector<float16>(size, float16(never_written))};
      compare_with_one_thread(before, run, [&](const Found& teams, const Found& one) {
        BOOST_TEST(teams.sums == one.sums);
        for (std::size_t i = 0; i < size; ++i) {
          BOOST_TEST(static_cast<float>(teams.rounded[i]) == static_cast<float>(one.rounded[i]));
        }
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_a_sum_find_all_of_it) {
  constexpr std::int64_t n = 2 * compute::detail::reduced_elements + 5;
  struct Found {
    std::vector<std::int64_t> partials{-77, -77, -77};
    std::int64_t total = -77;
  };
  const auto run = [](Found& found, const auto& by) {
    using Part = compute::detail::ReducePart<std::int64_t, WholeNumber, compute::Plus>;
    using Join = compute::detail::JoinParts<std::int64_t, compute::Plus>;
    by(3, Part{{}, 0, {}, n, found.partials.data()});
    by(1, Join{found.partials.data(), 3, 0, {}, &found.total});
  };
  std::int64_t expected = 0;
  for (std::int64_t i = 0; i < n; ++i) expected += WholeNumber{}(i);
  compare_with_one_thread(Found{}, run, [&](const Found& teams, const Found& one) {
    BOOST_TEST(teams.partials == one.partials);
    BOOST_TEST(teams.total == expected);
  });
}

BOOST_AUTO_TEST_CASE(threads_that_share_columns_sum_them_up) {
  constexpr std::int64_t rows = 2 * compute::detail::summed_rows + 3, columns = compute::detail::block_threads + 5;
  const auto values = random_numbers(rows * columns, -1.0f, 1.0f);
  const auto run = [&](std::vector<float>& partials, const auto& by) {
    by(3 * 2, compute::detail::SumRowsOfColumns<float>{compute::matrix(values.data(), rows, columns), 2,
                                                       partials.data()});
  };
  compare_with_one_thread(blank(3 * columns), run,
                          [](const auto& teams, const auto& one) { BOOST_TEST(teams == one); });
}

BOOST_AUTO_TEST_CASE(threads_that_share_a_chunk_measure_it_and_one_decides) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inverse = 0.5f;
  // Nothing bad; the first of two in one chunk, and in two.
  for (const std::vector<std::size_t>& bad : {std::vector<std::size_t>{}, {64 + 4097, 64 + 1030}, {64 + 8193, 2}}) {
    Flat flat;
    for (const std::size_t i : bad) flat.values[i] = nan;
    struct Found {
      std::vector<MeasurePartial> partials;
      Record record;
    };
    const auto run = [&](Found& found, const auto& by) {
      by(MeasureChunk{flat.chunks.data(), flat.segments.data(), flat.has_gradient.data(),
                                    flat.values.data(), &inverse, found.partials.data(), flat.count()});
      using Decide = detail::DecideStep<Record, Float16ScaledPolicy, AdamW>;
      by(Decide{{&found.record, found.partials.data(), flat.chunks.data(), flat.count(), true}, false,
                   &found.record, AdamW{}, 1.0f, 1.0f});
    };
    Found before{std::vector<MeasurePartial>(flat.chunks.size(), {-77.0, -77}), {}};
    before.record.state = initial_step_state(Float16ScaledPolicy::scaler);
    compare_with_one_thread(before, run, [&](const Found& teams, const Found& one) {
      for (std::size_t i = 0; i < teams.partials.size(); ++i) {
        BOOST_TEST(teams.partials[i].first_non_finite == one.partials[i].first_non_finite);
        // Halves of small whole numbers: exact in any order.
        if (bad.empty()) BOOST_TEST(teams.partials[i].sum_of_squares == one.partials[i].sum_of_squares);
      }
      const GradientFacts &facts = teams.record.facts, &expected = one.record.facts;
      BOOST_TEST(facts.gradients_finite == bad.empty());
      BOOST_TEST(facts.first_bad_parameter == expected.first_bad_parameter);
      BOOST_TEST(facts.first_bad_index == expected.first_bad_index);
      if (bad.empty()) BOOST_TEST(facts.sum_of_squares == expected.sum_of_squares);
      BOOST_TEST((teams.record.state == one.record.state));
      BOOST_TEST(teams.record.state.attempts == 1);
      BOOST_TEST(teams.record.update.apply == bad.empty());
    });
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_a_chunk_update_every_weight_once) {
  Flat flat;
  std::replace_if(flat.values.begin(), flat.values.end(), [](float value) { return is_nan(value); }, 0.0f);
  struct Found {
    std::vector<float> masters, m, v;
    std::vector<bfloat16> working;
  };
  const UpdateFacts<AdamW::Coefficients> facts{true, 0.25f, 0.75f, 2.0f, AdamW{}.coefficients(0.01f, 3)};
  const std::vector<ParameterOptions> options{{1, 1}, {0.5f, 0}, {1, 1}, {1, 2}};
  const auto run = [&](Found& found, const auto& by) {
    by(UpdateChunk<AdamW, bfloat16>{flat.chunks.data(), flat.has_gradient.data(), options.data(),
                                                  flat.values.data(), found.masters.data(), found.working.data(),
                                                  {{found.m.data(), found.v.data()}}, &facts, flat.count()});
  };
  const std::vector<float> ones(flat.values.size(), 1.0f);
  const Found before{ones, ones, ones, std::vector<bfloat16>(ones.size(), bfloat16(never_written))};
  compare_with_one_thread(before, run, [&](const Found& teams, const Found& one) {
    check_close(teams.masters, one.masters, float_tolerance);
    check_close(teams.m, one.m, float_tolerance);
    check_close(teams.v, one.v, float_tolerance);
    for (std::size_t i = 0; i < ones.size(); ++i) {
      BOOST_TEST((teams.working[i] == bfloat16(never_written)) == (one.working[i] == bfloat16(never_written)));
      if (one.working[i] != bfloat16(never_written)) BOOST_TEST((teams.working[i] == bfloat16(teams.masters[i])));
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
