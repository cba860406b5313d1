#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <halfstep/data/array_dataset.hpp>
#include <halfstep/data/loader.hpp>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(array_dataset_tests)

using namespace halfstep;
using test::holds;
using test::refusal;

namespace {

using Floats = std::vector<float>;
using Labels = std::vector<std::int32_t>;
using Indices = std::vector<std::int64_t>;

template <class T>
std::vector<T> values(Tensor<const T> tensor) {
  return {tensor.begin(), tensor.end()};
}

ArrayDataset<> three_pairs(float first = 1) {
  return {Shape{2}, Floats{first, 2, 3, 4, 5, 6}, Labels{7, 8, 9}};
}

static_assert(Dataset<ArrayDataset<>> && IdentifiedData<ArrayDataset<>>);
static_assert(Dataset<ArrayDataset<std::uint8_t, float>>);
static_assert(!std::is_copy_constructible_v<ArrayDataset<>::Batch>);

TypedArray bytes_array(Shape shape, const std::vector<int>& numbers) {
  std::vector<std::byte> bytes;
  for (const int number : numbers) bytes.push_back(static_cast<std::byte>(number));
  return {"file", DType::u8, shape, bytes};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_batch_holds_the_samples_asked_for_in_their_order) {
  const auto data = three_pairs();
  BOOST_TEST(data.size() == 3);
  ArrayDataset<>::Batch batch;
  data.load(Indices{2, 0, 2}, batch);
  BOOST_TEST((batch.features.shape() == Shape{3, 2}));
  BOOST_TEST((batch.labels.shape() == Shape{3}));
  BOOST_TEST((values(batch.features) == Floats{5, 6, 1, 2, 5, 6}));
  BOOST_TEST((values(batch.labels) == Labels{9, 7, 9}));
  // A smaller one in the same memory, and the batch moves.
  const float* const memory = batch.features.data();
  data.load(Indices{1}, batch);
  const ArrayDataset<>::Batch moved = std::move(batch);
  BOOST_TEST(moved.features.data() == memory);
  BOOST_TEST((values(moved.features) == Floats{3, 4}));
  BOOST_TEST((values(moved.labels) == Labels{8}));
}

BOOST_AUTO_TEST_CASE(shapes_of_samples_and_labels_follow_the_number_of_them) {
  const ArrayDataset<float, float> data(Shape{1, 2}, Floats{1, 2, 3, 4}, Floats{5, 6}, Shape{1});
  const auto all = data.all();
  BOOST_TEST((all.features.shape() == Shape{2, 1, 2}));
  BOOST_TEST((all.labels.shape() == Shape{2, 1}));
  const ArrayDataset<std::uint8_t> bare(Shape(), {1, 2, 3});
  BOOST_TEST(!bare.has_labels());
  BOOST_TEST((bare.all().features.shape() == Shape{3}));
  BOOST_TEST((bare.all().labels.shape() == Shape{0}));
  BOOST_TEST((bare.labels().shape() == Shape{0}));
}

BOOST_AUTO_TEST_CASE(a_subset_holds_its_samples_in_its_order) {
  const auto part = three_pairs().subset(Indices{2, 1});
  BOOST_TEST((values(part.features()) == Floats{5, 6, 3, 4}));
  BOOST_TEST((values(part.labels()) == Labels{9, 8}));
  BOOST_CHECK_THROW(three_pairs().subset(Indices{3}), ShapeError);
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_fit_are_refused) {
  const auto check = [](const auto& call, const char* part) {
    const std::string message = refusal<ShapeError>(call);
    BOOST_TEST(holds(message, part), message);
  };
  check(
      [] {
        ArrayDataset<>(Shape{2}, Floats{1, 2, 3});
      },
      "3 values are no whole number of samples of shape [2]");
  check([] { ArrayDataset<>(Shape{2}, Floats{1, 2}, Labels{1, 2}); }, "1 samples need as many labels");
  check(
      [] {
        ArrayDataset<>(Shape{1}, Floats{1, 2}, Labels{1, 2, 3}, Shape{2});
      },
      "2 samples need as many labels");
  // One value more than three pairs.
  check(
      [] {
        ArrayDataset<>(Shape{1}, Floats{1, 2, 3}, Labels{1, 2, 3, 4, 5, 6, 7}, Shape{2});
      },
      "3 samples need as many labels of shape [2], 7 values were given");
  check([] { ArrayDataset<>(Shape{2, 0}, Floats{}); }, "[2, 0]");
  check([] { ArrayDataset<>(Shape{1, 1, 1, 1, 1, 1}, Floats{1}); }, "6");
  const auto data = three_pairs();
  ArrayDataset<>::Batch batch;
  for (const std::int64_t index : {std::int64_t{-1}, std::int64_t{3}}) {
    check([&] { data.load(Indices{0, index}, batch); }, ("sample " + std::to_string(index)).c_str());
  }
}

BOOST_AUTO_TEST_CASE(a_position_in_other_data_is_refused) {
  const auto data = three_pairs(), same = three_pairs(), other = three_pairs(1.5f);
  const ArrayDataset<> relabelled(Shape{2}, Floats{1, 2, 3, 4, 5, 6}, Labels{7, 8, 8}),
      reshaped(Shape{2, 1}, Floats{1, 2, 3, 4, 5, 6}, Labels{7, 8, 9}),
      fewer(Shape{3}, Floats{1, 2, 3, 4, 5, 6}, Labels{7, 8});
  Loader loader(data, {.batch_size = 1});
  loader.next();
  const LoaderPosition saved = loader.position();
  BOOST_TEST(saved.dataset_size == 3);
  BOOST_TEST(saved.dataset == data.identity());
  Loader(same, {.batch_size = 1}).seek(saved);
  for (const auto* stranger : {&other, &relabelled, &reshaped}) {
    Loader elsewhere(*stranger, {.batch_size = 1});
    const LoaderPosition before = elsewhere.position();
    const std::string message = refusal<ConfigurationError>([&] { elsewhere.seek(saved); });
    BOOST_TEST(holds(message, data.identity()), message);
    BOOST_TEST(holds(message, stranger->identity()), message);
    BOOST_TEST((elsewhere.position() == before));
  }
  const std::string size = refusal<ConfigurationError>([&] { Loader(fewer, {.batch_size = 1}).seek(saved); });
  BOOST_TEST(holds(size, "of 3 samples, this one has 2"), size);
}

BOOST_AUTO_TEST_CASE(files_of_features_and_of_labels_become_a_dataset) {
  const auto data = array_dataset(bytes_array({2, 1, 2}, {0, 51, 102, 255}), bytes_array({2}, {3, 4}),
                                  {.subtract = 51, .divide_by = 102});
  BOOST_TEST((data.sample_shape() == Shape{1, 2}));
  BOOST_TEST((values(data.features()) == Floats{-0.5f, 0, 0.5f, 2}));
  BOOST_TEST((values(data.labels()) == Labels{3, 4}));
  const auto targets = array_dataset<float>(bytes_array({2}, {1, 2}), bytes_array({2, 2}, {1, 2, 3, 4}));
  BOOST_TEST((targets.all().labels.shape() == Shape{2, 2}));
  BOOST_TEST((targets.all().features.shape() == Shape{2}));

  const std::string count = refusal<ShapeError>([] {
    array_dataset(bytes_array({2}, {1, 2}), bytes_array({1}, {1}));
  });
  BOOST_TEST(holds(count, "2 samples, but file 1 labels"), count);
  const std::string scalar =
      refusal<ShapeError>([] { array_dataset(bytes_array({}, {1}), bytes_array({1}, {1})); });
  BOOST_TEST(holds(scalar, "single number"), scalar);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const Normalization& bad : {Normalization{.divide_by = 0}, Normalization{.divide_by = infinity},
                                   Normalization{.subtract = infinity}}) {
    BOOST_CHECK_THROW(array_dataset(bytes_array({1}, {1}), bytes_array({1}, {1}), bad), ConfigurationError);
  }
}

BOOST_AUTO_TEST_SUITE_END()
