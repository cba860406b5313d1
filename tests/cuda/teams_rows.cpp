// Kernels of norms, attention and rotary positions, by threads that share a row.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/nn/attention_teams.hpp>
#include <halfstep/nn/normalization_rows.hpp>
#include <halfstep/nn/rotary.hpp>
#include <vector>

#include "cuda/thread_team.hpp"
#include "support/tape.hpp"
#include "support/tolerance.hpp"

BOOST_AUTO_TEST_SUITE(teams_rows_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace teams_rows_test {

/// A row's two numbers side by side.
template <class Row>
std::vector<float> numbers_of(const std::vector<Row>& rows) {
  std::vector<float> numbers;
  for (const auto& [first, second] : rows) numbers.insert(numbers.end(), {first, second});
  return numbers;
}

constexpr std::int64_t norm_rows = 9;

template <class Rule, class Rows>
void compare_norm(std::int64_t width, const Rows& rows_into) {
  struct Found {
    std::vector<detail::RowNorm> norms;
    std::vector<float> sums, results;
  };
  const std::int64_t size = norm_rows * width;
  const auto weight = random_numbers(width, 0.5f, 2.0f, 3), bias = random_numbers(width, -1.0f, 1.0f, 4);
  const auto run = [&](Found& found, const auto& by) {
    const auto rows = rows_into(found.sums.data());
    by(detail::NormalizeRows<Rule, std::remove_const_t<decltype(rows)>, float>{
           {norm_rows, width}, rows, weight.data(), bias.data(), 1e-5f, found.norms.data(),
           found.results.data()});
  };
  const Found before{std::vector<detail::RowNorm>(norm_rows, {never_written, never_written}), blank(size), blank(size)};
  compare_with_one_thread(before, run, [](const Found& teams, const Found& one) {
    BOOST_TEST(teams.sums == one.sums);
    check_close(numbers_of(teams.norms), numbers_of(one.norms), float_tolerance);
    check_close(teams.results, one.results, float_tolerance);
  });
}

template <class Rule, class Onward>
void compare_norm_gradient(std::int64_t width, bool accumulate, const Onward& onward_into) {
  struct Found {
    std::vector<float> input, onward, weight, bias;
  };
  const std::int64_t size = norm_rows * width;
  const auto x = random_numbers(size, -2.0f, 2.0f), dy = random_numbers(size, -1.0f, 1.0f, 8);
  const auto weight = random_numbers(width, 0.5f, 2.0f, 3);
  const std::vector<detail::RowNorm> norms(norm_rows, {Rule::centers ? 0.25f : 0.0f, 1.5f});
  const detail::RowBlocks blocks{norm_rows, width};
  const auto run = [&](Found& found, const auto& by) {
    const auto onward = onward_into(found.onward.data());
    by(detail::NormGradientRows<Rule, float, float, std::remove_const_t<decltype(onward)>>{
           blocks, x.data(), dy.data(), weight.data(), norms.data(), {found.input.data(), accumulate},
           onward, found.weight.data(), found.bias.data()});
  };
  const Found before{blank(size), blank(size), blank(blocks.teams() * width), blank(blocks.teams() * width)};
  compare_with_one_thread(before, run, [](const Found& teams, const Found& one) {
    check_close(teams.input, one.input, float_tolerance);
    check_close(teams.onward, one.onward, float_tolerance);
    check_close(teams.weight, one.weight, float_tolerance);
    check_close(teams.bias, one.bias, float_tolerance);
  });
}

/// What a test of attention has: two sequences, of which the second may have no keys, and three groups of two heads.
struct Attention {
  std::int64_t keys, second_length;
  std::vector<std::int64_t> lengths{keys, second_length};

  static constexpr std::int64_t queries = 5, heads = 6, shared = 3, width = 7;
  detail::AttentionShape shape() const {
    return {2, queries, keys, heads, shared, width, true, keys - 4, 0.5f, lengths.data()};
  }
  detail::AttentionTile tile() const { return {1, 4, 1, 4, keys, detail::round_up(keys, 8)}; }
  std::int64_t scores() const { return 4 * 4 * (heads / shared) * tile().leading; }
  std::vector<detail::AttentionRow> statistics() const {
    return std::vector<detail::AttentionRow>(2 * heads * queries, {0.5f, 0.125f});
  }
};

template <class T>
detail::HeadsView<T> view_of(T* data, std::int64_t rows, std::int64_t heads) {
  return {data, rows, Attention::width, heads * Attention::width};
}

/// Rows that the threads keep in registers, and a longer one.
const std::vector<Attention> attentions{{11, 0}, {150, 131}};

}  // namespace teams_rows_test
using namespace teams_rows_test;

BOOST_AUTO_TEST_CASE(threads_that_share_a_row_normalize_it) {
  // A team's row lies in its registers up to 128 elements; a single thread's up to 32.
  for (const std::int64_t width : {1, 3, 31, 70, 131}) {
    const std::int64_t size = norm_rows * width;
    const auto a = random_numbers(size, -2.0f, 3.0f), b = random_numbers(size, -1.0f, 1.0f, 8);
    compare_norm<detail::LayerNormRule>(
        width, [&](float* sums) { return detail::SummedRows<float, float, float>{a.data(), b.data(), sums}; });
    compare_norm<detail::RmsNormRule>(width, [&](float*) { return detail::StoredRows<float>{a.data()}; });
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_rows_find_the_gradients_of_a_norm) {
  for (const std::int64_t width : {1, 6, 63, 70}) {
    for (const bool accumulate : {false, true}) {
      compare_norm_gradient<detail::LayerNormRule>(width, accumulate, [](float* onward) {
        return detail::GradientOfTerms<float, float>{{onward, true}, {}};
      });
      compare_norm_gradient<detail::RmsNormRule>(width, accumulate, [](float*) { return detail::GoesNowhere{}; });
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_scores_make_probabilities_of_them) {
  for (const Attention& attention : attentions) {
    struct Found {
      std::vector<float> scores;
      std::vector<float16> rounded;
      std::vector<detail::AttentionRow> statistics;
    };
    const auto run = [&](Found& found, const auto& by) {
      float* const scores = found.scores.data();
      by(detail::ShiftedScoreRows<float16>{attention.shape(), attention.tile(), scores,
                                           found.rounded.data(), found.statistics.data()});
      by(detail::ShiftedScoreRows<float>{attention.shape(), attention.tile(), scores, scores,
                                         found.statistics.data()});
    };
    const Found before{random_numbers(attention.scores(), -9.0f, 9.0f),
                       std::vector<float16>(static_cast<std::size_t>(attention.scores()), float16(never_written)),
                       attention.statistics()};
    compare_with_one_thread(before, run, [](const Found& teams, const Found& one) {
      BOOST_TEST(teams.scores == one.scores);
      BOOST_TEST(floats(Tensor<const float16>(teams.rounded.data(), {std::ssize(teams.rounded)})) ==
                 floats(Tensor<const float16>(one.rounded.data(), {std::ssize(one.rounded)})));
      check_close(numbers_of(teams.statistics), numbers_of(one.statistics), float_tolerance);
    });
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_scores_find_their_gradients) {
  for (const Attention& attention : attentions) {
    struct Found {
      std::vector<float> scores, gradients;
    };
    const auto statistics = attention.statistics();
    const auto deltas = random_numbers(std::ssize(statistics), -1.0f, 1.0f, 5);
    const auto run = [&](Found& found, const auto& by) {
      float *const scores = found.scores.data(), *const gradients = found.gradients.data();
      by(detail::ScoreGradientRows<float>{attention.shape(), attention.tile(), statistics.data(),
                                          deltas.data(), scores, gradients, scores, gradients});
    };
    const Found before{random_numbers(attention.scores(), -1.0f, 1.0f),
                       random_numbers(attention.scores(), -1.0f, 1.0f, 8)};
    compare_with_one_thread(before, run, [](const Found& teams, const Found& one) {
      check_close(teams.scores, one.scores, float_tolerance);
      check_close(teams.gradients, one.gradients, float_tolerance);
    });
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_heads_pack_add_and_store_them) {
  // Here a team takes a row of the heads' width, and more keys are only more teams.
  for (const Attention& attention : {Attention{11, 0}, Attention{23, 14}}) {
    struct Found {
      std::vector<float> queries, keys, deltas, stored, stored_keys;
    };
    constexpr std::int64_t count = 2 * Attention::queries * Attention::heads * Attention::width;
    const std::int64_t key_count = 2 * attention.keys * Attention::shared * Attention::width;
    const auto of_queries = random_numbers(count, -1.0f, 1.0f), others = random_numbers(count, -1.0f, 1.0f, 8);
    const auto of_keys = random_numbers(key_count, -1.0f, 1.0f);
    const auto statistics = attention.statistics();
    const auto shape = attention.shape();
    const auto run = [&](Found& found, const auto& by) {
      const auto queries = view_of(of_queries.data(), Attention::queries, Attention::heads);
      const auto keys = view_of(of_keys.data(), attention.keys, Attention::shared);
      by(detail::PackHeads<float>{shape, queries, Attention::queries, false, found.queries.data()});
      by(detail::PackHeads<float>{shape, keys, attention.keys, true, found.keys.data()});
      by(detail::AttentionDeltas<float>{shape, queries,
                                        view_of(others.data(), Attention::queries, Attention::heads),
                                        found.deltas.data()});
      by(detail::StoreHeads<float>{
             shape, 1, 4, 1, 3, 4, of_queries.data(), 0.5f, statistics.data(), false,
             {view_of(found.stored.data(), Attention::queries, Attention::heads), true}});
      by(detail::StoreHeads<float>{
             shape, 0, 6, 0, attention.keys, attention.keys, of_keys.data(), 0.5f, nullptr, true,
             {view_of(found.stored_keys.data(), attention.keys, Attention::shared), false}});
    };
    const Found before{blank(count), blank(key_count), blank(2 * Attention::queries * Attention::heads),
                       blank(count), blank(key_count)};
    compare_with_one_thread(before, run, [](const Found& teams, const Found& one) {
      BOOST_TEST(teams.queries == one.queries);
      BOOST_TEST(teams.keys == one.keys);
      check_close(teams.deltas, one.deltas, float_tolerance);
      check_close(teams.stored, one.stored, float_tolerance);
      BOOST_TEST(teams.stored_keys == one.stored_keys);
    });
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_a_row_turn_its_pairs) {
  struct Found {
    std::vector<float> cosines, sines, turned, gradients;
  };
  constexpr std::int64_t positions = 70, pairs = 7, rows = 2 * positions, width = 3 * 2 * pairs;
  const auto from = random_numbers(rows * width, -1.0f, 1.0f);
  const auto run = [&](Found& found, const auto& by) {
    const detail::RotaryTable table{found.cosines.data(), found.sines.data(), positions, pairs, 3, 10000.0};
    by(table);
    by(detail::RotaryRows<float, false>{from.data(), {found.turned.data(), false}, rows, width, table});
    by(detail::RotaryRows<float, true>{from.data(), {found.gradients.data(), true}, rows, width, table});
  };
  const Found before{blank(positions * pairs), blank(positions * pairs), blank(rows * width), blank(rows * width)};
  compare_with_one_thread(before, run, [](const Found& teams, const Found& one) {
    check_close(teams.cosines, one.cosines, float_tolerance);
    check_close(teams.sines, one.sines, float_tolerance);
    check_close(teams.turned, one.turned, float_tolerance);
    check_close(teams.gradients, one.gradients, float_tolerance);
  });
}

BOOST_AUTO_TEST_SUITE_END()
