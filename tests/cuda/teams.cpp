#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <vector>

#include <halfstep/device/host.hpp>
#include <halfstep/nn/add.hpp>
#include <halfstep/nn/cross_entropy.hpp>
#include <halfstep/nn/dropout.hpp>
#include <halfstep/nn/embedding.hpp>

#include "cuda/thread_team.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

using namespace halfstep;
using namespace halfstep::test;

namespace teams_test {

/// The version of a kernel that the host runs.
template <class Kernel>
void run_on_host(std::int64_t tasks, const Kernel& kernel) {
  for (std::int64_t task = 0; task < tasks; ++task) kernel(task);
}

std::vector<float16> halves(const std::vector<float>& numbers) {
  std::vector<float16> values;
  for (const float number : numbers) values.push_back(float16(number));
  return values;
}
std::vector<float> back(const std::vector<float16>& values) {
  return floats(Tensor<const float16>(values.data(), {std::ssize(values)}));
}

}  // namespace teams_test

BOOST_AUTO_TEST_SUITE(teams_tests)

using namespace teams_test;

BOOST_AUTO_TEST_CASE(threads_that_share_a_row_find_its_loss_and_gradient) {
  constexpr std::int64_t rows = 5;
  for (const std::int64_t classes : {1, 3, 70}) {
    for (const float smoothing : {0.0f, 0.25f}) {
      const auto logits = halves(random_numbers(rows * classes, -5.0f, 5.0f));
      const std::vector<std::int32_t> labels{0, static_cast<std::int32_t>(classes / 2), -100, 0,
                                             static_cast<std::int32_t>(classes - 1)};
      const detail::CrossEntropyRows<float16, std::int32_t> batch{
          logits.data(), labels.data(), rows, classes, -100, {1 - smoothing, smoothing / static_cast<float>(classes)}};
      struct Found {
        std::vector<detail::LogSumExp> normalizers = std::vector<detail::LogSumExp>(rows);
        std::vector<float> losses = std::vector<float>(rows, never_written);
        std::vector<float16> gradient;
      } host, teams;
      const auto forward = [&](Found& found) {
        return detail::CrossEntropyForward<float16, std::int32_t>{batch, found.normalizers.data(), found.losses.data()};
      };
      run_on_host(batch.tasks(), forward(host));
      run_by_teams(forward(teams));
      check_close(teams.losses, host.losses, float_tolerance);
      const float seed = 2.0f;
      const auto backward = [&](Found& found) {
        found.gradient.assign(logits.size(), float16(never_written));
        return detail::CrossEntropyGradient<float16, std::int32_t>{
            batch, found.normalizers.data(), &seed, {found.gradient.data(), false}};
      };
      run_on_host(batch.tasks(), backward(host));
      run_by_teams(backward(teams));
      check_close(back(teams.gradient), back(host.gradient), float16_tolerance);
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_a_range_drop_and_add_every_element_once) {
  constexpr std::int64_t n = 1000;
  const auto values = halves(random_numbers(n, 1.0f, 2.0f)), others = halves(random_numbers(n, 1.0f, 2.0f, 8));
  for (const bool accumulate : {false, true}) {
    auto host = others, teams = others;
    const auto kernel = [&](std::vector<float16>& to) {
      return detail::DropoutChunk<float16>{values.data(), to.data(), n, {1, 2}, 0.5f, 2.0f, accumulate};
    };
    run_on_host(1, kernel(host));
    run_by_teams(kernel(teams));
    BOOST_TEST(back(teams) == back(host));
  }
  for (const std::int64_t period : {std::int64_t{1}, std::int64_t{7}, std::int64_t{8}, std::int64_t{200}, n}) {
    std::vector<float16> host(n), teams(n);
    const auto kernel = [&](std::vector<float16>& sum) {
      return detail::AddChunk<float16, float16, float16>{values.data(), others.data(), sum.data(), n, period};
    };
    run_on_host(1, kernel(host));
    run_by_teams(kernel(teams));
    BOOST_TEST(back(teams) == back(host));
  }
  // As fours, and where memory does not begin one.
  for (const std::int64_t shift : {0, 1}) {
    std::vector<float16> host(n, float16(never_written)), teams = host;
    auto host_sums = random_numbers(n, -1.0f, 1.0f), teams_sums = host_sums;
    const auto kernel = [&](std::vector<float16>& a, std::vector<float>& b) {
      return detail::AddGradientChunk<float16, float, float16>{
          values.data() + shift, {{a.data() + shift, false}, {b.data(), true}}, n - shift};
    };
    run_on_host(1, kernel(host, host_sums));
    run_by_teams(kernel(teams, teams_sums));
    BOOST_TEST(back(teams) == back(host));
    BOOST_TEST(teams_sums == host_sums);
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_columns_look_rows_up_and_sum_their_gradients) {
  constexpr std::int64_t count = 150, kinds = 5, width = 131;
  std::vector<std::uint8_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::uint8_t>(i % 7 < 3 ? 4 : i % 4));
  const auto table = halves(random_numbers(kinds * width, -1.0f, 1.0f));
  std::vector<float16> host(count * width), teams(count * width);
  const auto look_up = [&](std::vector<float16>& to) {
    return detail::LookUpRows<float16, std::uint8_t>{table.data(), tokens.data(), count, width, to.data()};
  };
  run_on_host(look_up(host).tasks(), look_up(host));
  run_by_teams(look_up(teams));
  BOOST_TEST(back(teams) == back(host));

  std::vector<float> host_gradient(kinds * width, 1.0f), teams_gradient = host_gradient;
  const auto rows = [&](std::vector<float>& to) {
    return detail::RowsToAdd<float16, std::uint8_t>{host.data(), tokens.data(), count, width, to.data()};
  };
  const detail::AddToRows<float16, std::uint8_t> add{rows(host_gradient)};
  run_on_host(add.tasks(), add);
  std::vector<detail::TokenPlace> places(count);
  std::vector<std::int64_t> order(count, -1), merged(count, -1);
  std::vector<float> partials(count / detail::TokenPlace::of_piece * width, never_written);
  constexpr std::int64_t shortest_run = 32;
  run_by_teams(detail::SortRuns<std::uint8_t>{tokens.data(), count, shortest_run, order.data()});
  for (std::int64_t length = shortest_run; length < count; length *= 2) {
    run_by_teams(detail::MergeRuns<std::uint8_t>{{tokens.data(), count, order.data()}, length, merged.data()});
    std::swap(order, merged);
  }
  run_by_teams(detail::FindPlaces<std::uint8_t>{{tokens.data(), count, order.data()}, places.data()});
  for (std::size_t i = 1; i < count; ++i) {
    const auto before = static_cast<std::size_t>(order[i - 1]), here = static_cast<std::size_t>(order[i]);
    BOOST_TEST((tokens[before] < tokens[here] || (tokens[before] == tokens[here] && before < here)));
  }
  const auto to_teams = rows(teams_gradient);
  run_by_teams(detail::SumPieces<float16, std::uint8_t>{to_teams, places.data(), order.data(), partials.data()});
  run_by_teams(detail::JoinPieces<float16, std::uint8_t>{to_teams, places.data(), partials.data()});
  check_close(teams_gradient, host_gradient, float_tolerance.over(count));
}

BOOST_AUTO_TEST_SUITE_END()
