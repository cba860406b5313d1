// Kernels of pooling and convolutions, by threads that share a line of pixels or a patch.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/nn/im2col.hpp>
#include <halfstep/nn/pooling.hpp>
#include <vector>

#include "cuda/thread_team.hpp"
#include "support/tape.hpp"

BOOST_AUTO_TEST_SUITE(teams_images_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace teams_images_test {

struct Images {
  detail::Window2d window;
  std::int64_t pixels() const { return window.batch * window.height * window.width * window.channels; }
  std::int64_t results() const { return window.rows() * window.channels; }
  std::int64_t patches() const { return window.rows() * window.area() * window.channels; }
  std::int64_t lines() const { return window.batch * window.out_height; }
};

/// Fewer elements a line than a team has threads, and windows over one another and over the edges.
const std::vector<Images> all_images{
    {detail::window_over("test", {1, 3, 2, 1}, 2, 1, 0)},
    {detail::window_over("test", {2, 7, 6, 5}, {3, 2}, {2, 1}, 1)},
};

}  // namespace teams_images_test
using namespace teams_images_test;

BOOST_AUTO_TEST_CASE(threads_that_share_a_line_pool_it_and_find_its_gradients) {
  for (const Images& images : all_images) {
    struct Found {
      std::vector<float> largest, mean;
      std::vector<std::int32_t> pixels;
      std::vector<float> of_largest, of_mean;
    };
    const auto values = random_numbers(images.pixels(), -1.0f, 1.0f);
    const auto gradient = random_numbers(images.results(), -1.0f, 1.0f, 8);
    const auto& window = images.window;
    const auto run = [&](Found& found, const auto& by) {
      by(detail::PoolLine<float, detail::Largest<float>>{
          window, values.data(), {found.largest.data(), found.pixels.data()}});
      by(detail::PoolLine<float, detail::Mean<float>>{window, values.data(), {found.mean.data(), 4.0f}});
      by(detail::PoolGradientLine<float>{
             window, gradient.data(), found.pixels.data(), {found.of_largest.data(), false}});
      by(detail::PoolGradientLine<float>{window, gradient.data(), nullptr, {found.of_mean.data(), true}});
    };
    const Found before{blank(images.results()), blank(images.results()),
                       std::vector<std::int32_t>(static_cast<std::size_t>(images.results()), -1),
                       blank(images.pixels()), blank(images.pixels())};
    compare_with_one_thread(before, run, [](const Found& teams, const Found& one) {
      BOOST_TEST(teams.largest == one.largest);
      BOOST_TEST(teams.mean == one.mean);
      BOOST_TEST(teams.pixels == one.pixels);
      BOOST_TEST(teams.of_largest == one.of_largest);
      BOOST_TEST(teams.of_mean == one.of_mean);
    });
  }
}

BOOST_AUTO_TEST_CASE(threads_that_share_a_patch_gather_it_and_give_its_gradients_back) {
  for (const Images& images : all_images) {
    struct Found {
      std::vector<float> patches, sums, gradient;
    };
    const auto values = random_numbers(images.pixels(), -1.0f, 1.0f);
    const auto of_patches = random_numbers(images.patches(), -1.0f, 1.0f, 8);
    const auto& window = images.window;
    const auto run = [&](Found& found, const auto& by) {
      by(detail::GatherPatches<float>{window, values.data(), 1, window.rows() - 1, found.patches.data()});
      // The lines of places in two parts, the second of which adds to what the first has kept.
      const std::int64_t half = images.lines() / 2, line = images.patches() / images.lines();
      const GradientTarget<float> target{found.gradient.data(), true};
      by(detail::ScatterPatches<float>{window, of_patches.data(), 0, window.batch, 0, half,
                                       found.sums.data(), true, false, target});
      by(detail::ScatterPatches<float>{window, of_patches.data() + half * line, 0, window.batch, half,
                                       images.lines(), found.sums.data(), false, true, target});
    };
    const Found before{blank(images.patches()), blank(images.pixels()), blank(images.pixels())};
    compare_with_one_thread(before, run, [](const Found& teams, const Found& one) {
      BOOST_TEST(teams.patches == one.patches);
      BOOST_TEST(teams.sums == one.sums);
      BOOST_TEST(teams.gradient == one.gradient);
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
